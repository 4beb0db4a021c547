"""Count and price a plan in one pass over its transfers: bytes by rank and link, and time.

A round begins when the one before has ended (the transfers of a round are known to depend on
it) and lasts as long as its busiest port: latency + bytes / bandwidth, where all transfers that
leave or enter by the same port, or network card, share its bandwidth. Source of the model for
one port: Hockney, Parallel Computing 20 (1994), "The communication challenge for MPP".
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import fsum
from operator import add, not_

from shardbook.collectives.network import Link, Network
from shardbook.collectives.plan import MOST_ELEMENTS, Plan
from shardbook.errors import whole

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a plan costs: ``links`` maps (source, target) to bytes; ``round_seconds`` in s."""

    ranks: tuple[int, ...]
    network: Network
    transfers: int
    links: Mapping[Pair, int]
    round_seconds: tuple[float, ...]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.round_seconds)

    @property
    def seconds(self) -> float:
        """Time of all rounds, s."""
        return fsum(self.round_seconds)

    @property
    def sent(self) -> tuple[int, ...]:
        """Bytes each rank sends, in the order of the plan's ranks."""
        return self._totals(0)

    @property
    def received(self) -> tuple[int, ...]:
        """Bytes each rank receives, in the order of the plan's ranks."""
        return self._totals(1)

    @property
    def between_bytes(self) -> int:
        """Bytes that go from one node to another."""
        return sum(self.node_egress().values())

    @property
    def inside_bytes(self) -> int:
        """Bytes that stay in their node."""
        return sum(self.links.values()) - self.between_bytes

    def node_egress(self) -> dict[int, int]:
        """Return the bytes that leave each node (nodes that send none are left out)."""
        egress: dict[int, int] = {}
        for (source, target), size in self.links.items():
            home = self.network.node(source)
            if home != self.network.node(target):
                egress[home] = egress.get(home, 0) + size
        return egress

    def _totals(self, end: int) -> tuple[int, ...]:
        totals = dict.fromkeys(self.ranks, 0)
        for pair, size in self.links.items():
            totals[pair[end]] += size
        return tuple(totals.values())


def measure(plan: Plan, network: Network, element_bytes: int = 1) -> Measured:
    """Count and price ``plan`` on ``network``; sizes are elements of ``element_bytes`` B (S19).

    The plan must be possible (`verify` tells). Takes time in proportion to the number of
    transfers. Raises InputError.
    """
    width = whole("element bytes", element_bytes, 1, MOST_ELEMENTS)
    chunk_bytes = [chunk.size * width for chunk in plan.chunks]
    links: Counter[Pair] = Counter()
    pattern = _Pattern((), (), network)
    round_seconds = []
    transfers = 0
    for moves in plan.rounds:
        sources, targets, chunks, _ = zip(*moves, strict=True) if moves else [()] * 4
        if (sources, targets) != (pattern.sources, pattern.targets):
            pattern.count_into(links)
            pattern = _Pattern(sources, targets, network)
        round_seconds.append(pattern.add([chunk_bytes[chunk] for chunk in chunks]))
        transfers += len(moves)
    pattern.count_into(links)
    return Measured(plan.ranks, network, transfers, dict(links), tuple(round_seconds))


class _Pattern:
    """Who sends to whom in a round. A ring repeats it, so its ports are looked up only once."""

    def __init__(
        self, sources: tuple[int, ...], targets: tuple[int, ...], network: Network
    ) -> None:
        self.sources, self.targets, self._network = sources, targets, network
        self._totals = [0] * len(sources)
        self._leaving, self._entering, self._crosses = [], [], []
        for source, target in zip(sources, targets, strict=True):
            crosses = network.node(source) != network.node(target)
            # a network card is written as -1 - card, as in Network.slow
            self._leaving.append(-1 - network.card(source) if crosses else source)
            self._entering.append(-1 - network.card(target) if crosses else target)
            self._crosses.append(crosses)
        alike = not network.slow
        self._alone = alike and len(set(self._leaving)) == len(set(self._entering)) == len(sources)

    def add(self, sizes: list[int]) -> float:
        """Count a round, whose transfers have ``sizes`` in B, and return its time in s."""
        self._totals = list(map(add, self._totals, sizes))
        if self._alone:
            return self._seconds(sizes, self._crosses)
        return max(self._shared(self._leaving, sizes), self._shared(self._entering, sizes))

    def count_into(self, links: Counter[Pair]) -> None:
        """Add the bytes counted so far to ``links``."""
        for source, target, total in zip(self.sources, self.targets, self._totals, strict=True):
            links[source, target] += total

    def _shared(self, ports: list[int], sizes: list[int]) -> float:
        loads: dict[int, float] = {}
        for port, size in zip(ports, sizes, strict=True):
            loads[port] = loads.get(port, 0) + size
        for port, times in self._network.slow:
            if port in loads:
                loads[port] *= times
        return self._seconds(list(loads.values()), [port < 0 for port in loads])

    def _seconds(self, loads: Sequence[float], crosses: list[bool]) -> float:
        cards = list(compress(loads, crosses))
        ranks = list(compress(loads, map(not_, crosses))) if cards else loads
        return max(_time(ranks, self._network.inside), _time(cards, self._network.between))


def _time(loads: Sequence[float], link: Link) -> float:
    """Return the time of the busiest port."""
    return link.latency + max(loads) / link.bandwidth if loads else 0.0
