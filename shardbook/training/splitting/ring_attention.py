"""Context parallelism: one long sequence cut among ranks; keys and values go around a ring.

Source: Liu et al., "Ring attention with blockwise transformers for near-infinite context",
arXiv 2310.01889, section 3; the running softmax: Milakov and Gimelshein, arXiv 1805.02867.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.training.splitting.wires import Wires, split

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class RingOutcome:
    """Attention and its gradients, [heads, tokens, d], put together from all ranks.

    ``blocks``: pairs of a query block and a key block each rank computed, forward.
    """

    outputs: Array
    q_gradient: Array
    k_gradient: Array
    v_gradient: Array
    blocks: tuple[int, ...]
    wires: Wires


def ring_attention(q: Array, k: Array, v: Array, output_gradient: Array, ranks: int) -> RingOutcome:
    """Return causal attention of one sequence whose tokens are cut among ``ranks`` (S63).

    All arrays [heads, tokens, d]. A rank keeps its queries; keys and values move N - 1 times
    forward and N - 1 times backward, and in the backward their gradients move N times, the last
    time home. Blocks in a query's future are skipped. Raises InputError.
    """
    wires = Wires(ranks)
    queries, keys, values = (split(array, ranks, 1, "the sequence") for array in (q, k, v))
    starts = np.cumsum([0, *(block.shape[1] for block in queries)])
    forward = [_Rank(block, int(start)) for block, start in zip(queries, starts, strict=False)]
    own = [np.stack(pair) for pair in zip(keys, values, strict=True)]
    moving = own
    for turn in range(ranks):
        for i, rank in enumerate(forward):
            rank.add(moving[i], int(starts[(i - turn) % ranks]))
        if turn < ranks - 1:
            moving = wires.pass_on("keys and values", moving)

    wires.phase = "backward"
    moving = own
    gradients = [np.zeros_like(block) for block in own]
    arriving = np.split(output_gradient, starts[1:-1], axis=1)
    outputs = [rank.begin_backward(part) for rank, part in zip(forward, arriving, strict=True)]
    for turn in range(ranks):
        for i, rank in enumerate(forward):
            gradients[i] = gradients[i] + rank.back(moving[i], int(starts[(i - turn) % ranks]))
        if turn < ranks - 1:
            moving = wires.pass_on("keys and values", moving)
        gradients = wires.pass_on("their gradients", gradients)
    k_gradient, v_gradient = np.concatenate(gradients, axis=2)
    return RingOutcome(
        np.concatenate(outputs, axis=1),
        np.concatenate([rank.q_gradient for rank in forward], axis=1),
        k_gradient,
        v_gradient,
        tuple(rank.blocks for rank in forward),
        wires,
    )


class _Rank:
    """A rank's queries, and its softmax over the keys that have come by so far."""

    def __init__(self, queries: Array, start: int) -> None:
        self.q = queries
        self.start = start
        self.blocks = 0
        self.top = np.full((*queries.shape[:2], 1), -np.inf)
        self.total = np.zeros_like(self.top)
        self.mixed = np.zeros_like(queries)
        self.q_gradient = np.zeros_like(queries)

    def add(self, block: Array, start: int) -> None:
        """Take in a block of keys and values; what was summed so far is scaled to the new top."""
        if start > self.start:
            return
        self.blocks += 1
        keys, values = block
        scores = self._scores(keys, start)
        top = np.maximum(self.top, scores.max(axis=2, keepdims=True))
        weights, scale = np.exp(scores - top), np.exp(self.top - top)
        self.total = self.total * scale + weights.sum(axis=2, keepdims=True)
        self.mixed = self.mixed * scale + weights @ values
        self.top = top

    def begin_backward(self, gradient: Array) -> Array:
        """Return the output; keep its gradient and the mean that softmax's backward subtracts."""
        output = self.mixed / self.total
        self.gradient = gradient
        self.mean = (gradient * output).sum(axis=2, keepdims=True)
        return output

    def back(self, block: Array, start: int) -> Array:
        """Add to the queries' gradient; return those of a block of keys and values."""
        if start > self.start:
            return np.zeros_like(block)
        keys, values = block
        probabilities = np.exp(self._scores(keys, start) - self.top) / self.total
        through = probabilities * (self.gradient @ values.swapaxes(1, 2) - self.mean)
        through /= np.sqrt(self.q.shape[2])
        self.q_gradient = self.q_gradient + through @ keys
        return np.stack(
            [through.swapaxes(1, 2) @ self.q, probabilities.swapaxes(1, 2) @ self.gradient]
        )

    def _scores(self, keys: Array, start: int) -> Array:
        scores = self.q @ keys.swapaxes(1, 2) / np.sqrt(self.q.shape[2])
        mine = self.start + np.arange(self.q.shape[1])
        theirs = start + np.arange(keys.shape[1])
        masked: Array = np.where(mine[:, None] >= theirs, scores, -np.inf)
        return masked
