"""What a training costs: time, energy and money from tokens, model, cards and utilisation.

A token costs 6 FLOP a parameter that it uses, forward and backward (Kaplan et al., 2020, §2.1);
recomputation and attention's own products come on top and are left out, as in the model FLOPs
utilisation of Chowdhery et al., PaLM, 2022, appendix B. (S75)
"""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import real, whole

HOUR: Final = 3600.0
_YEAR_HOURS: Final = 365 * 24.0
FLOP_PER_PARAMETER: Final = 6


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOP of a training; wall time in s; card-hours; energy in J; money in $."""

    flop: float
    seconds: float
    card_hours: float
    joules: float
    dollars: float
    dollars_per_million_tokens: float

    def __str__(self) -> str:
        return f"{self.card_hours:,.0f} card-hours, ${self.dollars:,.0f}"


def training_cost(
    parameters: int,
    tokens: int,
    cards: int,
    achieved: float,
    price: float,
    watts: float = 0.0,
    overhead: float = 1.0,
) -> Cost:
    """Return what training ``parameters`` (those a token uses) on ``tokens`` costs (S75).

    ``achieved``: model FLOP/s that each card reaches; ``price``: $ a card-hour; ``watts``: W a
    card, times ``overhead`` for hosts, network and cooling.

    Raises:
        InputError: a value out of its range.
    """
    parameters = whole("parameters", parameters, 1, 10**15)
    tokens = whole("tokens", tokens, 1, 10**18)
    cards = whole("cards", cards, 1, 10**7)
    achieved = real("achieved", achieved, 1, 1e20, "FLOP/s")
    price = real("price", price, 0, 1e6, "$ an hour")
    power = real("watts", watts, 0, 1e6, "W") * real("overhead", overhead, 1, 10)
    flop = float(FLOP_PER_PARAMETER * parameters * tokens)
    card_seconds = flop / achieved
    dollars = card_seconds / HOUR * price
    return Cost(
        flop,
        card_seconds / cards,
        card_seconds / HOUR,
        card_seconds * power,
        dollars,
        dollars / tokens * 1e6,
    )


@dataclass(frozen=True, slots=True)
class Ownership:
    """An owned card: $ an hour of use, and the part of its life it must be busy to beat rent.

    ``break_even`` is None where rent is below the running cost: owning never pays.
    """

    dollars_per_used_hour: float
    running_per_hour: float
    break_even: float | None


def rent_or_own(
    rent: float,
    purchase: float,
    years: float,
    duty: float,
    watts: float,
    electricity: float,
    overhead: float = 1.0,
) -> Ownership:
    """Compare renting a card-hour with owning the card (S73).

    ``purchase``: $ for a card with its share of host and network; used a part ``duty`` of
    ``years``; ``electricity``: $ a kWh. A used hour costs purchase ÷ used hours + electricity.

    Raises:
        InputError: a value out of its range.
    """
    rent = real("price", rent, 0, 1e6, "$ an hour")
    purchase = real("purchase", purchase, 0, 1e9, "$")
    hours = real("years", years, 0.01, 100) * _YEAR_HOURS
    duty = real("duty", duty, 0.001, 1)
    power = real("watts", watts, 0, 1e6, "W") * real("overhead", overhead, 1, 10)
    running = power / 1000 * real("electricity", electricity, 0, 100, "$ a kWh")
    needed = purchase / hours / (rent - running) if rent > running else None
    return Ownership(purchase / (hours * duty) + running, running, needed)


@dataclass(frozen=True, slots=True)
class Reported:
    """A training as reported: parameters a token uses, tokens, card-hours, dollars claimed."""

    name: str
    parameters: int
    tokens: int
    card_hours: float
    dollars: float
    peak: float
    source: str

    @property
    def price_needed(self) -> float:
        """The $ a card-hour at which the claimed money pays for the reported hours."""
        return self.dollars / self.card_hours

    @property
    def achieved_needed(self) -> float:
        """The model FLOP/s a card that the reported hours imply."""
        return FLOP_PER_PARAMETER * self.parameters * self.tokens / (self.card_hours * HOUR)

    @property
    def utilisation_needed(self) -> float:
        """The part of the card's peak that the reported hours imply."""
        return self.achieved_needed / self.peak


REPORTED: Final = (
    Reported(
        "Llama 3 405B",
        405 * 10**9,
        15_600 * 10**9,
        30.84e6,
        100e6,
        989.4e12,
        "hours: Llama 3.1 model card; tokens: Llama Team, 2024; about $100M: source lectures",
    ),
    Reported(
        "DeepSeek-V3",
        37 * 10**9,
        14_800 * 10**9,
        2.788e6,
        5.576e6,
        989.4e12,
        "DeepSeek-V3 report, 2024: H800-hours at $2; the final run only, no research",
    ),
)
