"""The vocabulary cut among ranks: embedding by rows, output layer and cross-entropy by columns.

Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3: the loss is fused with the output
layer, so that three numbers a token are sent instead of one a word of the vocabulary.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError
from shardbook.training.splitting.tensor_parallel import Outcome
from shardbook.training.splitting.wires import Wires, split

Array = NDArray[Any]


def embedding(tokens: Array, table: Array, output_gradient: Array, ranks: int) -> Outcome:
    """Look up ``tokens`` [t] in ``table`` [V, h], cut by rows among ``ranks`` (S55).

    A rank gives zeros for words of others; one all-reduce of [t, h] forward, none backward.
    ``input_gradient`` is empty: tokens have none. Raises InputError.
    """
    _words(tokens, table.shape[0])
    wires = Wires(ranks)
    tables = split(table, ranks, 0, "the vocabulary")
    places = [_places(tokens, first, len(part)) for first, part in _firsts(tables, axis=0)]
    parts = [
        np.where((place >= 0)[:, None], part[place], 0)
        for place, part in zip(places, tables, strict=True)
    ]
    outputs = wires.all_reduce("the embeddings", parts)[0]
    gradients = [np.zeros_like(part) for part in tables]
    for gradient, place in zip(gradients, places, strict=True):
        mine = place >= 0
        np.add.at(gradient, place[mine], output_gradient[mine])
    return Outcome(outputs, np.empty(0), {"table": np.concatenate(gradients)}, wires)


def cross_entropy(inputs: Array, weight: Array, targets: Array, ranks: int) -> Outcome:
    """Return each token's loss [t] of logits inputs [t, h] @ weight [h, V], cut by columns (S55).

    Forward sends each rank's largest logit, then sums Σ exp and the target's logit: three numbers
    a token. Gradients are of the sum of the losses; backward all-reduces the input's. Raises
    InputError.
    """
    _words(targets, weight.shape[1])
    wires = Wires(ranks)
    weights = split(weight, ranks, 1, "the vocabulary")
    logits = [inputs @ part for part in weights]
    places = [_places(targets, first, part.shape[1]) for first, part in _firsts(weights, axis=1)]
    tops = wires.all_gather("the largest logit", [part.max(axis=1)[:, None] for part in logits], 1)
    shifted = [part - top.max(axis=1)[:, None] for part, top in zip(logits, tops, strict=True)]
    totals = wires.all_reduce("the sum of exp", [np.exp(part).sum(axis=1) for part in shifted])
    rows = np.arange(len(targets))
    mine = [
        np.where(place >= 0, part[rows, place], 0)
        for part, place in zip(shifted, places, strict=True)
    ]
    wanted = wires.all_reduce("the target's logit", mine)[0]

    wires.phase = "backward"
    gradients = [np.exp(part) / total[:, None] for part, total in zip(shifted, totals, strict=True)]
    for gradient, place in zip(gradients, places, strict=True):
        gradient[rows[place >= 0], place[place >= 0]] -= 1
    parts = [gradient @ part.T for gradient, part in zip(gradients, weights, strict=True)]
    input_gradient = wires.all_reduce("the input's gradient", parts)[0]
    joined = np.concatenate([inputs.T @ gradient for gradient in gradients], axis=1)
    return Outcome(np.log(totals[0]) - wanted, input_gradient, {"weight": joined}, wires)


def _firsts(parts: list[Array], axis: int) -> list[tuple[int, Array]]:
    """Each part with the number of its first word."""
    ends = np.cumsum([part.shape[axis] for part in parts])
    return [(int(end) - part.shape[axis], part) for end, part in zip(ends, parts, strict=True)]


def _places(words: Array, first: int, count: int) -> Array:
    """Where each word stands in a rank's part, or -1 if another rank has it."""
    return np.where((words >= first) & (words < first + count), words - first, -1)


def _words(words: Array, vocabulary: int) -> None:
    if words.size and not 0 <= words.min() <= words.max() < vocabulary:
        raise InputError("tokens", int(words.max()), f"give words from 0 to {vocabulary - 1:,}")
