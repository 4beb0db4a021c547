"""The cases that the lectures, the pages and the tests share."""

from typing import Final

from shardbook.schedules.fsdp import Unit, equal_units
from shardbook.schedules.units import all_gather_seconds, transformer_units

#: the timeline with four units: 40.5 s serial, 36 s overlapped, 27 s with backward prefetch
FOUR_UNITS: Final = equal_units(4, 2.0, 4.0, 1.5, 1.5)

#: parameters of the units of the five-layer MLP 32 → 96 → 96 → 96 → 96 → 16
MLP_UNITS: Final = (3168, 9312, 9312, 9312, 1552)

#: the 13B model: 40 blocks of width 5,120, vocabulary 32,000
WIDTH_13B: Final = 5120
LAYERS_13B: Final = 40
VOCABULARY_13B: Final = 32_000

_BF16: Final = 2


def blocks_13b(
    *,
    ranks: int = 64,
    tokens: int = 16_384,
    flops: float = 989.4e12 * 0.5,
    bandwidth: float = 50e9,
    latency: float = 10e-6,
) -> tuple[Unit, ...]:
    """The 40 blocks of the 13B model as FSDP units (its embedding is left out) (S30).

    ``tokens`` a rank, ``flops`` reached in FLOP/s (half of an H100's), ``bandwidth`` in B/s
    one-way, ``latency`` in s a ring round. A forward takes 2, a backward 4 FLOP a parameter and
    token; the reduce-scatter takes as long as the all-gather.
    """
    block = transformer_units(WIDTH_13B, LAYERS_13B, VOCABULARY_13B)["blocks"][-1]
    forward = 2 * block * tokens / flops
    gather = all_gather_seconds(_BF16 * block, ranks, latency, bandwidth)
    return equal_units(LAYERS_13B, forward, 2 * forward, gather, gather)
