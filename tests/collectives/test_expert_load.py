"""Loads of experts: sums, limits and the all-to-all, against other ways of counting."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.experts import (
    capacity,
    dispatch,
    expert_flops,
    expert_load,
    skewed_loads,
)
from shardbook.collectives.network import flat
from shardbook.errors import InputError


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 5000), st.integers(1, 64), st.data(), st.floats(0, 4))
def test_each_token_chooses_k_different_experts(tokens, experts, data, skew):
    """(S58)"""
    k = data.draw(st.integers(1, experts))
    loads = skewed_loads(tokens, experts, k, skew)
    assert sum(loads) == k * tokens
    assert len(loads) == experts and 0 <= min(loads) <= max(loads) <= tokens
    # equal ideals may round apart by one
    assert all(a + 1 >= b for a, b in pairwise(loads))


def test_no_skew_is_even_and_skew_follows_the_power():
    assert skewed_loads(1000, 8, 2, 0) == (250,) * 8
    loads = skewed_loads(100_000, 50, 1, 1)
    assert loads[0] / loads[1] == pytest.approx(2, abs=0.001)
    assert loads[0] / loads[9] == pytest.approx(10, abs=0.01)


@pytest.mark.parametrize(
    ("tokens", "experts", "k", "factor", "expected"),
    # Switch Transformers, figure 3: 6 tokens, 3 experts: 2 at factor 1, 3 at 1.5
    [
        (6, 3, 1, 1.0, 2),
        (6, 3, 1, 1.5, 3),
        (10, 4, 1, 1.0, 3),
        (100, 10, 2, 1.1, 22),
        (5, 5, 1, 0, 0),
    ],
)
def test_capacity(tokens, experts, k, factor, expected):
    """(S58)"""
    assert capacity(tokens, experts, k, factor) == expected


def test_a_hot_expert_makes_its_rank_the_slowest():
    """(S58)"""
    even = expert_load((10, 10, 10, 10), 2)
    assert (even.ranks, even.imbalance, even.dropped) == ((20, 20), 1, 0)
    hot = expert_load((31, 3, 3, 3), 2)
    assert (hot.ranks, hot.imbalance) == ((34, 6), Fraction(34, 20))
    capped = expert_load((31, 3, 3, 3), 2, most=10)
    assert (capped.kept, capped.dropped, capped.ranks) == ((10, 3, 3, 3), 21, (13, 6))
    assert expert_load((8, 0, 0), 3).imbalance == 3
    assert expert_load((0, 0), 2).imbalance == 1
    assert expert_load((1, 2, 3, 4, 5), 2).ranks == (6, 9)


def test_dispatch_sends_all_but_a_rank_s_own_share():
    found = dispatch((40, 80, 0, 40), 3, flat(0.0, 1.0))
    assert found.received == (90, 180, 0, 90)
    assert sum(found.sent) == 3 * 160 * 3 // 4
    assert found.seconds == 180  # the hot rank's port


def test_flops_of_an_expert_are_six_a_weight_and_token():
    assert expert_flops(7, 3, 5) == 6 * 7 * (2 * 3 * 5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: skewed_loads(8, 4, 5, 0),
        lambda: skewed_loads(8, 4, 1, -1),
        lambda: expert_load((1, 2), 3),
        lambda: expert_load((1, -2), 1),
        lambda: capacity(1, 1, 1, -0.5),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()
