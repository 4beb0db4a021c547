"""The tensor-parallel explorer: bytes against formulas written out here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.explorers.registry import get


def row(view, name):
    return next(one[1:] for one in view.table.rows if one[0] == name)


@pytest.mark.parametrize(("width", "ratio"), [("4096", "5.33"), ("5120", "4.27"), ("8192", "2.67")])
def test_four_ranks_four_replicas_send_four_times_t_over_3h(width: str, ratio: str) -> None:
    """(S55)"""
    view = get("tensor-parallel").view({"width": width, "tensor_ranks": "4", "data_ranks": "4"})
    assert f"tensor parallelism sends {ratio} times as much" in view.sentence
    assert row(view, "tensor")[2] == "128"


def test_bytes_by_hand() -> None:
    view = get("tensor-parallel").view(
        {"tensor_ranks": "2", "tokens": "1000", "width": "1000", "layers": "1", "data_ranks": "2"}
    )
    assert row(view, "tensor") == ("activations", "8 MB", "4")  # 4 · 10⁶ · 2 B · 2 · 1/2
    assert row(view, "data") == ("gradients", "12 MB", "1")  # 12 · 10⁶ / 2 · 2 B · 2 · 1/2
    assert view.sentence.endswith("1.5 times as much.")


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.sampled_from(["1", "2", "4", "8", "16"]), st.sampled_from(["1", "3", "64"]))
def test_one_stripe_a_rank(ranks: str, replicas: str) -> None:
    view = get("tensor-parallel").view({"tensor_ranks": ranks, "data_ranks": replicas})
    assert view.figure.count('class="sb-faint"') == 3 * (int(ranks) - 1)
    assert ("Nothing is cut" in view.sentence) == (ranks == "1")
    assert ("no gradients are sent" in view.sentence) == (replicas == "1")
