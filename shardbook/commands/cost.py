"""`shardbook cost`: time, energy and money of a training; rent or own; reported trainings."""

from fractions import Fraction
from typing import Any

import click

from shardbook.commands.options import (
    COUNT,
    FLOPS,
    json_option,
    print_json,
    print_table,
    refuse_idle,
)
from shardbook.errors import InputError, one_of, real, whole
from shardbook.numbers.units import format_count
from shardbook.planner.cost import REPORTED, rent_or_own, training_cost
from shardbook.planner.presets import CARDS, model_named


@click.command(help="Time, energy and money of a training.")
@click.option("--model", help="A preset or key=value list, as for `shardbook plan`.")
@click.option("--parameters", type=COUNT, help="Instead of a model: parameters a token uses.")
@click.option("--tokens", type=COUNT, help="Tokens trained on, such as 15.6T.")
@click.option("--card", default="h100-80", show_default=True, metavar="NAME", help=", ".join(CARDS))
@click.option("--cards", type=COUNT, default="1024", show_default=True)
@click.option(
    "--utilisation", type=COUNT, metavar="NUMBER", help="Part of the peak reached (default: 0.4)."
)
@click.option("--achieved", type=FLOPS, help="Instead: FLOP/s that a card reaches.")
@click.option("--price", type=COUNT, metavar="DOLLARS", help="$ a card-hour (default: the card's).")
@click.option(
    "--overhead",
    type=COUNT,
    metavar="NUMBER",
    default="1.3",
    show_default=True,
    help="Power of everything ÷ power of the cards.",
)
@click.option(
    "--purchase",
    type=COUNT,
    metavar="DOLLARS",
    help="$ for an owned card: compares rent with owning.",
)
@click.option(
    "--years",
    type=COUNT,
    metavar="NUMBER",
    default="4",
    show_default=True,
    help="Life of an owned card.",
)
@click.option(
    "--duty",
    type=COUNT,
    metavar="NUMBER",
    default="0.8",
    show_default=True,
    help="Part of it in use.",
)
@click.option(
    "--electricity",
    type=COUNT,
    metavar="DOLLARS",
    default="0.1",
    show_default=True,
    help="$ a kWh.",
)
@click.option("--reported", is_flag=True, help="What reported trainings need to be true.")
@json_option
def command(**options: Any) -> None:  # fmt: skip
    """Print the cost of a training, or of the reported ones."""
    if options["reported"]:
        refuse_idle(options.keys() - {"reported", "as_json"}, "with --reported")
        _print_reported(options["as_json"])
    else:
        _print_cost(**options)


def _print_cost(
    model: str | None,
    parameters: Fraction | None,
    tokens: Fraction | None,
    card: str,
    cards: Fraction,
    utilisation: Fraction | None,
    achieved: Fraction | None,
    price: Fraction | None,
    overhead: Fraction,
    purchase: Fraction | None,
    years: Fraction,
    duty: Fraction,
    electricity: Fraction,
    reported: bool,
    as_json: bool,
) -> None:
    if purchase is None:
        refuse_idle(["years", "duty", "electricity"], "without --purchase")
    if (model is None) == (parameters is None):
        raise InputError("--model", model, "give either --model or --parameters")
    if tokens is None:
        raise InputError("--tokens", tokens, "give the tokens, such as 15.6T")
    if utilisation is not None and achieved is not None:
        raise InputError("--achieved", achieved, "give either --achieved or --utilisation")
    device = CARDS[one_of("--card", card, CARDS)]
    if price is None and not device.price:
        raise InputError("--price", price, f"give $ a card-hour: none is known for {card}")
    used = (
        model_named(model).active_parameters
        if model is not None
        else whole("--parameters", parameters, 1, 10**15)
    )
    share = real("--utilisation", 0.4 if utilisation is None else utilisation, 1e-6, 1)
    rate = device.peak * share if achieved is None else float(achieved)
    if rate > device.peak:
        allowed = f"give at most the card's peak, {device.peak / 1e12:g} TFLOP/s"
        raise InputError("--achieved", achieved, allowed)
    rent = device.price if price is None else real("--price", price, 0, 1e6, "$ an hour")
    count = whole("--cards", cards, 1, 10**7)
    bill = training_cost(
        used,
        whole("--tokens", tokens, 1, 10**18),
        count,
        rate,
        rent,
        device.watts,
        real("--overhead", overhead, 1, 10),
    )
    answer: dict[str, Any] = {
        "parameters": used,
        "flop": bill.flop,
        "achieved": rate,
        "seconds": bill.seconds,
        "card_hours": bill.card_hours,
        "kwh": bill.joules / 3.6e6,
        "price": rent,
        "dollars": bill.dollars,
        "dollars_per_million_tokens": bill.dollars_per_million_tokens,
    }
    if purchase is not None:
        own = rent_or_own(
            rent,
            float(purchase),
            float(years),
            float(duty),
            device.watts,
            float(electricity),
            float(overhead),
        )
        answer |= {
            "owned_price": own.dollars_per_used_hour,
            "owned_dollars": own.dollars_per_used_hour * bill.card_hours,
            "break_even_duty": own.break_even,
        }
    if as_json:
        print_json(answer)
        return
    rows = [
        [
            "compute",
            f"{bill.flop:.3g} FLOP = 6 × {format_count(used)} × {format_count(float(tokens))}",
        ],
        ["a card reaches", f"{rate / 1e12:,.4g} TFLOP/s ({rate / device.peak:.0%} of the peak)"],
        ["card-hours", f"{bill.card_hours:,.0f}"],
        ["time", f"{bill.seconds / 86400:,.1f} days on {count:,} cards"],
        ["energy", f"{bill.joules / 3.6e9:,.0f} MWh"],
        ["money", f"${bill.dollars:,.0f} at ${rent:g} a card-hour"],
        ["a million tokens", f"${bill.dollars_per_million_tokens:,.4f}"],
    ]
    if purchase is not None:
        even = answer["break_even_duty"]
        rows.append(["owned", f"${answer['owned_price']:.2f} a used card-hour"])
        says = (
            "never" if even is None or even > 1 else f"when busy more than {even:.0%} of the time"
        )
        rows.append(["owning pays", says])
    print_table(["one training", "value"], rows)


def _print_reported(as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "card_hours": each.card_hours,
                    "dollars": each.dollars,
                    "price_needed": each.price_needed,
                    "achieved_needed": each.achieved_needed,
                    "utilisation_needed": each.utilisation_needed,
                    "source": each.source,
                }
                for each in REPORTED
            ]
        )
        return
    print_table(
        ["training", "card-hours", "claimed", "needs $ an hour", "needs TFLOP/s", "of the peak"],
        [
            [
                each.name,
                f"{each.card_hours / 1e6:.3f}M",
                f"${each.dollars / 1e6:.2f}M",
                f"{each.price_needed:.2f}",
                f"{each.achieved_needed / 1e12:.0f}",
                f"{each.utilisation_needed:.0%}",
            ]
            for each in REPORTED
        ],
    )
    for each in REPORTED:
        click.echo(f"{each.name}: {each.source}")
