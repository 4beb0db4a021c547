"""Tensor parallelism: a linear's columns or rows, and pairs of linears, on simulated devices.

Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3; sequence parallelism: Korthikanti
et al., "Reducing activation recomputation in large transformer models", MLSys 2023, section 4.2.

[Note: conjugate operators] What enters a pair is copied: f is nothing forward and an all-reduce
backward. What leaves it is summed: g is an all-reduce forward and nothing backward. With sequence
parallelism f becomes an all-gather forward and a reduce-scatter backward, and g the reverse.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import one_of
from shardbook.training.splitting.blocks import Block, Weights
from shardbook.training.splitting.wires import Wires, join_all, split, split_all

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A forward and a backward on all devices, put together as one device would have them.

    ``gradients`` maps a weight's name to its gradient; ``wires`` tells what was sent.
    """

    outputs: Array
    input_gradient: Array
    gradients: dict[str, Array]
    wires: Wires


def linear(cut: str, inputs: Array, weight: Array, output_gradient: Array, ranks: int) -> Outcome:
    """Return inputs [t, n] @ weight [n, m] with the weight cut by ``column`` or ``row`` (S55).

    Column: every rank has the whole input and ends with its columns of the output; backward sums
    the input's gradient. Row: a rank has its columns of the input; forward sums the output, and
    backward sends nothing. Raises InputError.
    """
    one_of("cut", cut, ("column", "row"))
    axis = 1 if cut == "column" else 0
    wires = Wires(ranks)
    weights = split(weight, ranks, axis, "the weight")
    if cut == "column":
        outputs = np.concatenate([inputs @ part for part in weights], axis=1)
        gradients = np.array_split(output_gradient, ranks, axis=1)
        parts = [g @ w.T for g, w in zip(gradients, weights, strict=True)]
        wires.phase = "backward"
        input_gradient = wires.all_reduce("the input's gradient", parts)[0]
        weight_gradients = [inputs.T @ g for g in gradients]
    else:
        columns = np.array_split(inputs, ranks, axis=1)
        parts = [x @ w for x, w in zip(columns, weights, strict=True)]
        outputs = wires.all_reduce("the output", parts)[0]
        input_gradient = np.concatenate([output_gradient @ w.T for w in weights], axis=1)
        weight_gradients = [x.T @ output_gradient for x in columns]
    joined = np.concatenate(weight_gradients, axis)
    return Outcome(outputs, input_gradient, {"weight": joined}, wires)


def pair(
    block: Block,
    axes: Mapping[str, int],
    weights: Weights,
    bias: Array,
    inputs: Array,
    output_gradient: Array,
    ranks: int,
    *,
    sequence_parallel: bool = False,
) -> Outcome:
    """Run a `blocks.mlp` or `blocks.attention` plus ``bias`` [h], cut among ``ranks`` (S55).

    ``inputs`` and ``output_gradient`` [tokens, h]. One all-reduce forward, one backward; with
    ``sequence_parallel`` each becomes a reduce-scatter and an all-gather of the same bytes, and a
    rank stores only its tokens outside the pair. The bias is added once, after the sum. See
    [Note: conjugate operators]. Raises InputError.
    """
    wires = Wires(ranks)
    local = split_all(weights, axes, ranks)
    if sequence_parallel:
        whole = wires.all_gather("the input", split(inputs, ranks, 0, "the sequence"))
    else:
        whole = [inputs] * ranks
    ran = [block(part, x) for part, x in zip(local, whole, strict=True)]
    sums = [output for output, _ in ran]
    if sequence_parallel:
        outputs = np.concatenate([y + bias for y in wires.reduce_scatter("the output", sums)])
    else:
        outputs = wires.all_reduce("the output", sums)[0] + bias

    wires.phase = "backward"
    if sequence_parallel:
        own = np.array_split(output_gradient, ranks)
        arriving = wires.all_gather("the output's gradient", own)
        # A rank has seen only its own tokens: the bias, replicated, is the one gradient to sum.
        bias_gradient = wires.all_reduce("the bias's gradient", [g.sum(axis=0) for g in own])[0]
    else:
        arriving = [output_gradient] * ranks
        bias_gradient = output_gradient.sum(axis=0)
    back = [backward(gradient) for (_, backward), gradient in zip(ran, arriving, strict=True)]
    parts = [gradient for gradient, _ in back]
    if sequence_parallel:
        input_gradient = np.concatenate(wires.reduce_scatter("the input's gradient", parts))
    else:
        input_gradient = wires.all_reduce("the input's gradient", parts)[0]
    gradients = join_all([gradient for _, gradient in back], axes)
    return Outcome(outputs, input_gradient, {**gradients, "bias": bias_gradient}, wires)
