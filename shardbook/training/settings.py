"""The settings of a run, checked once, and what follows from them."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from shardbook.collectives.averaging import WEIGHTINGS
from shardbook.errors import InputError, one_of, whole
from shardbook.numbers.loss_scaling import LossScale
from shardbook.training.flat import FlatUnit, Layout, flat_units
from shardbook.training.optimizers import Adam, Optimizer
from shardbook.training.programs import Options, Program, program
from shardbook.training.strategies import Strategy, strategy

#: the network of the lecture: 32,656 parameters in 5 units
LAYERS: Final = (32, 96, 96, 96, 96, 16)
#: parameters of all ranks together: at 16 bytes each they still fit a laptop
MOST_STORED: Final = 10**8


@dataclass(frozen=True, slots=True)
class Settings:
    """A run: which network, strategy and world size, on how much data.

    ``samples`` is rows per rank and micro-batch; of them the first ``tokens[rank]`` count in the
    loss (None: all). ``shard`` is the size F of a shard group of ZeRO-3 (None: all ranks).
    Weights, activations and gradients have dtype ``precision``, everything else is float32.

    Raises:
        InputError: a setting is out of range, or two don't fit together.
    """

    strategy: str = "zero3"
    ranks: int = 4
    seed: int = 0
    layers: tuple[int, ...] = LAYERS
    samples: int = 16
    shard: int | None = None
    optimizer: Optimizer = field(default_factory=Adam)
    precision: str = "float16"
    tokens: tuple[int, ...] | None = None
    weighting: str = "token-mean"
    loss_scale: LossScale | None = None
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        strategy(self.strategy)
        whole("seed", self.seed, 0, 2**63 - 1)
        whole("samples", self.samples, 1, 4096)
        one_of("precision", self.precision, ("float16", "float32"))
        one_of("weighting", self.weighting, WEIGHTINGS)
        whole("ranks", self.ranks, 1, 1024)
        if self.shard is not None and not self.kind.shards_weights:
            raise InputError("shard", self.shard, "only zero3 takes a shard group's size")
        _ = self.layout, self.units
        if self.tokens is not None:
            if len(self.tokens) != self.ranks:
                raise InputError("tokens", self.tokens, f"give {self.ranks} counts, one per rank")
            for count in self.tokens:
                whole("tokens", count, 0, self.samples)
            if not any(self.tokens):
                raise InputError("tokens", self.tokens, "give at least one rank a token")
        stored = self.ranks * self.padded_parameters
        if stored > MOST_STORED:
            allowed = f"the ranks together may hold {MOST_STORED:,} parameters"
            raise InputError("layers", f"{stored:,} parameters on {self.ranks} ranks", allowed)

    @property
    def kind(self) -> Strategy:
        """The strategy."""
        return strategy(self.strategy)

    @property
    def layout(self) -> Layout:
        """Shard groups and replicas."""
        return Layout(self.ranks, self.ranks if self.shard is None else self.shard)

    @property
    def units(self) -> tuple[FlatUnit, ...]:
        """The units, padded to a multiple of the ranks whatever the strategy stores.

        So that every strategy cuts, and sums, the same segments in the same order: one of the
        three conditions for bitwise equality.
        """
        return flat_units(self.layers, self.ranks)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of weights, activations and gradients."""
        return np.dtype(self.precision)

    @property
    def parameters(self) -> int:
        """Parameters of the network."""
        return sum(unit.elements for unit in self.units)

    @property
    def padded_parameters(self) -> int:
        """Elements of the flat units, padding included."""
        return sum(unit.padded for unit in self.units)

    @property
    def program(self) -> Program:
        """One step, as every rank executes it."""
        options = replace(
            self.options,
            count_tokens=self.options.count_tokens or self.tokens is not None,
            check_overflow=self.options.check_overflow or self.loss_scale is not None,
        )
        replicas = self.ranks // self.layout.shard
        return program(self.kind, len(self.units), options, replicas=replicas)

    def counted(self, rank: int) -> int:
        """Rows of ``rank`` that count, in one micro-batch."""
        return self.samples if self.tokens is None else self.tokens[rank]
