"""What a step of hybrid sharding sends: by a rank, and out of a node.

Source: Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.2: each group of F ranks holds the
model once; groups are replicas of each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from shardbook.collectives.measure import measure
from shardbook.collectives.network import Link, two_level
from shardbook.collectives.plan import Plan, ceil_div
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from shardbook.errors import InputError, whole


@dataclass(frozen=True, slots=True)
class NodeTraffic:
    """One step of ZeRO-3 in shard groups, in B: rank 0, and the first node."""

    shard: int  #: F, ranks in a group
    sent: int  #: by rank 0
    node_egress: int  #: what leaves the first node, of all its ranks
    rounds: int  #: of rank 0's collectives, if the model is one unit


def node_traffic(
    elements: int, ranks: int, shard: int, ranks_per_node: int, element_bytes: int = 2
) -> NodeTraffic:
    """Count two all-gathers and a reduce-scatter in each group, an all-reduce among replicas.

    Rings go from rank to rank in order, so that a ring over whole nodes crosses each border
    once (S34). Raises InputError: ``shard`` or ``ranks per node`` does not divide ``ranks``.
    """
    whole("ranks", ranks, 1, 4096)
    if ranks % whole("shard", shard, 1, ranks):
        raise InputError("shard", shard, f"give a divisor of the {ranks} ranks")
    if ranks % whole("ranks per node", ranks_per_node, 1, ranks):
        raise InputError("ranks per node", ranks_per_node, f"give a divisor of the {ranks} ranks")
    link = Link(0.0, 1.0)
    network = two_level(link, link, ranks_per_node)
    padded = ceil_div(whole("elements", elements, 1, 1 << 50), ranks) * ranks
    sent = egress = rounds = 0
    for plan, times in _plans(padded, ranks, shard):
        counted = measure(plan, network, element_bytes)
        egress += times * counted.node_egress().get(0, 0)
        if 0 in plan.ranks:
            rounds += times * counted.rounds
            sent += times * counted.sent[plan.ranks.index(0)]
    return NodeTraffic(shard, sent, egress, rounds)


def _plans(elements: int, ranks: int, shard: int) -> Iterator[tuple[Plan, int]]:
    """Each ring of the step, and how often it runs."""
    if shard > 1:
        for first in range(0, ranks, shard):
            group = range(first, first + shard)
            yield ring_all_gather(group, elements), 2
            yield ring_reduce_scatter(group, elements), 1
    if shard < ranks:
        for place in range(shard):
            yield ring_all_reduce(range(place, ranks, shard), elements // shard), 1


@dataclass(frozen=True, slots=True)
class NodeEgress:
    """What leaves a node in a step, in B: on the rings of its shard groups, and between replicas."""

    group: Fraction
    replicas: Fraction

    @property
    def total(self) -> Fraction:
        """Both together."""
        return self.group + self.replicas


def node_egress(size: int, ranks: int, shard: int, ranks_per_node: int) -> NodeEgress:
    """Return what `node_traffic` counts as leaving a node, by formula, for ``size`` B of weights.

    A ring that visits several nodes leaves each of them over one edge, and an edge carries what
    one rank sends. Raises InputError: a group neither fits a node evenly nor fills nodes.
    """
    whole("ranks", ranks, 1, 1 << 20)
    if ranks % whole("ranks per node", ranks_per_node, 1, ranks):
        raise InputError("ranks per node", ranks_per_node, f"give a divisor of the {ranks} ranks")
    width = whole("shard", shard, 1, ranks)
    if ranks % width or (width % ranks_per_node and ranks_per_node % width):
        allowed = f"give a divisor of the {ranks} ranks that divides {ranks_per_node} or a multiple"
        raise InputError("shard", shard, allowed)
    spans = width > ranks_per_node
    group = 3 * Fraction(width - 1, width) * size if spans else Fraction(0)
    replicas = ranks // width
    rings = min(width, ranks_per_node) if ranks > ranks_per_node else 0
    return NodeEgress(group, rings * 2 * Fraction(replicas - 1, replicas) * Fraction(size, width))
