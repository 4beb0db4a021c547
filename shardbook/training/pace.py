"""How long a step takes: a pace for the ranks' actions, and a price for their collectives.

Each rank has a clock. A collective begins when the last rank of its group has called it, and
takes the time of its plan on the network; nothing overlaps. What a rank waits for the others is
kept apart from what the network takes: that tells a slow rank from a slow network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardbook.collectives.network import Network
from shardbook.training.programs import Action


@dataclass(frozen=True, slots=True)
class Pace:
    """The network, and the seconds that an action (no collective) takes on a rank."""

    network: Network
    seconds: Callable[[int, Action], float]


@dataclass(slots=True)
class Seconds:
    """One rank's step in s: its own actions, the network, and waiting for other ranks."""

    compute: float = 0.0
    communication: float = 0.0
    waiting: float = 0.0

    @property
    def total(self) -> float:
        """From the start of the step to the rank's end of it."""
        return self.compute + self.communication + self.waiting


def meet_at(price: float, group: Sequence[Seconds]) -> None:
    """Let the ranks of a group wait for the last one, then communicate for ``price`` seconds."""
    begin = max(seconds.total for seconds in group)
    for seconds in group:
        seconds.waiting += begin - seconds.total
        seconds.communication += price
