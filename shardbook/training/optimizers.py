"""Adam and SGD on flat float32 vectors, in place and element by element.

Element-wise, so that a shard's update is bit for bit the same as the full vector's.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import real

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Adam:
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1), in the order of operations of PyTorch.

    Raises:
        InputError: a setting is out of range.
    """

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    #: the states kept beside the master weights, each as long as the weights
    states = ("momentum", "variance")

    def __post_init__(self) -> None:
        real("rate", self.rate, 0, 1e3)
        real("beta1", self.beta1, 0, 1 - 2**-20)
        real("beta2", self.beta2, 0, 1 - 2**-20)
        real("epsilon", self.epsilon, 1e-30, 1)

    def update(self, step: int, weights: Array, gradient: Array, states: list[Array]) -> None:
        """Change ``weights`` and ``states`` by update number ``step``, counted from 1."""
        momentum, variance = states
        f32 = np.float32
        momentum += (gradient - momentum) * f32(1 - self.beta1)
        variance *= f32(self.beta2)
        variance += gradient * gradient * f32(1 - self.beta2)
        spread = np.sqrt(variance) / f32((1 - self.beta2**step) ** 0.5) + f32(self.epsilon)
        weights -= momentum / spread * f32(self.rate / (1 - self.beta1**step))


@dataclass(frozen=True, slots=True)
class SGD:
    """Gradient descent, with heavy-ball momentum unless ``momentum`` is 0 (as in PyTorch).

    Raises:
        InputError: a setting is out of range.
    """

    rate: float = 1e-2
    momentum: float = 0.0

    def __post_init__(self) -> None:
        real("rate", self.rate, 0, 1e3)
        real("momentum", self.momentum, 0, 1)

    @property
    def states(self) -> tuple[str, ...]:
        """The states kept beside the master weights, each as long as the weights."""
        return ("momentum",) if self.momentum else ()

    def update(self, step: int, weights: Array, gradient: Array, states: list[Array]) -> None:
        """Change ``weights`` and ``states``; ``step`` plays no part."""
        direction = gradient
        for velocity in states:
            velocity *= np.float32(self.momentum)
            velocity += gradient
            direction = velocity
        weights -= direction * np.float32(self.rate)


@dataclass(frozen=True, slots=True)
class NormalisedSGD:
    """Gradient descent by steps of length ``rate``: not element-wise, so sharding changes it (S21).

    Each vector is divided by its own norm, and a shard's norm is not the full vector's: LARS and
    LAMB, or clipping, must sum their norms over the ranks. This one does not.

    Raises:
        InputError: the rate is out of range.
    """

    rate: float = 1e-2

    #: none is kept beside the master weights
    states = ()

    def __post_init__(self) -> None:
        real("rate", self.rate, 0, 1e3)

    def update(self, step: int, weights: Array, gradient: Array, states: list[Array]) -> None:
        """Change ``weights``; ``step`` and ``states`` play no part."""
        norm = np.sqrt(np.square(gradient).sum())
        if norm > 0:
            weights -= gradient / norm * np.float32(self.rate)


Optimizer = Adam | SGD | NormalisedSGD
