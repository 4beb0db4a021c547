"""Tables of the ZeRO paper beside the values that the ledger computes.

Rajbhandari, Rasley, Ruwase, He: ZeRO, SC 2020, Tables 1 and 2 as printed. GB = 10⁹ B.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardbook.ledger.fits import largest_model
from shardbook.ledger.recipes import DEFAULT_RECIPE
from shardbook.ledger.stages import bytes_per_rank
from shardbook.numbers.units import GB

_MODELS: Final = (
    ("7.5B", 7_500_000_000),
    ("128B", 128_000_000_000),
    ("1T", 1_000_000_000_000),
)

#: data-parallel degree N_d → for each model GB at P_os, P_os+g, P_os+g+p
_TABLE_1: Final = {
    1: "120 120 120  2048 2048 2048  16000 16000 16000",
    4: "52.5 41.3 30  896 704 512  7000 5500 4000",
    16: "35.6 21.6 7.5  608 368 128  4750 2875 1000",
    64: "31.4 16.6 1.88  536 284 32  4187 2218 250",
    256: "30.4 15.4 0.47  518 263 8  4046 2054 62.5",
    1024: "30.1 15.1 0.12  513 257 2  4011 2013 15.6",
}

#: model-parallel degree → largest model at stages 0 to 3, 64 data-parallel ranks, 32 GB cards
_TABLE_2: Final = {
    1: "2B 7.6B 14.4B 128B",
    2: "4B 15.2B 28.8B 256B",
    4: "8B 30.4B 57.6B 0.5T",
    8: "16B 60.8B 115.2B 1T",
    16: "32B 121.6B 230.4B 2T",
}
_TABLE_2_CARD: Final = 32 * GB
_TABLE_2_RANKS: Final = 64

#: The largest model the paper ran with P_os at MP 1 (Table 2, "Measured").
MEASURED_STAGE_1: Final = 6_200_000_000


@dataclass(frozen=True, slots=True)
class StateSize:
    """One value of Table 1: bytes (B) on one rank as computed, GB as printed."""

    model: str
    parameters: int
    ranks: int
    stage: int
    computed_bytes: int
    printed: str

    @property
    def relative_difference(self) -> float:
        """|computed − printed| ÷ printed."""
        printed = Fraction(self.printed) * GB
        return float(abs(self.computed_bytes - printed) / printed)


@dataclass(frozen=True, slots=True)
class ModelSize:
    """One value of Table 2: the largest model in parameters.

    ``exact`` is the most that fits; ``rounded`` is the paper's way: the value at MP 1 to 0.1 billion,
    times MP; ``printed`` is what stands in the paper.
    """

    model_parallel: int
    cards: int
    stage: int
    exact: int
    rounded: int
    printed: str

    @property
    def relative_difference(self) -> float:
        """|exact − printed| ÷ printed."""
        scale = 10**12 if self.printed.endswith("T") else 10**9
        printed = Fraction(self.printed[:-1]) * scale
        return float(abs(self.exact - printed) / printed)


def table_1() -> tuple[StateSize, ...]:
    """All 54 values of ZeRO's Table 1: six degrees × three models × three stages (S4)."""
    return tuple(
        StateSize(
            name,
            parameters,
            ranks,
            stage,
            bytes_per_rank(parameters, ranks, stage).fullest_rank_bytes,
            row.split()[3 * model + stage - 1],
        )
        for ranks, row in _TABLE_1.items()
        for model, (name, parameters) in enumerate(_MODELS)
        for stage in (1, 2, 3)
    )


def table_2() -> tuple[ModelSize, ...]:
    """All 20 theoretical values of ZeRO's Table 2: five degrees × four stages (S5)."""
    return tuple(
        ModelSize(
            parallel,
            parallel * _TABLE_2_RANKS,
            stage,
            largest_model(_TABLE_2_CARD, _TABLE_2_RANKS, stage, model_parallel=parallel),
            rounded_first(largest_model(_TABLE_2_CARD, _TABLE_2_RANKS, stage), parallel),
            printed,
        )
        for parallel, row in _TABLE_2.items()
        for stage, printed in enumerate(row.split())
    )


def rounded_first(largest: int, model_parallel: int) -> int:
    """Scale a largest model at MP 1 as Table 2 does: to 0.1 billion first, then times MP."""
    return model_parallel * round(largest, -8)


def table_2_row(
    card_bytes: int, ranks: int, model_parallel: int, recipe: str
) -> tuple[str, ...] | None:
    """What Table 2 prints for stages 0 to 3, or None if it has no such row."""
    asked = (card_bytes, ranks, recipe)
    if asked != (_TABLE_2_CARD, _TABLE_2_RANKS, DEFAULT_RECIPE) or model_parallel not in _TABLE_2:
        return None
    return tuple(_TABLE_2[model_parallel].split())


def as_printed(parameters: int) -> str:
    """Write a size as Table 2 does: billions, from half a trillion on trillions to one digit."""
    if parameters >= 5 * 10**11:
        return f"{parameters / 10**12:.1g}T"
    return f"{parameters / 10**9:g}B"
