"""What a strategy stores in parts, and the name of the program that goes with it.

Source: Rajbhandari et al., "ZeRO", SC 2020, section 5. A strategy says which states are sharded;
when they are communicated and freed is its program (`shardbook.training.programs`).
"""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import one_of


@dataclass(frozen=True, slots=True)
class Strategy:
    """Which states a rank keeps only its part of, and how gradients are reduced."""

    name: str
    title: str
    reduction: str  #: the collective that sums the gradients over the ranks
    shards_optimizer: bool = False  #: master weights, momentum, variance
    shards_gradients: bool = False
    shards_weights: bool = False

    @property
    def gathers_after_update(self) -> bool:
        """Whether full weights are stored but only a part of them is updated."""
        return self.shards_optimizer and not self.shards_weights


_ALL: Final = (
    Strategy("dp", "data parallel", "all-reduce"),
    Strategy(
        "zero1-all-reduce", "ZeRO-1 as often drawn: all-reduce, then all-gather", "all-reduce", True
    ),
    Strategy("zero1", "ZeRO-1", "reduce-scatter", True),
    Strategy("zero2", "ZeRO-2", "reduce-scatter", True, True),
    Strategy("zero3", "ZeRO-3", "reduce-scatter", True, True, True),
)
#: name → strategy; hybrid sharding is zero3 in shard groups smaller than the world
STRATEGIES: Final = {strategy.name: strategy for strategy in _ALL}


def strategy(name: str) -> Strategy:
    """Return the strategy of that name. Raises InputError for an unknown one (S16, S21)."""
    return STRATEGIES[one_of("strategy", name, STRATEGIES)]
