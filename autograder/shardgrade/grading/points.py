"""Points of a test cell from how it ended, as nbgrader reads them; but never more than was earned.

[Note: where this differs from nbgrader] nbgrader reads the printed form of the cell's last value: it
gives full points for -1, nan and a numpy scalar, fails at the smallest excess over the maximum, and
takes all points for a word on stderr. Here the value itself is read: a number counts up to the
maximum, a negative one or nan counts nothing, and stderr costs nothing. A cell that must hand in
points (it calls `grade`) earns nothing without them.
"""

import math
from numbers import Real
from typing import Any


def points_of(value: Any, most: float, *, must_tell: bool = False) -> float:
    """The points for a test cell that ran to its end with this last value.

    No value, or one that is no number, means full points unless the cell ``must_tell``.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return 0.0 if must_tell else float(most)
    large: Any = value
    try:
        number = float(large)
    except OverflowError:
        number = most if large > 0 else 0.0
    return float(min(max(number, 0.0), most)) if math.isfinite(number) else 0.0
