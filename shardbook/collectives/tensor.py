"""What tensor parallelism sends beside data parallelism, by formula.

A transformer layer of width h has two pairs of linears, so four all-reduces of t · h numbers (two
forward, two backward), and 12h² parameters, whose gradients data parallelism all-reduces once.
Their ratio is 4th / 12h² = t/(3h), before each rank's T-th part of the gradients makes it T times
as much. Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters",
SC 2021, sections 2.3 and 3.2; bytes of a ring as in Patarasuk and Yuan, 2009.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardbook.collectives.plan import MOST_RANKS
from shardbook.errors import whole

#: all-reduces of a layer, forward and backward: one per pair and direction
ALL_REDUCES_PER_LAYER: Final = 4
#: parameters of a layer in h²: attention 4, MLP 8
PARAMETERS_PER_LAYER: Final = 12


@dataclass(frozen=True, slots=True)
class TensorTraffic:
    """B that one rank sends in a step, for its tokens; the all-reduces that stand in its way."""

    tensor_bytes: Fraction
    data_bytes: Fraction
    blocking_all_reduces: int

    @property
    def ratio(self) -> Fraction | None:
        """Tensor to data parallel bytes, or None if no gradient is sent."""
        return self.tensor_bytes / self.data_bytes if self.data_bytes else None


def tensor_traffic(
    tokens: int,
    width: int,
    layers: int,
    tensor_ranks: int,
    data_ranks: int,
    element_bytes: int = 2,
) -> TensorTraffic:
    """Return what a rank sends in one step over its ``layers``, by both kinds of parallelism.

    ``tokens``: t of one replica in the step; ``width``: h. Embeddings are left out. The ring's
    2(N - 1)/N counts for both. Raises InputError. (S55)
    """
    t = whole("tokens", tokens, 1, 1 << 40)
    h = whole("width", width, 1, 1 << 24)
    depth = whole("layers", layers, 1, 1 << 16)
    tensor = whole("tensor ranks", tensor_ranks, 1, MOST_RANKS)
    data = whole("data ranks", data_ranks, 1, MOST_RANKS)
    size = whole("element bytes", element_bytes, 1, 1 << 10)
    activations = ALL_REDUCES_PER_LAYER * t * h * depth * size
    gradients = Fraction(PARAMETERS_PER_LAYER * h * h * depth * size, tensor)
    blocking = ALL_REDUCES_PER_LAYER * depth if tensor > 1 else 0
    return TensorTraffic(_ring(tensor) * activations, _ring(data) * gradients, blocking)


def traffic_ratio(tokens: int, width: int) -> Fraction:
    """Return t/(3h): all-reduced activations of a layer over its whole gradients (S55).

    Raises InputError.
    """
    return Fraction(whole("tokens", tokens, 1, 1 << 40), 3 * whole("width", width, 1, 1 << 24))


def _ring(ranks: int) -> Fraction:
    return Fraction(2 * (ranks - 1), ranks)
