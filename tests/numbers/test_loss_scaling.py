import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.numbers import loss_scaling
from shardbook.numbers.formats import BF16, FP16
from shardbook.numbers.loss_scaling import Fate, LossScale


def test_overflow_halves_the_scale_and_a_run_of_good_steps_doubles_it():
    """(S11)"""
    scale = LossScale(1024.0, growth_interval=3)
    seen = []
    for overflow in [False, False, True, False, False, False, True, True]:
        scale = scale.after(overflow)
        seen.append(scale.scale)
    assert seen == [1024, 1024, 512, 512, 512, 1024, 512, 256]


def test_a_static_scale_never_moves():
    scale = loss_scaling.static(128.0)
    for overflow in (False, True) * 2500:
        scale = scale.after(overflow)
    assert scale.scale == 128.0


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=50))
def test_fates_are_those_of_numpy(values):
    scaled = np.array(values, dtype=np.float64) * 1024
    with np.errstate(over="ignore"):
        half = np.abs(scaled.astype(np.float16))
    gone = int(np.sum((half == 0) & (np.array(values) != 0)))
    over = int(np.sum(np.isinf(half)))
    small = int(np.sum((half > 0) & (half < 2.0**-14)))
    expected = Fate(gone, small, len(values) - gone - over - small, over)
    assert loss_scaling.fate(FP16, values, 1024.0) == expected


def test_what_vanishes_in_fp16_survives_scaled_or_in_bf16():
    tiny = [2.0**-26, 2.0**-27, -(2.0**-30)]
    assert loss_scaling.fate(FP16, tiny).vanished == 3
    assert loss_scaling.fate(FP16, tiny, 2.0**12).vanished == 0
    assert loss_scaling.fate(BF16, tiny).normal == 3


@pytest.mark.parametrize(
    "bad",
    [{"scale": 0.0}, {"growth": 0.5}, {"backoff": 2.0}, {"growth_interval": 0}, {"scale": np.nan}],
)
def test_an_impossible_rule_is_refused(bad):
    with pytest.raises(InputError):
        LossScale(**bad)
