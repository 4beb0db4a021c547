"""What one training step sends under each strategy: its collectives, counted as rings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.plan import MOST_ELEMENTS, MOST_RANKS, ceil_div
from shardbook.errors import InputError, one_of, whole

#: strategy → the collectives of a step for each unit of parameters. `zero1-all-reduce` is ZeRO-1
#: as it is often drawn; the others follow Rajbhandari et al., "ZeRO", SC 2020, section 7.
COLLECTIVES_OF: Final[dict[str, tuple[str, ...]]] = {
    "dp": ("all-reduce",),
    "zero1-all-reduce": ("all-reduce", "all-gather"),
    "zero1": ("reduce-scatter", "all-gather"),
    "zero2": ("reduce-scatter", "all-gather"),
    "zero3": ("all-gather", "all-gather", "reduce-scatter"),
}


@dataclass(frozen=True, slots=True)
class StepTraffic:
    """One step: elements with padding, bytes each rank sends, rounds, collectives by name."""

    padded_elements: int
    sent_bytes_per_rank: int
    rounds: int
    collectives: tuple[str, ...]


def step_traffic(
    strategy: str, ranks: int, units: Sequence[int], element_bytes: int = 2
) -> StepTraffic:
    """Return what one step of ``strategy`` sends among N ``ranks``.

    ``units``: parameters of each unit that is communicated in one piece, padded to a multiple of
    N; ``element_bytes``: B of a gradient and of a gathered parameter. Among N ranks 2Ψ bytes
    become 2(N - 1)/N · 2Ψ, and 3(N - 1)/N · 2Ψ for ZeRO-3 and the drawn ZeRO-1. Raises
    InputError.
    """
    names = COLLECTIVES_OF[one_of("strategy", strategy, COLLECTIVES_OF)]
    n = whole("ranks", ranks, 1, MOST_RANKS)
    if not units:
        raise InputError("units", units, "give at least one")
    padded = [ceil_div(whole("units", unit, 1, MOST_ELEMENTS), n) * n for unit in units]
    network = flat(0.0, 1.0)
    counted = [
        measure(plan_of(name, "ring", n, unit), network, element_bytes)
        for unit in padded
        for name in names
    ]
    return StepTraffic(
        sum(padded),
        sum(one.sent[0] for one in counted),
        sum(one.rounds for one in counted),
        names * len(padded),
    )
