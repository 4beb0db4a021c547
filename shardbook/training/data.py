"""Where batches come from: a seeded stream, or batches given as arrays. Both can be resumed."""

import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError

Array = NDArray[Any]


class Data(Protocol):
    """A source of joint batches; rank r takes its rows out of them.

    ``position`` counts the rows handed out so far; `state` is what a checkpoint has to hold so
    that `restore` makes the source continue with the next row.
    """

    position: int

    def draw(self, rows: int) -> tuple[Array, Array]:
        """Return the next inputs [rows, in] and targets [rows, out], float32."""

    def state(self) -> dict[str, Any]:
        """Return position and random state as plain JSON values."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where the source stood when ``state`` was taken."""


class SeededData:
    """Standard normal inputs, and targets that a fixed random teacher makes of them."""

    def __init__(self, seed: int, inputs: int, outputs: int) -> None:
        teacher = np.random.default_rng([seed, 1, inputs, outputs])
        self._teacher = teacher.standard_normal((outputs, inputs)) / np.sqrt(inputs)
        self._stream = np.random.default_rng([seed, 2])
        self._width = inputs
        self._seed = seed
        self.position = 0

    def draw(self, rows: int) -> tuple[Array, Array]:
        """Return the next inputs [rows, in] and targets [rows, out], float32."""
        self.position += rows
        inputs = self._stream.standard_normal((rows, self._width))
        targets = 2 * np.tanh(inputs @ self._teacher.T)
        return inputs.astype(np.float32), targets.astype(np.float32)

    def state(self) -> dict[str, Any]:
        """Return position and random state as plain JSON values."""
        return {
            "seed": self._seed,
            "position": self.position,
            "random": copy.deepcopy(self._stream.bit_generator.state),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where the source stood. Raises InputError for the state of another source."""
        if state.get("seed") != self._seed:
            raise InputError("seed", self._seed, f"the state is of seed {state.get('seed')}")
        self.position = state["position"]
        self._stream.bit_generator.state = copy.deepcopy(state["random"])


class RecordedData:
    """Batches given as arrays, inputs [steps, rows, in] and targets [steps, rows, out]."""

    def __init__(self, inputs: Array, targets: Array) -> None:
        self._inputs = inputs.reshape(-1, inputs.shape[-1])
        self._targets = targets.reshape(-1, targets.shape[-1])
        self.position = 0

    def draw(self, rows: int) -> tuple[Array, Array]:
        """Return the next rows. Raises InputError when they are used up."""
        end = self.position + rows
        if end > len(self._inputs):
            allowed = f"{len(self._inputs) - self.position} of the recorded rows are left"
            raise InputError("rows", rows, allowed)
        taken = slice(self.position, end)
        self.position = end
        return self._inputs[taken], self._targets[taken]

    def state(self) -> dict[str, Any]:
        """Return the position; there is no randomness."""
        return {"position": self.position}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where the source stood when ``state`` was taken."""
        self.position = state["position"]
