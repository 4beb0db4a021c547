"""Hidden checks of n44.2 and n44.3: Adam from master weights, loss scaling with patience.

The engine's loss scale lowers at every overflow: patience stands nowhere in it.
"""

import math
import struct
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

_HUGE: Final = 1e30
_NEVER: Final = 1000


def _numbers(rng: Random, count: int, low: float, high: float) -> list[float]:
    return [rng.choice((-1, 1)) * rng.uniform(low, high) for _ in range(count)]


def _usual(rng: Random) -> Iterable[Case]:
    for _ in range(6):
        gradients = [_numbers(rng, 3, 0.01, 1.0) for _ in range(rng.randint(1, 5))]
        yield _numbers(rng, 3, 0.1, 1.0), gradients, 0.01, rng.choice((0.8, 0.9)), 0.99, 1e-8


def _first_steps(rng: Random) -> Iterable[Case]:
    """The updates are large, so that rounding what is kept to FP16 would hardly show."""
    for steps in (1, 1, 2, 2):
        gradient = _numbers(rng, 3, 0.1, 1.0)
        yield _numbers(rng, 3, 0.1, 1.0), [gradient] * steps, 0.25, 0.9, 0.999, 1e-8


def _swallowed(rng: Random) -> Iterable[Case]:
    """Without memory (both betas 0) there is nothing to correct."""
    for _ in range(4):
        gradient = _numbers(rng, 3, 0.1, 1.0)
        yield _numbers(rng, 3, 1.0, 1.9), [gradient] * rng.randint(40, 80), 1e-4, 0.0, 0.0, 1e-12


def _small_gradients(rng: Random) -> Iterable[Case]:
    for _ in range(4):
        yield _numbers(rng, 3, 0.1, 1.0), [_numbers(rng, 3, 5e-4, 2e-3)], 0.25, 0.0, 0.0, 1e-3


def _vectors(case: Case, value: Any, *names: str) -> list[list[float]] | Fault:
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    found = []
    for name in names:
        vector, where = value.get(name), f"result['{name}']"
        if not isinstance(vector, (list, tuple)) or len(vector) != len(case[0]):
            return Fault(where, "a list with one number for each weight", show(vector))
        if wrong := [x for x in vector if type(x) not in (int, float) or not abs(x) < 1e300]:
            return Fault(where, "numbers", show(wrong[0]))
        found.append(list(vector))
    return found


