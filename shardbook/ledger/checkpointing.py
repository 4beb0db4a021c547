"""Activation checkpointing: keep the input of every K-th layer, recompute a segment in backward.

Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016: with n layers the memory is least
near K = √n (times the square root of checkpoint over layer bytes).
"""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import real, whole

MOST_LAYERS: Final = 100_000
_MOST_BYTES: Final = 10**18


@dataclass(frozen=True, slots=True)
class Interval:
    """Checkpoints every ``interval`` layers: how many there are, and the peak in bytes (B)."""

    interval: int
    checkpoints: int
    peak_bytes: int


def checkpoint_peak_bytes(
    layers: int, layer_bytes: int, checkpoint_bytes: int, interval: int
) -> int:
    """Peak bytes (B) of activations in backward with a checkpoint every ``interval`` layers.

    When backward is in a segment, the checkpoints up to it are still held, and the segment's own
    activations have been recomputed. The last segment may be short, so the peak is in it or in the
    one before.

    Raises:
        InputError: layers not in 1…10⁵, interval not in 1…layers, bytes not whole or not positive.
    """
    layers = whole("layers", layers, 1, MOST_LAYERS)
    interval = whole("interval", interval, 1, layers)
    layer_bytes = whole("layer bytes", layer_bytes, 1, _MOST_BYTES)
    checkpoint_bytes = whole("checkpoint bytes", checkpoint_bytes, 1, _MOST_BYTES)
    return _peak(layers, layer_bytes, checkpoint_bytes, interval)


def _peak(layers: int, layer_bytes: int, checkpoint_bytes: int, interval: int) -> int:
    segments = -(-layers // interval)
    last = layers - (segments - 1) * interval
    in_last = segments * checkpoint_bytes + last * layer_bytes
    before = (segments - 1) * checkpoint_bytes + interval * layer_bytes
    return max(in_last, before) if segments > 1 else in_last


def intervals(layers: int, layer_bytes: int, checkpoint_bytes: int) -> tuple[Interval, ...]:
    """Every interval from 1 to ``layers`` with its peak.

    Raises:
        InputError: as `checkpoint_peak_bytes`.
    """
    checkpoint_peak_bytes(layers, layer_bytes, checkpoint_bytes, 1)
    return tuple(
        Interval(k, -(-layers // k), _peak(layers, layer_bytes, checkpoint_bytes, k))
        for k in range(1, layers + 1)
    )


def best_interval(layers: int, layer_bytes: int, checkpoint_bytes: int) -> Interval:
    """The interval with the least peak; of equal ones the shortest.

    Raises:
        InputError: as `checkpoint_peak_bytes`.
    """
    table = intervals(layers, layer_bytes, checkpoint_bytes)
    return min(table, key=lambda row: row.peak_bytes)


def extra_compute(backward_over_forward: float = 2.0) -> float:
    """Extra compute of recomputing every layer once, as a fraction of forward and backward.

    1/3 with a backward of two forwards, whatever the interval.

    Raises:
        InputError: backward_over_forward is not a number in 0…100.
    """
    return 1 / (1 + real("backward over forward", backward_over_forward, 0, 100))
