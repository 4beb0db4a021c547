"""The four moments of a step: sums by hand, a brute force over layers, and what moves them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.ledger.activations import layer_bytes, shape
from shardbook.ledger.moments import MOMENTS, moments
from shardbook.ledger.recipes import RECIPES
from shardbook.ledger.stages import bytes_per_rank
from shardbook.numbers.units import GB

#: 70 × 10⁹ parameters in 80 layers, as in the source lectures' examples
UNITS = [875_000_000] * 80
MODEL = shape(1, 2048, 8192, 80, 64)
SBH = 2048 * 8192


def in_gb(ranks: int, **options: object) -> dict[str, float]:
    found = moments(UNITS, ranks, MODEL, **options)  # type: ignore[arg-type]
    return {moment.name: moment.bytes / GB for moment in found}


def test_70b_on_16_ranks_by_hand() -> None:
    """(S12)"""
    at = in_gb(16)
    checkpoint, layer = 2 * SBH, SBH * (34 + 80)
    shards, gathered, gradient = 14 * 70e9 / 16, 2 * 2 * 875e6, 2 * 875e6
    assert at["forward"] * GB == shards + gathered + 79 * checkpoint + layer
    assert at["backward"] * GB == shards + gathered + layer + gradient + 79 * gradient / 16
    assert at["update"] * GB == 16 * 70e9 / 16 + 4 * 875e6 / 16
    assert at["save"] * GB == shards
    assert in_gb(16, gather_to_save=True)["save"] * GB == shards + 140e9


def test_states_that_fit_14_cards_fail_in_backward() -> None:
    """(S12)"""
    assert bytes_per_rank(UNITS, 14, 3).fullest_rank_bytes == 80 * GB
    fourteen = in_gb(14)
    assert fourteen["forward"] < 80 < fourteen["update"] < fourteen["backward"]
    assert max(in_gb(15).values()) > 80 > max(in_gb(16).values())


def test_the_moment_that_fails_depends_on_what_is_kept() -> None:
    copy = in_gb(16, recipe="mixed-adam-resident-fp32-gradients")
    assert copy["backward"] == in_gb(16)["backward"] < 80
    assert copy["update"] == 20 * 70 / 16 > 80
    assert in_gb(16, recompute="none")["forward"] > 200
    assert in_gb(16, gathered_units=80)["forward"] - in_gb(16)["forward"] == 140 - 3.5


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(1, 8),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(sorted(RECIPES)),
)
def test_backward_peaks_at_the_worst_layer(
    units: list[int], ranks: int, sequence: int, recompute: str, recipe: str
) -> None:
    model = shape(1, sequence, 8, len(units), 2)
    found = {
        m.name: m
        for m in moments(units, ranks, model, recipe, recompute=recompute, gathered_units=1)
    }
    assert tuple(found) == MOMENTS
    each = 4 if recipe.startswith("fp32") or recipe == "mixed-adam-fp32-gradients" else 2
    kept, full = layer_bytes(model, recompute=recompute), layer_bytes(model)
    worst = max(
        each * units[at]
        + each * sum(-(-unit // ranks) for unit in units[at + 1 :])
        + at * kept
        + full
        for at in range(len(units))
    )
    weights = 4 if recipe.startswith("fp32") else 2
    assert found["backward"].bytes == found["save"].bytes + weights * max(units) + worst
    states = bytes_per_rank(units, ranks, 3, recipe)
    assert found["save"].bytes == states.fullest_rank_bytes - states.by_category()["gradients"]
    assert found["update"].bytes >= states.fullest_rank_bytes


def test_a_moment_prints_its_pieces() -> None:
    text = str(moments([10, 10], 2, shape(1, 1, 2, 2, 1), "weights=2,gradients=2,momentum=4")[2])
    assert text == (
        "update: 100 B = 20 shards of weights + 40 shards of momentum + 20 shards of gradients"
        " + 20 one layer's gradients in FP32"
    )


def test_units_that_are_not_one_a_layer_are_refused() -> None:
    with pytest.raises(InputError, match="units"):
        moments([10], 2, shape(1, 1, 2, 2, 1))
    with pytest.raises(InputError, match="gathered units"):
        moments([10], 2, shape(1, 1, 2, 1, 1), gathered_units=2)
