"""Where the axes of parallelism lie on the nodes: who is with whom, and which link carries what.

Sources: Narayanan et al., SC 2021, section 3.2 (tensor parallelism stays in the node); Llama 3,
arXiv 2407.21783, section 3.3.2 (the order TP, CP, PP, DP, the innermost on the fastest link).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from shardbook.collectives.groups import process_groups
from shardbook.collectives.network import Network
from shardbook.collectives.plan import MOST_ELEMENTS
from shardbook.errors import InputError, whole


@dataclass(frozen=True, slots=True)
class Axis:
    """One way to share a training step: its name, what is cut, what is sent and when."""

    name: str
    cuts: str
    sends: str
    collective: str
    when: str


#: the axes that a layout may name, as Megatron-LM does (S63)
AXES: Final = {
    "TP": Axis("tensor", "each layer's weights", "activations", "all-reduce", "in every layer"),
    "CP": Axis("context", "each sequence", "keys and values", "ring pass", "in every attention"),
    "EP": Axis("expert", "the experts of a layer", "tokens", "all-to-all", "in every expert layer"),
    "DP": Axis("data", "the batch", "gradients", "all-reduce", "once a step"),
    "PP": Axis(
        "pipeline", "the layers", "activations", "send and receive", "for every micro-batch"
    ),
}


@dataclass(frozen=True, slots=True)
class AxisLoad:
    """What one axis does to the links in a step: B and s, all its groups at the same time.

    ``within``: how many of its groups lie in one node each; ``card_bytes``: what leaves through the
    busiest network card.
    """

    axis: str
    groups: tuple[tuple[int, ...], ...]
    within: int
    inside_bytes: Fraction
    between_bytes: Fraction
    card_bytes: Fraction
    seconds: float


def layout_loads(
    axes: Mapping[str, int], sizes: Mapping[str, int], network: Network
) -> tuple[AxisLoad, ...]:
    """Return the load of each axis; the axes are named from the fastest-varying one on (S61).

    ``axes``: names of `AXES` with degrees. ``sizes``: B of one rank in one step: all-reduced (TP,
    DP), handed to the ring's next rank (CP), given to the all-to-all, the own share included (EP),
    sent to the next stage and as much back (PP). Seconds count bandwidth only: the busiest port or
    card. Raises InputError.
    """
    for named in (axes, sizes):
        unknown = [name for name in named if name not in AXES]
        if unknown:
            raise InputError("axes", unknown, "give " + ", ".join(AXES))
    loads = []
    for name, groups in process_groups(axes).items():
        n = len(groups[0])
        share = _pair_share(AXES[name].collective, n)
        each = share * whole("sizes", sizes.get(name, 0), 0, MOST_ELEMENTS)
        ports: Counter[int] = Counter()
        cards: Counter[int] = Counter()
        for source, target in _pairs(AXES[name].collective, groups):
            if network.node(source) == network.node(target):
                ports[source] += 1
            else:
                cards[network.card(source)] += 1
        card_bytes = each * max(cards.values(), default=0)
        slowest = max(
            float(each * max(ports.values(), default=0)) / network.inside.bandwidth,
            float(card_bytes) / network.between.bandwidth,
        )
        within = sum(len({network.node(rank) for rank in group}) == 1 for group in groups)
        inside, between = each * ports.total(), each * cards.total()
        loads.append(AxisLoad(name, groups, within, inside, between, card_bytes, slowest))
    return tuple(loads)


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
    }.get(collective, Fraction(1))


def _pairs(collective: str, groups: tuple[tuple[int, ...], ...]) -> Iterator[tuple[int, int]]:
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
