"""Flat parameters: a unit's weight and bias as one vector that is padded and cut into shards.

Source: Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.1: concatenate, pad on the right to a
multiple of the sharding factor F, cut into F equal pieces. The weight and the bias are views of
the vector, and so are their gradients of the gradient's vector.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from shardbook.collectives.plan import ceil_div
from shardbook.errors import InputError, whole

Array = NDArray[Any]


def padded(elements: int, multiple: int) -> int:
    """Return ``elements`` rounded up to a multiple: at most ``multiple`` − 1 more (S17, S22)."""
    return ceil_div(elements, multiple) * multiple


@dataclass(frozen=True, slots=True)
class FlatUnit:
    """One Linear layer's parameters as a vector: weight [outputs, inputs] row by row, then bias.

    (S17, S36)
    """

    inputs: int
    outputs: int
    multiple: int  #: what the padded length is a multiple of

    @property
    def elements(self) -> int:
        """Parameters of the layer."""
        return (self.inputs + 1) * self.outputs

    @property
    def padded(self) -> int:
        """Elements of the vector, padding included."""
        return padded(self.elements, self.multiple)

    def views(self, flat: Array) -> tuple[Array, Array]:
        """Return the weight [outputs, inputs] and the bias [outputs] as views of ``flat``."""
        cut = self.inputs * self.outputs
        return flat[:cut].reshape(self.outputs, self.inputs), flat[cut : self.elements]


@lru_cache(maxsize=64)
def flat_units(layers: tuple[int, ...], multiple: int) -> tuple[FlatUnit, ...]:
    """Return the units of a network whose widths are ``layers``, input first.

    Raises:
        InputError: fewer than two or more than 65 widths, or a width outside 1 to 4,096.
    """
    if not 2 <= len(layers) <= 65:
        raise InputError("layers", ",".join(map(str, layers)), "give 2 to 65 widths, input first")
    widths = [whole("layers", width, 1, 4096) for width in layers]
    return tuple(FlatUnit(inputs, outputs, multiple) for inputs, outputs in pairwise(widths))


@dataclass(frozen=True, slots=True)
class Layout:
    """``ranks`` in shard groups of ``shard`` consecutive ranks (F), each group a full replica.

    Hybrid sharding (FSDP paper, section 3.2.2): F = 1 replicates, F = ranks shards fully. The
    ranks that hold the same part, one of each group, are its replicas.

    Raises:
        InputError: ``ranks`` outside 1 to 1,024, or a ``shard`` that does not divide it.
    """

    ranks: int
    shard: int

    def __post_init__(self) -> None:
        whole("ranks", self.ranks, 1, 1024)
        if self.ranks % whole("shard", self.shard, 1, self.ranks):
            raise InputError("shard", self.shard, f"give a divisor of the {self.ranks} ranks")

    @property
    def world(self) -> tuple[int, ...]:
        """All ranks."""
        return tuple(range(self.ranks))

    def shard_group(self, rank: int) -> tuple[int, ...]:
        """The ranks that together hold one replica, ``rank`` among them."""
        first = rank - rank % self.shard
        return tuple(range(first, first + self.shard))

    def replicas(self, rank: int) -> tuple[int, ...]:
        """The ranks that hold the same part as ``rank``."""
        return tuple(range(rank % self.shard, self.ranks, self.shard))

    def part(self, rank: int, unit: FlatUnit) -> slice:
        """The elements of ``unit``'s vector that ``rank`` owns."""
        size = unit.padded // self.shard
        start = rank % self.shard * size
        return slice(start, start + size)
