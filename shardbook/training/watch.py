"""What is taken from a step besides its result, so that checks can find silent faults."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError
from shardbook.training import network
from shardbook.training.device import checksum
from shardbook.training.loss import squared_error
from shardbook.training.rank import Rank
from shardbook.training.settings import Settings
from shardbook.training.state import categories, gather

Array = NDArray[Any]
Batches = Sequence[Sequence[tuple[Array, Array]]]


@dataclass(frozen=True, slots=True)
class Before:
    """What can be seen when a step begins."""

    stored: tuple[int, ...]  #: a checksum of each rank's states
    joint_gradient: Array  #: [Ψ] float32, of the joint batch, computed on one device


@dataclass(frozen=True, slots=True)
class Observed:
    """One step, seen by the checks; tuples have an entry a rank."""

    step: int
    loss: float
    skipped: bool
    batches: tuple[tuple[int, ...], ...]  #: checksum of the inputs, one a micro-batch
    used_weights: tuple[tuple[int, ...], ...]  #: checksum of the full weights of each unit
    stored_before: tuple[int, ...]  #: checksum of the states when the step began
    stored_after: tuple[int, ...]  #: and when it ended
    joint_norm: float  #: of the joint batch's gradient, computed on one device
    gradient_norms: tuple[float, ...]  #: of the reduced gradient that the rank updates with
    gradient_distances: tuple[float, ...]  #: the norm of its difference from the joint one
    weights_after: tuple[int, ...]  #: checksum of the full weights, the step done
    weights_spread: float  #: largest difference of a full weight between two ranks


def before(ranks: Sequence[Rank], batches: Batches) -> Before:
    """Look at the ranks when the step begins, its ``batches`` [micro-batch][rank] drawn."""
    return Before(stored(ranks), _joint_gradient(ranks, batches))


def after(ranks: Sequence[Rank], start: Before, step: int, loss: float) -> Observed:
    """Look at the ranks when step number ``step`` has ended."""
    joint = start.joint_gradient
    gradients = _gradients(ranks)
    weights = [gather(ranks, "weights", rank.rank) for rank in ranks]
    return Observed(
        step,
        loss,
        ranks[0].skip,
        tuple(tuple(rank.batch_checksums) for rank in ranks),
        tuple(tuple(c for _, c in sorted(r.weights_checksums.items())) for r in ranks),
        start.stored,
        stored(ranks),
        _norm(joint),
        tuple(_norm(gradient) for gradient in gradients),
        tuple(_norm(gradient - joint) for gradient in gradients),
        tuple(checksum(view) for view in weights),
        _spread(weights),
    )


def _norm(vector: Array) -> float:
    return float(np.sqrt(np.square(vector, dtype=np.float64).sum()))


def stored(ranks: Sequence[Rank]) -> tuple[int, ...]:
    """Return a checksum of each rank's weights and states."""
    names = ("weights", *categories(ranks[0].settings))
    return tuple(rank.device.checksum(names) for rank in ranks)


def _gradients(ranks: Sequence[Rank]) -> list[Array]:
    """Put each rank's view of the gradient together: its own, or its shard group's parts."""
    for rank in ranks:
        missing = [n for n in range(len(rank.units)) if n not in rank.gradients_used]
        if missing:
            allowed = f"rank {rank.rank} has no update {missing[0]}, and every unit needs one"
            raise InputError("program", "a watched one", allowed)
    views = []
    for rank in ranks:
        parts = []
        for number, shape in enumerate(rank.units):
            vector = rank.gradients_used[number]
            if len(vector) < shape.padded:
                group = rank.layout.shard_group(rank.rank)
                vector = np.concatenate([ranks[r].gradients_used[number] for r in group])
            parts.append(vector[: shape.elements])
        views.append(np.concatenate(parts))
    return views


def _joint_gradient(ranks: Sequence[Rank], batches: Batches) -> Array:
    """The gradient of the mean over all tokens of all ranks, in float32 on one device."""
    settings = ranks[0].settings
    flat = gather(ranks, "weights").astype(np.float32)
    starts = np.cumsum([0, *(shape.elements for shape in settings.units)])
    weights = [flat[a:b] for a, b in pairwise(starts)]
    total = np.zeros_like(flat)
    tokens = 0
    for micro_batch in batches:
        for rank, (inputs, targets) in enumerate(micro_batch):
            own = settings.counted(rank)
            rounded = inputs.astype(settings.dtype).astype(np.float32)
            total += _gradient_sum(settings, weights, rounded[:own], targets[:own])
            tokens += own
    return total / np.float32(tokens)


def _gradient_sum(
    settings: Settings, weights: Sequence[Array], inputs: Array, targets: Array
) -> Array:
    """The flat gradient [Ψ] of the sum of the rows' losses."""
    kept = []
    outputs = inputs
    for number, shape in enumerate(settings.units):
        kept.append(network.activation(number, outputs))
        outputs = network.forward(shape, weights[number], kept[-1])
    gradient: Array | None = squared_error(outputs, targets, np.ones(len(targets)))[1]
    parts = []
    for number in reversed(range(len(kept))):
        shape = settings.units[number]
        assert gradient is not None  # only the first unit, the last one here, gives None
        whole, gradient = network.backward(number, shape, weights[number], kept[number], gradient)
        parts.append(whole[: shape.elements])
    return np.concatenate(parts[::-1])


def _spread(views: Sequence[Array]) -> float:
    first = views[0].astype(np.float32)
    with np.errstate(invalid="ignore"):  # infinite weights have no difference
        return float(max(np.abs(view.astype(np.float32) - first).max() for view in views))
