"""Process groups: which ranks talk to each other along each axis of parallelism."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from shardbook.collectives.measure import measure
from shardbook.collectives.network import Link, two_level
from shardbook.collectives.plan import MOST_RANKS
from shardbook.collectives.ring import ring_all_reduce
from shardbook.errors import InputError, whole

Groups = tuple[tuple[int, ...], ...]


def process_groups(axes: Mapping[str, int]) -> dict[str, Groups]:
    """Return the groups of each axis; the axes are named from the fastest-varying one on (S61).

    ``{"TP": 4, "DP": 2}`` gives TP [0-3], [4-7] and DP [0, 4], [1, 5], [2, 6], [3, 7].
    Raises InputError.
    """
    if not axes:
        raise InputError("axes", dict(axes), "name at least one, such as TP=4")
    degrees = {name: whole(name, degree, 1, MOST_RANKS) for name, degree in axes.items()}
    world = whole("ranks", prod(degrees.values()), 1, MOST_RANKS)
    groups = {}
    stride = 1
    for name, degree in degrees.items():
        span = stride * degree
        groups[name] = tuple(
            tuple(range(first, first + span, stride))
            for block in range(0, world, span)
            for first in range(block, block + stride)
        )
        stride = span
    return groups


@dataclass(frozen=True, slots=True)
class AxisTraffic:
    """What the all-reduces along one axis send, in B, inside nodes and between them."""

    axis: str
    groups: Groups
    inside_bytes: int
    between_bytes: int


def axis_traffic(
    axes: Mapping[str, int], sizes: Mapping[str, int], ranks_per_node: int
) -> tuple[AxisTraffic, ...]:
    """Return the ring all-reduce traffic of each axis (S61).

    ``axes``: as in `process_groups`; ``sizes``: bytes that each rank all-reduces along an axis in
    one step (none for an axis left out). Raises InputError.
    """
    unknown = [name for name in sizes if name not in axes]
    if unknown:
        raise InputError("sizes", unknown, "give axes among " + ", ".join(axes))
    link = Link(0.0, 1.0)
    network = two_level(link, link, ranks_per_node)
    traffic = []
    for name, groups in process_groups(axes).items():
        rings = [ring_all_reduce(group, sizes.get(name, 0)) for group in groups]
        bytes_on = [measure(ring, network) for ring in rings]
        inside = sum(one.inside_bytes for one in bytes_on)
        between = sum(one.between_bytes for one in bytes_on)
        traffic.append(AxisTraffic(name, groups, inside, between))
    return tuple(traffic)
