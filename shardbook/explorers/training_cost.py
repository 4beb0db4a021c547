"""What a training costs: card-hours and days, and the bill for rented and for owned cards."""

from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_count, format_seconds
from shardbook.planner.cost import Cost, Ownership, rent_or_own, training_cost
from shardbook.planner.presets import CARDS

_CARD = CARDS["h100-80"]
#: the page's assumptions for an owned card: years of life, $ a kWh, power of all ÷ of the cards
YEARS, ELECTRICITY, OVERHEAD = 4.0, 0.1, 1.3
_WIDTH, _ROW, _BAR = 640, 66, 26


def _draw(
    parameters: int,
    tokens: int,
    cards: int,
    utilisation: float,
    price: float,
    purchase: float,
    busy: float,
) -> View:
    rate = _CARD.peak * utilisation / 100
    bill = training_cost(parameters, tokens, cards, rate, price, _CARD.watts, OVERHEAD)
    own = rent_or_own(price, purchase, YEARS, busy / 100, _CARD.watts, ELECTRICITY, OVERHEAD)
    owned = own.dollars_per_used_hour * bill.card_hours
    running = own.running_per_hour * bill.card_hours
    return View(
        _figure(bill, cards, price, own, owned, running, busy),
        _table(bill, cards, price, own, owned),
        _sentence(bill, cards, own, owned, busy),
    )


def _figure(
    bill: Cost,
    cards: int,
    price: float,
    own: Ownership,
    owned: float,
    running: float,
    busy: float,
) -> str:
    root = draw.canvas(_WIDTH + 8, 46 + 2 * _ROW)
    length = f"{days(bill)} on {_counted(cards)}"
    draw.words(root, 4, 18, f"{_many(bill.card_hours)} card-hours: {length}", class_="sb-strong")
    scale = _WIDTH / max(bill.dollars, owned, 1e-9)
    draw.words(root, 4, 60, f"rented: {money(bill.dollars)}, at ${price:,.4g} a card-hour")
    _bar(root, 68, 0, bill.dollars * scale, 0.85)
    text = f"owned, busy {busy:.3g}%: {money(owned)}, at {money(own.dollars_per_used_hour)}"
    draw.words(root, 4, 60 + _ROW, f"{text} (outlined: electricity)")
    bought = (owned - running) * scale
    _bar(root, 68 + _ROW, 0, bought, 0.45)
    draw.outline(root, 4 + bought, 68 + _ROW, running * scale, _BAR)
    return draw.text_of(root)


def _bar(root: Element, y: float, x: float, width: float, opacity: float) -> None:
    draw.add(
        root, "rect", x=4 + x, y=y, width=width, height=_BAR, fill="currentColor",
        fill_opacity=f"{opacity}",
    )  # fmt: skip


def _table(bill: Cost, cards: int, price: float, own: Ownership, owned: float) -> Table:
    return Table(
        f"{bill.flop:.3g} FLOP, {_many(bill.card_hours)} card-hours, {days(bill)} on {_counted(cards)},"
        f" {bill.joules / 3.6e9:,.0f} MWh",
        ("cards are", "$ a card-hour", "bill", "$ a million tokens"),
        (
            ("rented", f"{price:,.4g}", money(bill.dollars),
             f"{bill.dollars_per_million_tokens:,.3g}"),
            ("owned", _many(own.dollars_per_used_hour), money(owned),
             f"{bill.dollars_per_million_tokens * owned / bill.dollars:,.3g}"),
        ),
    )  # fmt: skip


def _sentence(bill: Cost, cards: int, own: Ownership, owned: float, busy: float) -> str:
    start = (
        f"The training takes {_many(bill.card_hours)} card-hours, {days(bill)} on"
        f" {_counted(cards)}, and {money(bill.dollars)} of rent"
    )
    if own.break_even is None or own.break_even > 1:
        return f"{start}; at this price owning never pays."
    less = "less" if owned < bill.dollars else "more"
    return (
        f"{start}; owned cards busy {busy:.3g}% of their life cost {less}, {money(owned)}, and"
        f" owning pays above {own.break_even:.0%}."
    )


def days(bill: Cost) -> str:
    """The wall time as it is spoken: seconds below an hour, years above two of them."""
    hours = bill.seconds / 3600
    if hours < 1:
        return format_seconds(bill.seconds)
    if hours < 48:
        return f"{hours:,.3g} h"
    return f"{hours / 24:,.0f} days" if hours < 2 * 365 * 24 else f"{_many(hours / 8760)} years"


def money(dollars: float) -> str:
    """Dollars with a short scale: $92.3M."""
    return f"${_many(dollars)}"


def _counted(cards: int) -> str:
    return f"{cards:,} {'card' if cards == 1 else 'cards'}"


def _many(number: float) -> str:
    return format_count(number, 3)


EXPLORER = Explorer(
    "training-cost",
    "What a training costs, rented or owned (H100 cards)",
    (
        Number("parameters", "Parameters a token uses", "405B",
               ("1B", "8B", "37B", "70B", "175B", "405B", "1T"), 1e6, 1e14),
        Number("tokens", "Tokens", "15.6T",
               ("100B", "1T", "2T", "5T", "10T", "15.6T", "20T", "50T"), 1e6, 1e16),
        Number("cards", "Cards", "16384", doublings(17), 1, 1e6),
        Number("utilisation", "Part of the peak reached, %", "40",
               tuple(str(5 * n) for n in range(2, 15)), 1, 100, integer=False),
        Number("price", "Rent, $ a card-hour", "3.5",
               ("1", "1.5", "2", "2.5", "3", "3.5", "4", "5", "8"), 0.01, 1000, integer=False),
        Number("purchase", "Price of an owned card with its share of a server, $", "40000",
               ("10000", "20000", "30000", "40000", "50000", "60000"), 1, 1e7, integer=False),
        Number("busy", "Part of its life that it is busy, %", "80",
               tuple(str(10 * n) for n in range(1, 11)), 1, 100, integer=False),
    ),
    _draw,
)  # fmt: skip
