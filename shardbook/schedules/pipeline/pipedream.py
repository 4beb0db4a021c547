"""PipeDream: 1F1B without a flush, so that weights change while micro-batches are under way.

Source: Narayanan et al., "PipeDream", SOSP 2019, section 3.3 (weight stashing).
"""

from dataclasses import dataclass

from shardbook.schedules.pipeline.actions import BACKWARD, FORWARD, Order
from shardbook.schedules.pipeline.orders import make_order


@dataclass(frozen=True, slots=True)
class PipeDream:
    """The order, and by rank: the weight version that each micro-batch's forward and backward use.

    Version k is the weights after k updates; each backward is followed by an update of its
    stage. ``staleness``: updates between a micro-batch's forward and its own, by rank and
    micro-batch. ``stashed``: the most versions that micro-batches under way need at once.
    """

    order: Order
    versions: tuple[tuple[int, ...], ...]
    staleness: tuple[tuple[int, ...], ...]
    stashed: tuple[int, ...]


def pipedream(ranks: int, micro_batches: int) -> PipeDream:
    """Follow the weight versions of ``ranks`` stages over ``micro_batches`` (at least ``ranks``).

    In the steady state rank r of P keeps P − r versions and is P − 1 − r updates behind.

    (S57)
    """
    order = make_order("1f1b", ranks, micro_batches)
    versions, staleness, stashed = [], [], []
    for row in order:
        used: list[int] = []
        stale: list[int] = []
        most = 0
        for action in row:
            if action.kind == FORWARD:
                used.append(len(stale))
                most = max(most, len(set(used[len(stale) :])))
            elif action.kind == BACKWARD:
                stale.append(len(stale) - used[len(stale)])
        versions.append(tuple(used))
        staleness.append(tuple(stale))
        stashed.append(most)
    return PipeDream(order, tuple(versions), tuple(staleness), tuple(stashed))
