"""Where the axes of parallelism lie on the nodes: who is with whom, and which link carries what.

Sources: Narayanan et al., SC 2021, section 3.2 (tensor parallelism stays in the node); Llama 3,
arXiv 2407.21783, section 3.3.2 (the order TP, CP, PP, DP, the innermost on the fastest link).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from shardbook.collectives.groups import Groups, process_groups
from shardbook.collectives.network import Network
from shardbook.collectives.plan import MOST_ELEMENTS, MOST_RANKS
from shardbook.errors import InputError, whole


@dataclass(frozen=True, slots=True)
class Axis:
    """One way to share a training step: what is cut, what is sent, by which collective and when.

    ``place``: the wire it should have, and ``why``.
    """

    name: str
    cuts: str
    sends: str
    collective: str
    when: str
    place: str
    why: str


#: the axes that a layout may name, as Megatron-LM does, and sharded data parallelism (S63)
AXES: Final = {
    "TP": Axis(
        "tensor", "each layer's weights", "activations", "all-reduce",
        "four times a layer and micro-batch", "inside a node", "large, and the layer waits for it",
    ),
    "CP": Axis(
        "context", "each sequence", "keys and values", "ring pass",
        "in each layer's attention", "next to tensor parallelism",
        "hidden behind attention only if the sequence is long",
    ),
    "EP": Axis(
        "expert", "the experts of a layer", "tokens", "all-to-all",
        "four times a layer of experts", "inside a node or a few",
        "the experts wait, and everybody sends to everybody",
    ),
    "FSDP": Axis(
        "sharded data", "the batch and the states", "weights and gradients",
        "two all-gathers and a reduce-scatter", "for each layer and micro-batch", "either",
        "hidden behind computing if there are tokens enough",
    ),
    "PP": Axis(
        "pipeline", "the layers", "activations", "send and receive",
        "once a stage and micro-batch, each way", "between nodes", "the least bytes, to one neighbour",
    ),
    "DP": Axis(
        "data", "the batch", "gradients", "all-reduce", "once a step", "between nodes",
        "hidden behind the backward of the last micro-batch",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AxisLoad:
    """What one axis does to the links in a step: B and s, all its groups at the same time.

    ``within``: how many of its groups lie in one node each; ``port_bytes`` and ``card_bytes``:
    what leaves through the busiest port inside a node, and the busiest network card.
    """

    axis: str
    groups: Groups
    within: int
    inside_bytes: Fraction
    between_bytes: Fraction
    port_bytes: Fraction
    card_bytes: Fraction
    seconds: float


def layout_loads(
    axes: Mapping[str, int], sizes: Mapping[str, int], network: Network
) -> tuple[AxisLoad, ...]:
    """Return the load of each axis; the axes are named from the fastest-varying one on (S61).

    ``axes``: names of `AXES` with degrees. ``sizes``: B of one rank in one step: all-reduced (TP,
    DP), gathered twice and reduce-scattered (FSDP), handed to the ring's next rank (CP), given to
    the all-to-all, the own share included (EP), sent to the next stage and as much back (PP). A
    size may be of joined axes: ``DP+CP`` is what DP's collective moves among the ranks that differ
    in these two; its load follows those of the axes. Seconds count bandwidth only: the busiest port
    or card. Raises InputError.
    """
    joined = {name: name.split("+") for name in sizes if name not in axes}
    unknown = [name for names in ([*axes], *joined.values()) for name in names if name not in AXES]
    if unknown:
        raise InputError("axes", unknown, "give " + ", ".join(AXES))
    groups = process_groups(axes)
    for key, names in joined.items():
        groups[key] = joined_groups(axes, names)
    return tuple(
        _load(name, found, whole("sizes", sizes.get(name, 0), 0, MOST_ELEMENTS), network)
        for name, found in groups.items()
    )


def joined_groups(axes: Mapping[str, int], names: Sequence[str]) -> Groups:
    """Return the ranks that differ in the axes ``names`` only, as groups (S61).

    With data and context parallelism a weight's gradient is summed in groups of both. An axis that
    the layout does not name has degree 1. Raises InputError.
    """
    inside, firsts, stride = [0], [0], 1
    for name, degree in axes.items():
        steps = range(0, stride * whole(name, degree, 1, MOST_RANKS), stride)
        if name in names:
            inside = [step + offset for step in steps for offset in inside]
        else:
            firsts = [step + first for step in steps for first in firsts]
        stride *= degree
    whole("ranks", stride, 1, MOST_RANKS)
    return tuple(tuple(first + offset for offset in inside) for first in firsts)


def _load(name: str, groups: Groups, size: int, network: Network) -> AxisLoad:
    collective = AXES[name.split("+")[0]].collective
    each = _pair_share(collective, len(groups[0])) * size
    node = {rank: network.node(rank) for group in groups for rank in group}
    ports: Counter[int] = Counter()
    cards: Counter[int] = Counter()
    for source, target in _pairs(collective, groups):
        if node[source] == node[target]:
            ports[source] += 1
        else:
            cards[network.card(source)] += 1
    port_bytes = each * max(ports.values(), default=0)
    card_bytes = each * max(cards.values(), default=0)
    slowest = max(
        float(port_bytes) / network.inside.bandwidth, float(card_bytes) / network.between.bandwidth
    )
    within = sum(len({node[rank] for rank in group}) == 1 for group in groups)
    inside, between = each * ports.total(), each * cards.total()
    return AxisLoad(name, groups, within, inside, between, port_bytes, card_bytes, slowest)


def coordinates(rank: int, axes: Mapping[str, int]) -> dict[str, int]:
    """Return a rank's place along each axis, the fastest-varying one first. Raises InputError."""
    places = {}
    left = whole("rank", rank, 0, 1 << 31)
    for name, degree in axes.items():
        left, places[name] = divmod(left, whole(name, degree, 1, 1 << 31))
    if left:
        raise InputError("rank", rank, "give one of the layout's ranks")
    return places


def _pair_share(collective: str, n: int) -> Fraction:
    """What goes over one pair of a group, as a share of a rank's bytes."""
    if n == 1:
        return Fraction(0)
    return {
        "all-reduce": Fraction(2 * (n - 1), n),
        "all-to-all": Fraction(1, n),
        AXES["FSDP"].collective: Fraction(3 * (n - 1), n),
    }.get(collective, Fraction(1))


def _pairs(collective: str, groups: Groups) -> Iterator[tuple[int, int]]:
    """Who sends to whom: around the ring, to everybody, or to both neighbours of a chain."""
    for group in groups:
        if len(group) == 1:
            continue
        if collective == "all-to-all":
            yield from ((a, b) for a in group for b in group if a != b)
        elif collective == "send and receive":
            yield from pairwise(group)
            yield from pairwise(reversed(group))
        else:
            yield from zip(group, (*group[1:], group[0]), strict=True)
