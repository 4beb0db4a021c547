"""The reference solutions of lab n44 agree with the engine, numpy and one another."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardgrade.checkout import reference
from shardgrade.checks.judging import cases_of, hidden_check

from shardbook.labs.checking import examine
from shardbook.labs.registry import TASKS
from shardbook.numbers.formats import Format, round_to
from shardbook.numbers.loss_scaling import LossScale
from shardbook.training.optimizers import Adam

_ROUND, _ADAM, _SCALE = (reference(TASKS[f"n44.{i}"]) for i in (1, 2, 3))
finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(value=finite | st.floats(-1, 1), exponent=st.integers(2, 8), mantissa=st.integers(1, 23))
def test_rounding_is_the_engines(value: float, exponent: int, mantissa: int) -> None:
    right = round_to(Format("any", exponent, mantissa), value)
    found = _ROUND(value, exponent, mantissa)
    assert (found, math.copysign(1, found)) == (right, math.copysign(1, right))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(value=finite | st.floats(-1e-4, 1e-4) | st.floats(-7e4, 7e4))
def test_rounding_is_numpys_in_its_formats(value: float) -> None:
    with np.errstate(over="ignore"):
        assert _ROUND(value, 5, 10) == np.float16(value)
        assert _ROUND(value, 8, 23) == np.float32(value)


def test_the_formats_asked_for_are_within_the_text() -> None:
    for probe in hidden_check(TASKS["n44.1"]).probes:
        for value, exponent, mantissa in cases_of(TASKS["n44.1"], probe):
            assert math.isfinite(value) and 2 <= exponent <= 8 and 1 <= mantissa <= 23


def test_adam_is_the_engines() -> None:
    for probe in hidden_check(TASKS["n44.2"]).probes:
        for master, gradients, *numbers in cases_of(TASKS["n44.2"], probe):
            weights = np.array(master)
            states = [np.zeros_like(weights), np.zeros_like(weights)]
            for step, gradient in enumerate(gradients, start=1):
                Adam(*numbers).update(step, weights, np.array(gradient), states)
            found = _ADAM(master, gradients, *numbers)
            assert found["master_weights"] == pytest.approx(weights.tolist(), rel=1e-4)
            assert found["momentum"] == pytest.approx(states[0].tolist(), rel=1e-4)
            assert found["variance"] == pytest.approx(states[1].tolist(), rel=1e-4)


def test_with_patience_for_one_the_scale_is_the_engines() -> None:
    for probe in hidden_check(TASKS["n44.3"]).probes:
        for gradients, scale, growth, backoff, interval, _ in cases_of(TASKS["n44.3"], probe):
            state = LossScale(scale, growth, backoff, interval)
            for used_scale, used in _SCALE(gradients, scale, growth, backoff, interval, 1):
                assert used_scale == state.scale
                state = state.after(used is None)


def test_a_scale_that_is_not_right_is_told_by_its_step() -> None:
    def never_grows(gradients: list[list[float]], scale: float, *rest: float) -> object:
        return _SCALE(gradients, scale, 1.0, *rest[1:])

    finding = examine("n44.3", never_grows).finding
    assert finding and finding.fault.where == "the scale of step 4"
    assert "1024" not in str(finding.fault)
