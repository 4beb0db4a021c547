"""Activation checkpointing: keep the input of every K-th layer, recompute a segment in backward.

Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016: with n layers the memory is least
near K = √n (times the square root of checkpoint over layer bytes).
"""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import real, whole

MOST_LAYERS: Final = 100_000
MOST_WIDTH: Final = 10**9
_MOST_BYTES: Final = 10**18


@dataclass(frozen=True, slots=True)
class Interval:
    """Checkpoints every ``interval`` layers: how many forward makes, and the peak in bytes (B).

    At the peak ``held`` of them are alive, beside the activations of ``recomputed`` layers: all of
    them when backward begins, one fewer when the last segment is short and the peak comes after it.
    """

    interval: int
    checkpoints: int
    peak_bytes: int
    held: int
    recomputed: int


def checkpoint_peak_bytes(
    layers: int, layer_bytes: int, checkpoint_bytes: int, interval: int
) -> int:
    """Peak bytes (B) of activations in backward with a checkpoint every ``interval`` layers (S14).

    Forward makes ⌈layers / interval⌉ checkpoints. When backward enters a segment, the checkpoints
    up to it are alive, and so are the segment's own activations; when it leaves, both are freed.
    Backward begins with the last segment. That one is short when the interval does not divide the
    layers, and then the peak may come in the one before it, with one checkpoint fewer.

    Raises:
        InputError: layers not in 1…10⁵, interval not in 1…layers, bytes not whole or not positive.
    """
    layers = whole("layers", layers, 1, MOST_LAYERS)
    interval = whole("interval", interval, 1, layers)
    layer_bytes = whole("layer bytes", layer_bytes, 1, _MOST_BYTES)
    checkpoint_bytes = whole("checkpoint bytes", checkpoint_bytes, 1, _MOST_BYTES)
    return _interval(layers, layer_bytes, checkpoint_bytes, interval).peak_bytes


def _interval(layers: int, layer_bytes: int, checkpoint_bytes: int, interval: int) -> Interval:
    segments = -(-layers // interval)
    moments = [(segments, layers - (segments - 1) * interval)]
    if segments > 1:
        moments.append((segments - 1, interval))
    peak, held, recomputed = max(
        (held * checkpoint_bytes + recomputed * layer_bytes, held, recomputed)
        for held, recomputed in moments
    )
    return Interval(interval, segments, peak, held, recomputed)


def intervals(layers: int, layer_bytes: int, checkpoint_bytes: int) -> tuple[Interval, ...]:
    """Every interval from 1 to ``layers`` with its peak.

    Raises:
        InputError: as `checkpoint_peak_bytes`.
    """
    checkpoint_peak_bytes(layers, layer_bytes, checkpoint_bytes, 1)
    return tuple(_interval(layers, layer_bytes, checkpoint_bytes, k) for k in range(1, layers + 1))


def best_interval(layers: int, layer_bytes: int, checkpoint_bytes: int) -> Interval:
    """The interval with the least peak; of equal ones the shortest (S14).

    Raises:
        InputError: as `checkpoint_peak_bytes`.
    """
    table = intervals(layers, layer_bytes, checkpoint_bytes)
    return min(table, key=lambda row: row.peak_bytes)


def extra_compute(backward_over_forward: float = 2.0) -> float:
    """Extra compute of recomputing every layer once, as a fraction of forward and backward (S14).

    1/3 with a backward of two forwards, whatever the interval. (Who keeps the last segment's
    activations from forward recomputes fewer layers: ``layers`` less that segment.)

    Raises:
        InputError: backward_over_forward is not a number in 0…100.
    """
    return 1 / (1 + real("backward over forward", backward_over_forward, 0, 100))


def selective_extra_compute(sequence: int, hidden: int) -> float:
    """Extra compute of recomputing only the attention, as a fraction of forward and backward.

    s / (3 (6h + s)): a layer's forward has 24·b·s·h² + 4·b·s²·h FLOP, of which attention over
    the sequence is 4·b·s²·h; backward takes twice as much. Derived here, for layers without biases,
    norms and the output projection to the vocabulary. Korthikanti et al. (MLSys 2023, §5) are
    quoted with 2.7 % for GPT-3. That agrees with s / 6h, attention over the other products of one
    forward; over forward and backward it is a third of this.

    Raises:
        InputError: sequence or hidden is not a whole positive number.
    """
    sequence = whole("sequence", sequence, 1, MOST_WIDTH)
    hidden = whole("hidden", hidden, 1, MOST_WIDTH)
    return sequence / (3 * (6 * hidden + sequence))