def _moments(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    found = _vectors(case, outcome.value, "momentum", "variance")
    if isinstance(found, Fault):
        return found
    for name, vector in zip(("momentum", "variance"), found, strict=True):
        for place, (right, got) in enumerate(zip(expected[name], vector, strict=True)):
            if not math.isclose(right, got, rel_tol=1e-4, abs_tol=1e-9):
                return Fault(f"result['{name}'][{place}]", "a number of another value", show(got))
    return None


def _moved(tolerance: float) -> Callable[[Case, Any, Outcome], Fault | None]:
    """Compare how far each master weight has moved, with a relative tolerance."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        found = _vectors(case, outcome.value, "master_weights")
        if isinstance(found, Fault):
            return found
        for place, start in enumerate(case[0]):
            right, got = expected["master_weights"][place] - start, found[0][place] - start
            if abs(got - right) > tolerance * abs(right):
                where = f"how far master weight {place} moves"
                return Fault(where, "less" if abs(got) > abs(right) else "more", show(got))
        return None

    return judge


def _in_fp16(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    found = _vectors(case, outcome.value, "weights", "master_weights")
    if isinstance(found, Fault):
        return found
    for place, (weight, master) in enumerate(zip(*found, strict=True)):
        if abs(master) > 60_000 or weight != struct.unpack("e", struct.pack("e", master))[0]:
            where = f"working weight {place}"
            return Fault(where, "the FP16 number nearest to your master weight", show(weight))
    return None


def _no_overflow(rng: Random) -> Iterable[Case]:
    for _ in range(6):
        scale = 2.0 ** rng.randint(4, 12)
        gradients = [
            [math.ldexp(rng.uniform(-1, 1), -rng.randint(0, 40)) for _ in range(4)]
            for _ in range(3)
        ]
        yield gradients, scale, 2.0, 0.5, _NEVER, 1


def _some_overflow(rng: Random) -> Iterable[Case]:
    for _ in range(6):
        scale = 2.0 ** rng.randint(3, 10)
        # the last ones round to the largest number and to infinity
        candidates = (_HUGE, -_HUGE, 65519.0 / scale, 65520.0 / scale, 65505.0 / scale)
        gradients = []
        for _ in range(8):
            gradient = [rng.uniform(-1, 1) for _ in range(3)]
            gradient[rng.randrange(3)] = rng.choice((*candidates, 0.5))
            gradients.append(gradient)
        yield gradients, scale, 2.0, 0.5, _NEVER, _NEVER


def _course(rng: Random, pattern: str) -> list[list[float]]:
    """A step for each letter: ``o`` overflows in every element, ``.`` in none."""
    return [
        [_HUGE, -_HUGE] if letter == "o" else [rng.uniform(0.001, 0.01), 0.002]
        for letter in pattern
    ]


def _patterns(rng: Random, count: int, length: int) -> Iterable[str]:
    for _ in range(count):
        yield "".join(rng.choice("o..") for _ in range(length)) + "o."


def _backing_off(rng: Random) -> Iterable[Case]:
    for pattern in _patterns(rng, 4, 8):
        yield _course(rng, pattern), 2.0**12, 2.0, rng.choice((0.25, 0.125)), _NEVER, 1


def _being_patient(rng: Random) -> Iterable[Case]:
    for patience in (2, 3, 4):
        pattern = "o." * (patience - 1) + ".o.oo." + "o."
        yield _course(rng, pattern), 2.0**12, 2.0, 0.5, _NEVER, patience


def _growing(rng: Random) -> Iterable[Case]:
    for interval in (2, 3, 4):
        run = "." * interval
        yield _course(rng, run + run[1:] + "o" + run + "."), 16.0, 4.0, 0.5, interval, 1
        # growth brings the patience back: neither overflow lowers the scale
        yield _course(rng, "o" + run + "o" + run + "."), 16.0, 2.0, 0.5, interval, 2


def _pairs(case: Case, value: Any) -> list[tuple[Any, Any]] | Fault:
    if not isinstance(value, (list, tuple)) or len(value) != len(case[0]):
        return Fault("result", "a list with one pair for each step", show(value))
    for step, pair in enumerate(value):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            return Fault(f"step {step}", "a pair (scale, gradient)", show(pair))
    return [(pair[0], pair[1]) for pair in value]


def _scales(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    pairs = _pairs(case, outcome.value)
    if isinstance(pairs, Fault):
        return pairs
    for step, ((right, _), (got, _)) in enumerate(zip(expected, pairs, strict=True)):
        if type(got) not in (int, float) or not math.isclose(got, right, rel_tol=1e-9):
            return Fault(f"the scale of step {step}", "a number of another value", show(got))
    return None


def _which_skipped(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    pairs = _pairs(case, outcome.value)
    if isinstance(pairs, Fault):
        return pairs
    for step, ((_, right), (_, got)) in enumerate(zip(expected, pairs, strict=True)):
        if (right is None) != (got is None):
            kind = "None, as it overflows" if right is None else "a gradient, as none overflows"
            return Fault(f"step {step}", kind, show(got))
    return None


def _used(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    pairs = _pairs(case, outcome.value)
    if isinstance(pairs, Fault):
        return pairs
    for step, ((_, right), (_, got)) in enumerate(zip(expected, pairs, strict=True)):
        if not isinstance(got, (list, tuple)) or len(got) != len(right):
            return Fault(f"the gradient of step {step}", "a list of the same length", show(got))
        for place, (one, other) in enumerate(zip(right, got, strict=True)):
            if type(other) not in (int, float) or not math.isclose(one, other, rel_tol=1e-9):
                where = f"element {place} of the gradient of step {step}"
                return Fault(where, "a number of another value", show(other))
    return None


ADAM_STEPS: Final = HiddenCheck(
    blocked=("shardbook.training.optimizers:Adam.update",),
    probes=(
        Probe("moments", _usual, _moments),
        Probe("bias correction", _first_steps, _moved(0.02)),
        Probe("small updates add up", _swallowed, _moved(0.01)),
        Probe("epsilon", _small_gradients, _moved(0.02)),
        Probe("working weights", _usual, _in_fp16),
    ),
)

SCALED_STEPS: Final = HiddenCheck(
    blocked=("shardbook.numbers.loss_scaling:LossScale.after",),
    probes=(
        Probe("gradients", _no_overflow, _used),
        Probe("skipped steps", _some_overflow, _which_skipped),
        Probe("backoff", _backing_off, _scales),
        Probe("patience", _being_patient, _scales),
        Probe("growth", _growing, _scales),
    ),
)
