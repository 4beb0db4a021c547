"""The delayed parameter update of ZeRO-Offload, really trained: weights that miss one update.

Ren et al., ZeRO-Offload, USENIX ATC 2021, §5.2. While the CPU updates the parameters with the
gradient of one step, the GPU already computes the next step's, so a delayed step sees all updates
but the last. The paper trains some tens of steps without the delay first, while gradients still
change fast.

The working weights and the gradient are FP16 (the GPU's side), the master weights and Adam's states
FP32 (the CPU's). One device; no sharding.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import real, whole
from shardbook.training import network
from shardbook.training.data import SeededData
from shardbook.training.loss import squared_error
from shardbook.training.optimizers import Optimizer
from shardbook.training.settings import Settings

Array = NDArray[Any]
_MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class DelayedRun:
    """What a run reports: before each step its loss, and how many updates its weights missed."""

    losses: tuple[float, ...]
    #: updates whose gradients were there when the step began, and that its weights lacked
    staleness: tuple[int, ...]
    #: master weights [parameters] float32 at the end, with the last update in them
    weights: Array

    def mean_loss(self, last: int) -> float:
        """The mean of the last ``last`` losses."""
        return float(np.mean(self.losses[-last:]))


def train_delayed(
    steps: int,
    *,
    delayed_from: int | None = None,
    optimizer: Optimizer | None = None,
    settings: Settings | None = None,
) -> DelayedRun:
    """Train ``steps`` steps on one device; from ``delayed_from`` on (0-based) updates are late (S47).

    None: never late. ``settings`` gives network, rows, seed and precision; its ranks must be 1.

    Raises:
        InputError: a number out of its range.
    """
    steps = whole("steps", steps, 1, _MOST_STEPS)
    late_from = steps if delayed_from is None else whole("delayed_from", delayed_from, 0, steps)
    settings = settings or Settings(strategy="dp", ranks=1)
    whole("ranks", settings.ranks, 1, 1)
    optimizer = optimizer or settings.optimizer
    cpu = _Cpu(settings, optimizer)
    data = SeededData(settings.seed, settings.layers[0], settings.layers[-1])
    waiting: list[list[Array]] = []
    losses: list[float] = []
    staleness: list[int] = []
    for step in range(steps):
        missed = 1 if step >= late_from else 0
        while len(waiting) > missed:
            cpu.update(waiting.pop(0))
        working = [unit.astype(settings.dtype) for unit in cpu.weights]
        loss, gradients = _step(settings, working, *data.draw(settings.samples))
        losses.append(loss)
        staleness.append(step - cpu.updates)
        waiting.append(gradients)
    for gradients in waiting:
        cpu.update(gradients)
    return DelayedRun(tuple(losses), tuple(staleness), cpu.vector())


def largest_stable_rate(curvature: float, *, delayed: bool) -> float:
    """Return the rate from which gradient descent on ½·λ·w² no longer comes to rest (S47).

    w ← (1 − ηλ)·w shrinks for η < 2/λ. One step late, w′ ← w − ηλ·w₋₁ has the characteristic
    equation z² − z + ηλ = 0, whose roots have length √(ηλ) once they are complex: η < 1/λ.

    Raises:
        InputError: a curvature that is not positive.
    """
    return (1 if delayed else 2) / real("curvature", curvature, 1e-12, 1e12)


class _Cpu:
    """Master weights and optimizer states, a vector for each unit, and how often they changed."""

    def __init__(self, settings: Settings, optimizer: Optimizer) -> None:
        self._units = settings.units
        self._optimizer = optimizer
        self.weights = [
            network.initial_unit(shape, settings.seed, number)
            for number, shape in enumerate(settings.units)
        ]
        self._states = [[np.zeros_like(unit) for _ in optimizer.states] for unit in self.weights]
        self.updates = 0

    def update(self, gradients: list[Array]) -> None:
        self.updates += 1
        for weights, gradient, states in zip(self.weights, gradients, self._states, strict=True):
            self._optimizer.update(self.updates, weights, gradient.astype(np.float32), states)

    def vector(self) -> Array:
        pairs = zip(self.weights, self._units, strict=True)
        return np.concatenate([unit[: shape.elements] for unit, shape in pairs])


def _step(
    settings: Settings, weights: list[Array], inputs: Array, targets: Array
) -> tuple[float, list[Array]]:
    """Return the mean loss of a batch and its gradient, a flat vector for each unit."""
    units = settings.units
    before = inputs.astype(settings.dtype)
    kept = []
    for number, shape in enumerate(units):
        kept.append(network.activation(number, before))
        before = network.forward(shape, weights[number], kept[-1])
    rows = len(inputs)
    loss, wide = squared_error(before, targets, np.ones(rows, bool))
    through: Array | None = (wide * np.float32(1 / rows)).astype(settings.dtype)
    gradients = []
    for number in reversed(range(len(units))):
        assert through is not None
        flat, through = network.backward(
            number, units[number], weights[number], kept[number], through
        )
        gradients.append(flat)
    return loss / rows, gradients[::-1]
