"""The plan of a collective by the names of collective and algorithm."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from shardbook.collectives.contract import COLLECTIVES
from shardbook.collectives.exchange import direct, halving_doubling
from shardbook.collectives.hierarchical import hierarchical
from shardbook.collectives.plan import Plan
from shardbook.collectives.ring import (
    ring_all_gather,
    ring_all_reduce,
    ring_all_to_all,
    ring_broadcast,
    ring_reduce,
    ring_reduce_scatter,
)
from shardbook.collectives.tree import naive, tree
from shardbook.errors import InputError, one_of, whole

_RING: Final[dict[str, Callable[[int, int | Sequence[int]], Plan]]] = {
    "all-reduce": ring_all_reduce,
    "reduce-scatter": ring_reduce_scatter,
    "all-gather": ring_all_gather,
    "all-to-all": ring_all_to_all,
    "broadcast": ring_broadcast,
    "reduce": ring_reduce,
}
#: algorithm → the collectives it makes sense for
ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    "ring": tuple(_RING),
    "tree": COLLECTIVES,
    "naive": COLLECTIVES,
    "direct": ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"),
    "halving-doubling": ("all-reduce", "reduce-scatter", "all-gather"),
    "hierarchical": tuple(_RING),
}


def plan_of(
    collective: str,
    algorithm: str,
    ranks: int,
    elements: int | Sequence[int],
    ranks_per_node: int | None = None,
) -> Plan:
    """Return the plan of ``collective`` by ``algorithm`` among ranks 0 … ``ranks`` - 1.

    ``elements`` is S as nccl-tests counts it: the whole vector, N times a rank's shard for
    reduce-scatter, all-gather, gather and scatter, what one rank sends (its own part included)
    for all-to-all; or the elements of each chunk. ``ranks_per_node`` is used by the hierarchical
    algorithm; default: `squarest_node`. Raises InputError.
    """
    one_of("collective", collective, COLLECTIVES)
    one_of("algorithm", algorithm, ALGORITHMS)
    if collective not in ALGORITHMS[algorithm]:
        allowed = [name for name, done in ALGORITHMS.items() if collective in done]
        raise InputError("algorithm", algorithm, f"{collective} has {', '.join(allowed)}")
    n = whole("ranks", ranks, 1, 1 << 16)
    makers: dict[str, Callable[[int, int | Sequence[int]], Plan]] = {
        "ring": _RING.get(collective, ring_all_reduce),
        "tree": partial(tree, collective),
        "naive": partial(naive, collective),
        "direct": partial(direct, collective),
        "halving-doubling": partial(halving_doubling, collective),
        "hierarchical": lambda n, size: hierarchical(
            collective, n, size, ranks_per_node or squarest_node(n)
        ),
    }
    return makers[algorithm](n, elements)


def squarest_node(ranks: int) -> int:
    """Return the ranks per node that cut ``ranks`` most evenly into nodes: 8 are 2 nodes × 4."""
    return next(width for width in range(1, ranks + 1) if width**2 >= ranks and not ranks % width)
