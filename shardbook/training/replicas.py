"""One linear layer on data replicas: why averaging gradients is the joint batch, and when not.

The loss is mean(output²) over all elements, output = X W with X [rows, in] and W [in, out], so
that its gradient is 2 Xᵀ X W / (rows · out). Float64, no devices: the arithmetic alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError, whole

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Update:
    """The loss and its gradient [in, out] as the replicas agree on them."""

    loss: float
    gradient: Array

    @property
    def gradient_norm(self) -> float:
        """The gradient's Euclidean norm."""
        return float(np.linalg.norm(self.gradient))


def example(
    rows: int = 64, inputs: int = 32, outputs: int = 16, seed: int = 42
) -> tuple[Array, Array]:
    """Return data X [rows, inputs] and weights W [inputs, outputs], standard normal.

    Raises:
        InputError: a size is outside 1 to 4,096.
    """
    sizes = {"rows": rows, "inputs": inputs, "outputs": outputs}
    r, i, o = (whole(name, size, 1, 4096) for name, size in sizes.items())
    stream = np.random.RandomState(whole("seed", seed, 0, 2**32 - 1))
    return stream.randn(r, i), stream.randn(i, o)


def local_update(data: Array, weights: Array) -> Update:
    """Return loss and gradient on one shard of the data [rows, in]."""
    output = data @ weights
    return Update(float(np.mean(output**2)), 2 * data.T @ output / output.size)


def numeric_gradient(data: Array, weights: Array, row: int, column: int) -> float:
    """Return one element of the gradient by central differences, as a second opinion."""
    step = 1e-5
    higher, lower = weights.copy(), weights.copy()
    higher[row, column] += step
    lower[row, column] -= step
    return (local_update(data, higher).loss - local_update(data, lower).loss) / (2 * step)


def replicated_update(
    data: Array, weights: Array, ranks: int | Sequence[int], *, weigh_rows: bool = True
) -> Update:
    """Return the average of the ranks' losses and gradients, each on its shard of the rows (S53).

    ``ranks`` is how many (the first ones get one row more if they don't divide), or the rows of
    each. With ``weigh_rows`` a rank counts as much as it has rows, which is the joint batch's
    gradient whatever the shards; without, every rank counts alike: right only if they are equal.

    Raises:
        InputError: more ranks than rows, or shards that are empty or don't add up.
    """
    counts = _row_counts(len(data), ranks)
    shards = np.split(data, np.cumsum(counts)[:-1])
    updates = [local_update(shard, weights) for shard in shards]
    shares = [c / len(data) for c in counts] if weigh_rows else [1 / len(counts)] * len(counts)
    return Update(
        sum(share * update.loss for share, update in zip(shares, updates, strict=True)),
        sum(
            (share * update.gradient for share, update in zip(shares, updates, strict=True)),
            np.zeros_like(weights),
        ),
    )


def _row_counts(rows: int, ranks: int | Sequence[int]) -> list[int]:
    if not isinstance(ranks, Sequence):
        number = whole("ranks", ranks, 1, rows)
        return [rows // number + (rank < rows % number) for rank in range(number)]
    counts = [whole("rows", count, 1, rows) for count in ranks]
    if sum(counts) != rows:
        raise InputError("rows", counts, f"give shards that add up to {rows}")
    return counts
