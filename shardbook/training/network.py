"""A multilayer perceptron, one unit at a time: Linear, and tanh before every unit but the first.

Arrays of float16 are multiplied in float32 and the product is rounded once (what a tensor core
does); every other dtype is computed as it is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.training.flat import FlatUnit

Array = NDArray[Any]


def activation(unit: int, before: Array) -> Array:
    """Return what unit number ``unit`` multiplies: tanh of ``before``, or the network's input."""
    if unit == 0:
        return before
    return np.tanh(_wide(before)).astype(before.dtype, copy=False)


def forward(shape: FlatUnit, weights: Array, inputs: Array) -> Array:
    """Return inputs [rows, in] @ Wᵀ + b, [rows, out]; ``weights`` is the unit's flat vector."""
    weight, bias = shape.views(weights)
    wide = _wide(inputs) @ _wide(weight).T
    wide += _wide(bias)
    return wide.astype(inputs.dtype, copy=False)


def backward(
    unit: int, shape: FlatUnit, weights: Array, inputs: Array, output_gradient: Array
) -> tuple[Array, Array | None]:
    """Return the unit's flat gradient (padding zero) and the gradient of the unit before's output.

    ``inputs`` [rows, in] is what `activation` gave; ``output_gradient`` is [rows, out].
    The first unit's input needs no gradient: None.
    """
    flat = np.zeros(shape.padded, inputs.dtype)
    weight_gradient, bias_gradient = shape.views(flat)
    wide = _wide(output_gradient)
    weight_gradient[:] = wide.T @ _wide(inputs)
    bias_gradient[:] = wide.sum(axis=0)
    if unit == 0:
        return flat, None
    weight, _ = shape.views(weights)
    through = wide @ _wide(weight)
    through *= 1 - np.square(_wide(inputs))
    return flat, through.astype(inputs.dtype, copy=False)


def initial_unit(shape: FlatUnit, seed: int, unit: int) -> Array:
    """Return the unit's float32 start values, uniform in ±1/√inputs as `torch.nn.Linear` does.

    Each unit has a random stream of its own, so that it can be made without the others.
    """
    flat = np.zeros(shape.padded, np.float32)
    bound = 1 / np.sqrt(shape.inputs)
    stream = np.random.default_rng([seed, 0, unit])
    flat[: shape.elements] = stream.uniform(-bound, bound, shape.elements)
    return flat


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float16 else array
