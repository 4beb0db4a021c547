"""The network a plan is priced on: ranks with ports in a node, network cards between nodes.

Every bandwidth is one-way: a port or card sends and receives at the full rate at once.
"""

from dataclasses import dataclass

from shardbook.errors import InputError, real, whole


@dataclass(frozen=True, slots=True)
class Link:
    """A latency in s, paid once per round of use, and a one-way bandwidth in B/s."""

    latency: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Network:
    """Where ranks sit and what joins them.

    Inside a node each rank has one port of kind ``inside``. Between nodes there are ``cards``
    network cards a node, each of kind ``between``; neighbouring ranks share one.
    ``ranks_per_node`` 0: all ranks are in one node. ``slow`` names single ports with the factor
    by which their bandwidth is lower: r is the port of rank r, -1 - c network card c (S70).
    Raises InputError.
    """

    inside: Link
    between: Link
    ranks_per_node: int = 0
    cards: int = 0
    slow: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        for link in (self.inside, self.between):
            real("latency", link.latency, 0, 1e9, "s")
            real("bandwidth", link.bandwidth, 1e-9, 1e30, "B/s")
        whole("ranks per node", self.ranks_per_node, 0, 1 << 31)
        whole("cards", self.cards, 0, 1 << 31)
        if self.ranks_per_node and not self.cards:
            raise InputError("cards", self.cards, "give at least one network card a node")
        for port, times in self.slow:
            whole("slow port", port, -(1 << 31), 1 << 31)
            real("times slower", times, 1, 1e9)

    def node(self, rank: int) -> int:
        """Return the node a rank sits in."""
        return rank // self.ranks_per_node if self.ranks_per_node else 0

    def card(self, rank: int) -> int:
        """Return the network card a rank uses, numbered over all nodes."""
        return rank * self.cards // self.ranks_per_node


def flat(latency: float, bandwidth: float) -> Network:
    """Return a network where each rank has one port (s, B/s). Raises InputError."""
    link = Link(latency, bandwidth)
    return Network(link, link)


def two_level(
    inside: Link, between: Link, ranks_per_node: int, cards: int | None = None
) -> Network:
    """Return nodes of ``ranks_per_node`` consecutive ranks; by default each has its own card.

    Raises InputError.
    """
    width = whole("ranks per node", ranks_per_node, 1, 1 << 31)
    return Network(inside, between, width, width if cards is None else cards)
