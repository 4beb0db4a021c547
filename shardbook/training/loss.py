"""Mean squared error over the tokens that count on one rank."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def squared_error(outputs: Array, targets: Array, mask: Array) -> tuple[float, Array]:
    """Return the sum over counted rows of the row's mean squared error, and its gradient.

    ``outputs`` and ``targets`` are [rows, width], ``mask`` [rows] booleans; computed in float32
    or wider. The gradient [rows, width] is of the sum: it still has to be divided by the number
    of tokens that the mean goes over (`shardbook.collectives.averaging.divisor`).
    """
    wide = np.promote_types(outputs.dtype, np.float32)
    error = (outputs.astype(wide) - targets.astype(wide)) * mask[:, None]
    width = outputs.shape[1]
    return float(np.square(error, dtype=np.float64).sum()) / width, error * (2 / width)
