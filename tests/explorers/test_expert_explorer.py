"""The expert-routing explorer: loads against sums written out here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.explorers.registry import get


def test_without_skew_all_ranks_take_the_same_time() -> None:
    """(S58)"""
    view = get("expert-routing").view({"skew": "0"})
    assert {row[2] for row in view.table.rows} == {f"{2 * 32768 // 8:,}"}
    seconds = 8192 * 12 * 4096 * 14336 / 500e12
    assert f"take {seconds * 1e3:.3g} ms" in view.sentence
    assert view.sentence.endswith("nothing is dropped.")


def test_a_token_chooses_an_expert_once() -> None:
    view = get("expert-routing").view({"skew": "3", "k": "1", "ranks": "16", "tokens": "1000"})
    shares = [1 / (e + 1) ** 3 for e in range(16)]
    ideal = 1000 * shares[0] / sum(shares)
    assert abs(int(view.table.rows[0][2]) - ideal) < 1  # the largest remainders go up
    both = get("expert-routing").view({"skew": "3", "k": "2", "ranks": "16", "tokens": "1000"})
    assert both.table.rows[0][2] == "1,000"


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.sampled_from(["0", "0.5", "2"]), st.sampled_from(["0.5", "1", "1.5", "4"]))
def test_computed_and_dropped_are_all_choices(skew: str, factor: str) -> None:
    """(S58)"""
    state = {"skew": skew, "factor": factor, "tokens": "1600", "k": "1"}
    rows = get("expert-routing").view(state).table.rows
    computed, dropped = (sum(int(r[i].replace(",", "")) for r in rows) for i in (2, 3))
    assert computed + dropped == 1600
    assert max(int(r[2].replace(",", "")) for r in rows) <= 2 * 100 * float(factor)


@pytest.mark.parametrize("ranks", ["1", "2", "16"])
def test_imbalance_is_the_fullest_over_the_mean(ranks: str) -> None:
    view = get("expert-routing").view({"ranks": ranks, "skew": "1"})
    loads = [int(row[2].replace(",", "")) for row in view.table.rows]
    ratio = max(loads) * len(loads) / sum(loads)
    expected = "same load" if ranks == "1" else f"has {ratio:.3g} times the mean load"
    assert expected in view.sentence
