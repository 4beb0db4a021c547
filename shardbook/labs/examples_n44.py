"""The visible examples of lab n44, compared with the engine's number formats and optimizer."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from shardbook.labs.checking import Rule
from shardbook.labs.values import Fault, compare, show
from shardbook.numbers.formats import FP16, Format
from shardbook.numbers.formats import round_to as rounded
from shardbook.training.optimizers import Adam


def _rounds(value: float, exponent_bits: int, mantissa_bits: int, got: Any) -> Fault | None:
    right = rounded(Format("the lab's", exponent_bits, mantissa_bits), value)
    if type(got) not in (int, float):
        return Fault("result", "a number", show(got))
    if got != right or math.copysign(1.0, got) != math.copysign(1.0, right):
        return Fault("result", "the nearest number of the format", show(got))
    return None


def _adam(
    master: list[float],
    gradients: list[list[float]],
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    value: Any,
) -> Fault | None:
    weights = np.array(master, np.float64)
    states = [np.zeros_like(weights), np.zeros_like(weights)]
    optimizer = Adam(rate, beta1, beta2, epsilon)
    for number, gradient in enumerate(gradients, start=1):
        optimizer.update(number, weights, np.array(gradient, np.float64), states)
    names = ("momentum", "variance", "master_weights")
    if not isinstance(value, dict):
        return compare({}, value)
    for name, right in zip(names, (*states, weights), strict=True):
        if fault := _near(right.tolist(), value.get(name), f"result['{name}']"):
            return fault
    working = [rounded(FP16, float(weight)) for weight in weights]
    return compare(working, value.get("weights"), where="result['weights']")


def _near(right: list[float], got: Any, where: str) -> Fault | None:
    """The engine's optimizer has factors of float32."""
    if fault := compare([0.0] * len(right), _zeros(got), where=where):
        return fault
    for place, (one, other) in enumerate(zip(right, got, strict=True)):
        if not math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-12):
            return Fault(f"{where}[{place}]", "a number of another value", show(other))
    return None


def _zeros(got: Any) -> Any:
    if not isinstance(got, (list, tuple)):
        return got
    return [0.0 if type(one) in (int, float) and abs(one) < 1e300 else one for one in got]


def _scaled(*wanted: float) -> Callable[..., Fault | None]:
    """``wanted`` is the scale of each step."""

    def judge(
        gradients: list[list[float]],
        scale: float,
        growth: float,
        backoff: float,
        interval: int,
        patience: int,
        value: Any,
    ) -> Fault | None:
        if not isinstance(value, (list, tuple)) or len(value) != len(gradients):
            return Fault("result", "a list with one pair for each step", show(value))
        for step, (pair, gradient) in enumerate(zip(value, gradients, strict=True)):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                return Fault(f"step {step}", "a pair (scale, gradient)", show(pair))
            if fault := compare(wanted[step], pair[0], where=f"the scale of step {step}"):
                return fault
            in_fp16 = [rounded(FP16, slope * pair[0]) for slope in gradient]
            right = [slope / pair[0] for slope in in_fp16]
            used = None if any(map(math.isinf, right)) else right
            if fault := compare(used, pair[1], where=f"the gradient of step {step}"):
                return fault
        return None

    return judge


#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "n44.1": (
        Rule(
            "to the nearest number",
            "The text works this one out.",
            (1.3, 4, 3),
            _rounds,
        ),
        Rule(
            "a tie to the even mantissa",
            "This value lies halfway between two numbers of the format.",
            (1.0625, 4, 3),
            _rounds,
        ),
        Rule(
            "subnormal numbers",
            "This value lies below the smallest normal number.",
            (0.009, 4, 3),
            _rounds,
        ),
        Rule(
            "infinity beyond the largest number",
            "This value is far beyond the largest number of the format.",
            (-1000.0, 4, 3),
            _rounds,
        ),
    ),
    "n44.2": (
        Rule(
            "one step",
            "Go through Adam's equations, one after the other.",
            ([0.5, -0.25], [[0.5, 0.125]], 0.125, 0.75, 0.5, 1e-08),
            _adam,
        ),
        Rule(
            "several steps from the master weights",
            "What does the second step begin with, and which power has it?",
            ([0.5, -0.25], [[0.5, 0.125], [0.25, -0.5]], 0.001, 0.75, 0.5, 1e-08),
            _adam,
        ),
    ),
    "n44.3": (
        Rule(
            "gradients go through FP16 with the scale",
            "The first gradient is so small that FP16 alone would lose it.",
            ([[1e-08, 0.25]], 1024.0, 2.0, 0.5, 10, 1),
            _scaled(1024.0),
        ),
        Rule(
            "an overflow skips the step and lowers the scale of the next ones",
            "The text works this one out.",
            ([[0.5], [100.0, 0.5], [0.5], [0.5], [0.5]], 1024.0, 2.0, 0.5, 2, 1),
            _scaled(1024.0, 1024.0, 512.0, 512.0, 1024.0),
        ),
        Rule(
            "an overflow within the patience leaves the scale alone",
            "Here the second overflow is the first one too many.",
            ([[100.0], [0.5], [100.0], [0.5]], 1024.0, 2.0, 0.25, 10, 2),
            _scaled(1024.0, 1024.0, 1024.0, 256.0),
        ),
    ),
}
