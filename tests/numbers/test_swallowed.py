import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.numbers import swallowed
from shardbook.numbers.formats import BF16, FP8_E4M3, FP16, FP32, decode, encode, round_to

exact = settings(derandomize=True, deadline=None)


def test_an_update_three_orders_below_the_weight_is_swallowed_by_fp16_and_not_by_fp32():
    """(S11)"""
    assert not swallowed.survives(FP16, 1.0, 0.0003)
    assert swallowed.survives(FP16, 1.0, 0.0005)
    assert swallowed.survives(FP32, 1.0, 0.0003)
    assert not swallowed.survives(BF16, 1.0, 0.003)


@exact
@given(st.integers(1, 0x7BFE), st.booleans())
def test_the_threshold_separates_swallowed_from_surviving(code, down):
    weight, sign = decode(FP16, code), -1 if down else 1
    threshold, at = swallowed.smallest_surviving_update(FP16, weight, down=down)
    assert swallowed.survives(FP16, weight, sign * threshold) is at
    assert swallowed.survives(FP16, weight, sign * threshold * (1 + 2**-40))
    assert not swallowed.survives(FP16, weight, sign * threshold * (1 - 2**-40))
    assert at == (code % 2 == 1)


def test_below_a_power_of_two_half_as_much_survives():
    assert swallowed.smallest_surviving_update(FP16, 1.0) == (2**-11, False)
    assert swallowed.smallest_surviving_update(FP16, 1.0, down=True) == (2**-12, False)


@pytest.mark.parametrize("fmt", [FP16, BF16, FP8_E4M3], ids=str)
def test_a_thousand_small_updates_need_the_master_copy(fmt):
    """(S11)"""
    alone = swallowed.repeated_updates(fmt, 1.0, 1e-4, 1000)
    kept = swallowed.repeated_updates(fmt, 1.0, 1e-4, 1000, master=FP32)
    assert alone == 1.0
    assert kept == round_to(fmt, 1.1)


def test_repeated_updates_equal_numpy():
    total = np.float16(0.1)
    for _ in range(500):
        total = total + np.float16(0.001)
    update = float(np.float16(0.001))
    assert swallowed.repeated_updates(FP16, 0.1, update, 500) == float(total)


@exact
@given(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1))
def test_addition_equals_numpy(a, b):
    x, y = np.uint16(a).view(np.float16), np.uint16(b).view(np.float16)
    if np.isfinite(x) and np.isfinite(y):
        with np.errstate(over="ignore"):
            assert encode(FP16, swallowed.add(FP16, float(x), float(y))) == int(
                (x + y).view(np.uint16)
            ) or (x == -y)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: swallowed.survives(FP16, float("nan"), 1.0),
        lambda: swallowed.survives(FP16, 1e6, 1.0),
        lambda: swallowed.survives(FP16, 1.0, float("inf")),
        lambda: swallowed.smallest_surviving_update(FP16, 65504.0),
        lambda: swallowed.repeated_updates(FP16, 1.0, 1.0, -1),
    ],
)
def test_bad_numbers_are_refused(bad):
    with pytest.raises(InputError):
        bad()


@exact
@given(
    st.sampled_from([FP16, BF16, FP8_E4M3]),
    st.floats(0.01, 8),
    st.floats(-0.1, 0.1),
    st.integers(0, 40),
    st.sampled_from([None, FP32]),
)
def test_the_path_visits_what_repeated_updates_reach(fmt, weight, update, count, master):
    walked = swallowed.path(fmt, weight, update, count, master)
    assert len(walked) == count + 1
    for done in (0, count // 2, count):
        assert walked[done] == swallowed.repeated_updates(fmt, weight, update, done, master)
