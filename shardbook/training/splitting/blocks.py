"""The two blocks of a transformer layer, forward and backward, as a device computes them.

A block takes its weights, or any device's part of them, and its input, and returns its output and
a function that takes the output's gradient and returns the input's and the weights'. With a part
of the columns of its first linear and the matching rows of its second, the output is a part of the
sum over the devices.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Weights = Mapping[str, Array]
#: output gradient → (input gradient, weight gradients)
Backward = Callable[[Array], tuple[Array, dict[str, Array]]]
Block = Callable[[Weights, Array], tuple[Array, Backward]]

#: name of a block's weight → the axis that tensor parallelism cuts: columns first, then rows
MLP_AXES: Final = {"up": 1, "up_bias": 0, "down": 0}
ATTENTION_AXES: Final = {"qkv": 2, "out": 0}


def mlp(weights: Weights, inputs: Array) -> tuple[Array, Backward]:
    """Return tanh(inputs @ up + up_bias) @ down, [tokens, h]; no bias of the second linear.

    ``up`` [h, f], ``up_bias`` [f], ``down`` [f, h]. tanh acts on each column alone, so that a part
    of the columns can go through it without the others.
    """
    hidden = np.tanh(inputs @ weights["up"] + weights["up_bias"])

    def backward(gradient: Array) -> tuple[Array, dict[str, Array]]:
        before = (gradient @ weights["down"].T) * (1 - hidden**2)
        return before @ weights["up"].T, {
            "up": inputs.T @ before,
            "up_bias": before.sum(axis=0),
            "down": hidden.T @ gradient,
        }

    return hidden @ weights["down"], backward


def attention(weights: Weights, inputs: Array) -> tuple[Array, Backward]:
    """Return causal multi-head attention of one sequence, [tokens, h]; no bias.

    ``qkv`` [h, 3, heads, d] and ``out`` [heads, d, h]. A head needs no other head.
    """
    q, k, v = np.einsum("th,hcad->catd", inputs, weights["qkv"])
    mixed, probabilities = attend(q, k, v)

    def backward(gradient: Array) -> tuple[Array, dict[str, Array]]:
        d_mixed = np.einsum("th,adh->atd", gradient, weights["out"])
        d_qkv = np.stack(attend_backward(q, k, v, probabilities, d_mixed))
        return np.einsum("catd,hcad->th", d_qkv, weights["qkv"]), {
            "qkv": np.einsum("th,catd->hcad", inputs, d_qkv),
            "out": np.einsum("atd,th->adh", mixed, gradient),
        }

    return np.einsum("atd,adh->th", mixed, weights["out"]), backward


def attend(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """Return causal attention [heads, tokens, d] and its probabilities [heads, tokens, tokens]."""
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
    scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    probabilities = weights / weights.sum(axis=2, keepdims=True)
    return probabilities @ v, probabilities


def attend_backward(
    q: Array, k: Array, v: Array, probabilities: Array, gradient: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v, each [heads, tokens, d]."""
    through = gradient @ v.swapaxes(1, 2)
    mean = (through * probabilities).sum(axis=2, keepdims=True)
    scores = probabilities * (through - mean) / np.sqrt(q.shape[2])
    return scores @ k, scores.swapaxes(1, 2) @ q, probabilities.swapaxes(1, 2) @ gradient
