"""Updates that rounding swallows, and the master copy that keeps them.

Micikevicius et al., ICLR 2018, "Mixed Precision Training", section 3.1: a weight's update is
often smaller than half the spacing of FP16 around the weight, so that adding it changes nothing.
"""

import math
from collections import deque
from collections.abc import Iterator
from fractions import Fraction

from shardbook.errors import InputError, real, whole
from shardbook.numbers.formats import Format, encode, neighbours, round_to


def add(fmt: Format, a: float, b: float) -> float:
    """Return a + b (finite) as a processor of ``fmt`` does it: exact sum, rounded once."""
    return round_to(fmt, Fraction(a) + Fraction(b))


def survives(fmt: Format, weight: float, update: float) -> bool:
    """Say whether adding ``update`` changes ``weight`` (first rounded to ``fmt``) (S11)."""
    start = _weight(fmt, weight)
    update = real("update", update, -math.inf, math.inf)
    return add(fmt, start, update) != start


def smallest_surviving_update(
    fmt: Format, weight: float, *, down: bool = False
) -> tuple[float, bool]:
    """Return the threshold above which a positive update moves ``weight`` up, and whether it does.

    The threshold is half the way to the next number; the second value says whether an update of
    exactly this size survives (it does if the weight's mantissa is odd: ties go to the even one).
    With ``down`` the update is subtracted: at a power of two that takes only half as much.

    (S11)

    Raises:
        InputError: there is no finite number of ``fmt`` on that side of the weight.
    """
    start = _weight(fmt, weight)
    below, above = neighbours(fmt, start)
    following = below if down else above
    if math.isinf(following):
        raise InputError("weight", weight, f"give less than the largest number of {fmt}")
    odd = encode(fmt, start) % 2 == 1
    return float(abs(Fraction(following) - Fraction(start)) / 2), odd


def repeated_updates(
    fmt: Format, weight: float, update: float, count: int, master: Format | None = None
) -> float:
    """Return the working weight in ``fmt`` after adding ``update`` ``count`` times (up to 10⁶).

    With ``master``, the sum is kept in that format, and the working weight is its rounded copy.

    (S11)
    """
    totals = _totals(fmt if master is None else master, weight, update, count)
    return round_to(fmt, deque(totals, maxlen=1)[0])


def path(
    fmt: Format, weight: float, update: float, count: int, master: Format | None = None
) -> tuple[float, ...]:
    """Return the working weight of `repeated_updates` after 0, 1, … ``count`` updates.

    (S11)
    """
    totals = list(_totals(fmt if master is None else master, weight, update, count))
    if master is not None:
        totals = [round_to(fmt, total) for total in totals]
    return (*totals, *totals[-1:] * (count + 1 - len(totals)))


def _totals(fmt: Format, weight: float, update: float, count: int) -> Iterator[float]:
    """The sum in ``fmt`` after 0, 1, … ``count`` additions, shorter if the last ones change nothing."""
    total = _weight(fmt, weight)
    exact = Fraction(real("update", update, -math.inf, math.inf))
    yield total
    for _ in range(whole("count", count, 0, 10**6)):
        total, before = round_to(fmt, Fraction(total) + exact), total
        yield total
        if total == before or not math.isfinite(total):
            return


def _weight(fmt: Format, weight: float) -> float:
    return round_to(fmt, real("weight", weight, -fmt.largest, fmt.largest))
