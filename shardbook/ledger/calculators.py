"""The extension lesson's calculators (document D): as they should be, and as the lesson has them.

The lesson's own way is kept only so that the reconciliation page can compute both values.
Its convention is 12 B a parameter: BF16 weights and gradients, FP32 moments, no master weights.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardbook.errors import one_of, real, whole
from shardbook.ledger.activations import Shape, lower_bound_layer_bytes
from shardbook.ledger.fits import smallest_ranks
from shardbook.ledger.recipes import DEFAULT_RECIPE, Recipe
from shardbook.ledger.stages import bytes_per_rank
from shardbook.numbers.units import GB

CARD_BYTES: Final = 80 * GB

BILLION: Final = 10**9

#: the lesson's recipe
LESSON_RECIPE: Final = "bf16-adam"

#: the lesson's names of the sharding → stage
SHARDINGS: Final = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}

#: the lesson's runs: parameters, ranks, sharding
RUNS: Final = (
    (7 * BILLION, 1, "none"),
    (7 * BILLION, 8, "fsdp"),
    (70 * BILLION, 1, "none"),
    (70 * BILLION, 8, "fsdp"),
    (70 * BILLION, 16, "fsdp"),
    (405 * BILLION, 64, "fsdp"),
    (405 * BILLION, 128, "fsdp"),
)

#: sizes of real models in the lesson, and those of its comparison of precisions
REAL_MODELS: Final = (7 * BILLION, 70 * BILLION, 405 * BILLION)
COMPARED_MODELS: Final = (7 * BILLION, 13 * BILLION, 70 * BILLION, 405 * BILLION)


@dataclass(frozen=True, slots=True)
class Calculation:
    """Bytes (B) on the fullest rank; activations are a lower bound, not sharded by any stage."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    ranks: int
    card_bytes: int

    @property
    def states(self) -> int:
        """Weights, gradients and optimizer states (master weights too) on one rank."""
        return self.weights + self.gradients + self.optimizer

    @property
    def per_rank(self) -> int:
        """States and activations on one rank."""
        return self.states + self.activations

    @property
    def total(self) -> int:
        """What all ranks together store."""
        return self.ranks * self.per_rank

    @property
    def fits(self) -> bool:
        """Whether one rank's states and activations fit the card."""
        return self.per_rank <= self.card_bytes


def memory_calculator(
    parameters: int,
    ranks: int = 1,
    sharding: str = "none",
    recipe: str | Recipe = DEFAULT_RECIPE,
    shape: Shape | None = None,
    card_bytes: int = CARD_BYTES,
) -> Calculation:
    """The lesson's calculator put right: activations come from a shape, or are not counted at all.

    ``sharding`` is one of none, zero1, zero2, zero3 and fsdp (which is stage 3).

    (S8, S38)

    Raises:
        InputError: as `bytes_per_rank`, an unknown sharding, card_bytes not whole or not positive.
    """
    stage = SHARDINGS[one_of("sharding", sharding, SHARDINGS)]
    held = bytes_per_rank(parameters, ranks, stage, recipe).by_category()
    weights, gradients = held.pop("weights"), held.pop("gradients")
    activations = shape.layers * lower_bound_layer_bytes(shape) if shape else 0
    card_bytes = whole("card", card_bytes, 1, 10**18)
    optimizer = sum(held.values())
    return Calculation(weights, gradients, optimizer, activations, int(ranks), card_bytes)


def lesson_bytes_per_rank(parameters: int, ranks: int, sharding: str) -> Fraction:
    """Bytes (B) per rank as the lesson's code prints them without a shape.

    It adds half the weights as activations, and never shards them.

    Raises:
        InputError: as `bytes_per_rank`, or an unknown sharding.
    """
    stage = SHARDINGS[one_of("sharding", sharding, SHARDINGS)]
    ledger = bytes_per_rank(parameters, ranks, stage, LESSON_RECIPE)
    weights = bytes_per_rank(parameters, 1, 0, LESSON_RECIPE).by_category()["weights"]
    return ledger.fullest_rank_bytes + Fraction(weights, 2)


@dataclass(frozen=True, slots=True)
class PrecisionComparison:
    """States in bytes (B) on one device: FP32, half precision without and with master weights."""

    parameters: int
    fp32: int
    without_master: int
    with_master: int

    @property
    def saved_without_master(self) -> Fraction:
        """The fraction of the FP32 states saved, without master weights."""
        return 1 - Fraction(self.without_master, self.fp32)

    @property
    def saved_with_master(self) -> Fraction:
        """The fraction of the FP32 states saved by mixed precision as it is defined."""
        return 1 - Fraction(self.with_master, self.fp32)


def mixed_precision_comparison(parameters: int) -> PrecisionComparison:
    """States of FP32 Adam against half precision: with master weights nothing is saved (S9).

    The gains of mixed precision are activations and tensor cores (Micikevicius et al., ICLR 2018).

    Raises:
        InputError: as `bytes_per_rank`.
    """
    fp32, without, with_master = (
        bytes_per_rank(parameters, recipe=recipe).fullest_rank_bytes
        for recipe in ("fp32-adam", LESSON_RECIPE, "mixed-adam")
    )
    return PrecisionComparison(
        whole("parameters", parameters, 1, 10**15), fp32, without, with_master
    )


@dataclass(frozen=True, slots=True)
class RealModel:
    """States (B) of a model under one recipe, and the fewest cards for weights alone and for all."""

    parameters: int
    weights: int
    gradients: int
    optimizer: int
    cards_for_weights: int
    cards_for_states: int | None

    @property
    def states(self) -> int:
        """All states on one device."""
        return self.weights + self.gradients + self.optimizer


def real_model(
    parameters: int, recipe: str | Recipe = DEFAULT_RECIPE, card_bytes: int = CARD_BYTES
) -> RealModel:
    """One row of the table of real models: states, and cards at stage 3 (S10).

    Raises:
        InputError: as `smallest_ranks`.
    """
    alone = memory_calculator(parameters, recipe=recipe, card_bytes=card_bytes)
    return RealModel(
        whole("parameters", parameters, 1, 10**15),
        alone.weights,
        alone.gradients,
        alone.optimizer,
        max(1, -(-alone.weights // alone.card_bytes)),
        smallest_ranks(parameters, card_bytes, 3, recipe),
    )


def largest_batch(free_bytes: float, sequence_bytes: float) -> int:
    """How many sequences' activations of ``sequence_bytes`` (B) each fit ``free_bytes`` (B).

    Raises:
        InputError: a size is not positive.
    """
    free = real("free bytes", free_bytes, 0, 1e18, "B")
    return int(free // real("sequence bytes", sequence_bytes, 1, 1e18, "B"))
