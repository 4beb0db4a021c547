"""Hidden check of n44.1: rounding to any format; each criterion has values that need only it.

Values for other criteria than the first are exact in float32, so that a detour over it does no
harm there.
"""

import math
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

_Format = tuple[int, int]


def _formats(rng: Random, count: int) -> Iterator[_Format]:
    yield from ((5, 10), (8, 7), (4, 3), (5, 2))
    for _ in range(count):
        yield rng.randint(3, 7), rng.randint(1, 10)


def _scaled(rng: Random, form: _Format, steps: float) -> float:
    """``steps`` spacings of some normal exponent of the format."""
    bias = (1 << (form[0] - 1)) - 1
    exponent = rng.randint(max(1 - bias, -30), min(bias, 30))
    return math.ldexp(steps, exponent - form[1])


def _mantissa(rng: Random, form: _Format) -> int:
    return (1 << form[1]) + rng.randrange((1 << form[1]) - 1)


def _between(rng: Random) -> Iterable[Case]:
    for form in _formats(rng, 8):
        yield _scaled(rng, form, _mantissa(rng, form) + rng.uniform(0.01, 0.49)), *form
        yield _scaled(rng, form, _mantissa(rng, form) + rng.uniform(0.51, 0.99)), *form
        for side in (-1, 1):  # so near a tie that it is one in float32
            near = _mantissa(rng, form) + 0.5 + side * math.ldexp(1.0, -30)
            yield _scaled(rng, form, near), *form
        carries = (2 << form[1]) - 0.25
        yield _scaled(rng, form, carries), *form


def _halfway(rng: Random) -> Iterable[Case]:
    for form in _formats(rng, 8):
        even = _mantissa(rng, form) & ~1
        for below in (even, even + 1):
            yield _scaled(rng, form, below + 0.5), *form


def _tiny(rng: Random) -> Iterable[Case]:
    for form in _formats(rng, 8):
        if form[0] == 8:  # float32 would have no room for them
            continue
        smallest = 2 - (1 << (form[0] - 1)) - form[1]
        for steps in (0.25, 0.75, rng.randrange(1 << form[1]) + 0.75):
            yield math.ldexp(steps, smallest), *form
        yield math.ldexp((1 << form[1]) - 0.25, smallest), *form


def _huge(rng: Random) -> Iterable[Case]:
    for form in _formats(rng, 8):
        if form[0] == 8:
            continue
        bias = (1 << (form[0] - 1)) - 1
        spacing = bias - form[1]
        largest = (2 << form[1]) - 1
        for steps in (largest, largest + 0.25, largest + 0.75, 2 * largest, 5 * largest):
            yield math.ldexp(steps, spacing), *form


def _negative(rng: Random) -> Iterable[Case]:
    for form in _formats(rng, 4):
        yield -_scaled(rng, form, _mantissa(rng, form) + 0.75), *form
        smallest = 2 - (1 << (form[0] - 1)) - form[1]
        yield -math.ldexp(0.25, smallest), *form
        yield -0.0, *form


def _same_number(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    value = outcome.value
    where = f"{case[0]!r} with {case[1]} exponent and {case[2]} mantissa bits"
    if type(value) not in (int, float):
        return Fault(where, "a number", show(value))
    if value != expected:
        return Fault(where, "the nearest number of the format", show(value))
    return None


def _same_sign(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    if fault := _same_number(case, expected, outcome):
        return fault
    if math.copysign(1.0, outcome.value) == math.copysign(1.0, expected):
        return None
    return Fault(repr(case[0]), "a zero with its sign", show(outcome.value))


ROUND_TO: Final = HiddenCheck(
    blocked=(
        "shardbook.numbers.formats:_nearest_code",
        "shardbook.numbers.formats:decode",
        "shardbook.numbers.formats:encode",
        "shardbook.numbers.formats:neighbours",
        "shardbook.numbers.formats:round_to",
    ),
    probes=(
        Probe("nearest", _between, _same_number),
        Probe("ties", _halfway, _same_number),
        Probe("subnormals", _tiny, _same_number),
        Probe("overflow", _huge, _same_number),
        Probe("sign", _negative, _same_sign),
    ),
)
