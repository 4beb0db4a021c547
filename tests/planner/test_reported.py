"""The papers' results and CPU-Adam's times, computed here a second time from what is printed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.planner.cpu_adam import (
    CPU_ADAM,
    MEASURED,
    PYTORCH_CPU,
    PYTORCH_GPU,
    swap_seconds,
    tokens_for_slowdown,
    update_seconds,
)
from shardbook.planner.reported import Check, checks

#: a part of the claim → value it should come to, by hand
BY_HAND = {
    "need 800 V100": 320 * 80e-3,
    "holds a trillion": 20,
    "fine-tuned on one DGX-2": 20,
    "32 trillion parameters on": 640 / 32,
    "which is 50 times": 32_000 / 650,
    "650 billion fit": 13,
    "700 times": 1000 / 1.4,
    "ten times": 13 / 1.4,
    "70 billion on one": 1500 / 14,
    "170 billion on 400": (2 + 14 / 25) * 170 / 16,
    "8 times the baseline": 8.5,
    "is 40 %": 25e15 / (512 * 125e12) * 100,
    "10 trillion": 512 * 0.043,
    "20 trillion": 512 * 0.034,
    "15 PFLOP/s on 400": 30,
    "less than 5 %": 3,
    "173 TFLOP/s": 173 / 3.12,
    "186 TFLOP/s": 186 / 3.12,
    "More than 40": 6 * 10e9 * 8192 / (8 * 10e9 * 8192 / 62.5e12) / 1e12,
    "at least 1.12": 13.06 / 10.49,
    "at most 1.59": 14.72 / 10.49,
}


@pytest.fixture(scope="module")
def every() -> tuple[Check, ...]:
    return checks()


def test_each_check_comes_to_the_value_by_hand(every: tuple[Check, ...]) -> None:
    """(S52)"""
    assert len(every) == len(BY_HAND)
    for part, value in BY_HAND.items():
        [check] = [check for check in every if part in check.claim]
        assert check.computed == pytest.approx(value, rel=1e-3), check.claim


def test_only_the_speed_of_the_largest_models_does_not_go_with_the_rest(
    every: tuple[Check, ...],
) -> None:
    """25 PFLOP/s are 49 TFLOP/s a card, not 43 and not 34 (S52)."""
    assert [check.computed < 25 for check in every if not check.holds] == [True, True]


def test_a_wrong_figure_would_be_noticed() -> None:
    """(S52)"""
    assert not Check("", "", "", "about", 100, 89, "").holds
    assert not Check("", "", "", "at least", 100, 99, "").holds
    assert not Check("", "", "", "at most", 100, 101, "").holds
    assert Check("", "", "", "about", 100, 91, "").holds


def test_cpu_adam_updates_four_billion_parameters_a_second() -> None:
    """2.57 s for 10 billion, as reported (S46)."""
    assert CPU_ADAM.updates_per_second == pytest.approx(3.89e9, rel=1e-3)
    assert CPU_ADAM.memory_bandwidth == pytest.approx(28 * 3.89e9, rel=1e-3)
    assert [each.seconds for each in MEASURED] == [2.57, 14.76, 1.00]
    assert PYTORCH_CPU.seconds / CPU_ADAM.seconds == pytest.approx(5.74, abs=0.005)
    assert update_seconds(CPU_ADAM.parameters) == pytest.approx(CPU_ADAM.seconds)
    assert update_seconds(10**10, 4, PYTORCH_GPU) == pytest.approx(0.25)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(0, 10**15), st.floats(1e6, 1e12), st.floats(0.01, 10))
def test_at_that_many_tokens_the_swap_is_the_slowdown(stored, bandwidth, slowdown) -> None:
    """(S15)"""
    extra = swap_seconds(stored, bandwidth)
    assert extra == pytest.approx(2 * stored / bandwidth)
    tokens = tokens_for_slowdown(extra, slowdown, 7 * 10**10, 6e14)
    assert tokens * 8 * 7e10 / 6e14 * slowdown == pytest.approx(extra)


@pytest.mark.parametrize(
    "call",
    [
        lambda: update_seconds(0),
        lambda: update_seconds(1, 0),
        lambda: swap_seconds(1, 0),
        lambda: tokens_for_slowdown(1, 0, 1, 1),
    ],
)
def test_impossible_updates_are_refused(call) -> None:
    with pytest.raises(InputError):
        call()
