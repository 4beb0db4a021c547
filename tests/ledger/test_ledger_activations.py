"""Activations and checkpointing: the published formula, a simulated backward (S13, S14)."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.ledger.activations import (
    layer_bytes,
    lower_bound_layer_bytes,
    shape,
    zero_activation_elements,
    zero_checkpoint_bytes,
)
from shardbook.ledger.checkpointing import (
    best_interval,
    checkpoint_peak_bytes,
    extra_compute,
    intervals,
    selective_extra_compute,
)

MIB = 2**20
LESSON = {"batch": 1, "sequence": 2048, "hidden": 4096, "layers": 32, "heads": 32}
ZERO = shape(batch=32, sequence=1024, hidden=8192, layers=125)

quiet = settings(derandomize=True, deadline=None)


def test_the_lower_bound_is_64_mib_a_layer() -> None:
    model = shape(**LESSON)
    assert lower_bound_layer_bytes(model) == 64 * MIB
    assert model.layers * lower_bound_layer_bytes(model) == 2 * 2**30
    assert 32 * lower_bound_layer_bytes(shape(**LESSON | {"batch": 8})) == 16 * 2**30


def test_a_real_layer_keeps_14_times_the_lower_bound() -> None:
    model = shape(**LESSON)
    assert layer_bytes(model) == 956_301_312
    assert layer_bytes(model, recompute="selective") == 285_212_672
    assert round(layer_bytes(model) / lower_bound_layer_bytes(model), 1) == 14.2


@pytest.mark.parametrize(
    ("heads", "hidden", "ratio"),
    [(96, 12288, 80), (128, 20480, 64)],  # Korthikanti et al. §5: 5as/h of GPT-3 and MT-NLG
)
def test_selective_recomputation_drops_the_published_part(
    heads: int, hidden: int, ratio: int
) -> None:
    model = shape(1, 2048, hidden, 1, heads)
    full, selective = layer_bytes(model), layer_bytes(model, recompute="selective")
    assert full == (34 + ratio) * model.elements
    assert selective == 34 * model.elements


@quiet
@given(
    st.integers(1, 8),
    st.integers(1, 4096),
    st.integers(1, 16),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 16),
    st.booleans(),
    st.booleans(),
)
def test_a_layer_follows_the_published_formula(
    b: int, s: int, width: int, t: int, heads: int, sequence_parallel: bool, selective: bool
) -> None:
    a, h = t * heads, t * heads * width
    matrix = Fraction(5 * a * s, h)
    terms = Fraction(34 if sequence_parallel else 24, t) + (0 if sequence_parallel else 10)
    expected = s * b * h * (terms + (0 if selective else matrix / t))
    found = layer_bytes(
        shape(b, s, h, 1, a),
        tensor_parallel=t,
        sequence_parallel=sequence_parallel,
        recompute="selective" if selective else "none",
    )
    assert found == expected


def test_full_recomputation_keeps_the_input_of_a_layer() -> None:
    model = shape(**LESSON)
    assert layer_bytes(model, recompute="full") == 16 * MIB
    assert layer_bytes(model, recompute="full", tensor_parallel=8) == 16 * MIB
    with_sequence = layer_bytes(model, recompute="full", tensor_parallel=8, sequence_parallel=True)
    assert with_sequence == 2 * MIB


def test_the_calculator_of_100b_gives_67_and_4_gb() -> None:
    """(S13)"""
    assert zero_checkpoint_bytes(ZERO) == 67_108_864_000
    assert zero_checkpoint_bytes(ZERO, model_parallel=16) == 4_194_304_000
    assert zero_checkpoint_bytes(ZERO, interval=5) == 67_108_864_000 // 5
    assert zero_checkpoint_bytes(ZERO, interval=2) == 63 * 2 * ZERO.elements
    assert zero_activation_elements(ZERO) == 12 * 8192 * 32 * 1024 * 125


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("batch", lambda: shape(**LESSON | {"batch": 0})),
        ("sequence", lambda: shape(**LESSON | {"sequence": 1.5})),
        ("hidden", lambda: shape(**LESSON | {"hidden": 10**10})),
        ("layers", lambda: shape(**LESSON | {"layers": float("nan")})),
        ("heads", lambda: shape(**LESSON | {"heads": 33})),
        ("tensor parallel", lambda: layer_bytes(shape(**LESSON), tensor_parallel=3)),
        ("recompute", lambda: layer_bytes(shape(**LESSON), recompute="some")),
        ("tensors", lambda: lower_bound_layer_bytes(shape(**LESSON), 0)),
        ("interval", lambda: zero_checkpoint_bytes(ZERO, 0)),
        ("model parallel", lambda: zero_checkpoint_bytes(ZERO, 1, -1)),
        ("interval", lambda: checkpoint_peak_bytes(32, 64, 16, 33)),
        ("layers", lambda: best_interval(0, 64, 16)),
        ("layer bytes", lambda: intervals(4, -1, 16)),
        ("checkpoint bytes", lambda: intervals(4, 1, 0.5)),
        ("backward over forward", lambda: extra_compute(-1)),
        ("sequence", lambda: selective_extra_compute(0, 1)),
        ("hidden", lambda: selective_extra_compute(1, -1)),
    ],
)
def test_bad_sizes_name_the_argument(argument: str, call: Any) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument


def _simulated_peak(layers: int, layer: int, checkpoint: int, interval: int) -> int:
    """Backward over the segments from the last to the first, counting what is alive."""
    starts = list(range(0, layers, interval))
    alive = dict.fromkeys(starts, checkpoint)
    peak = 0
    for start in reversed(starts):
        recomputed = [layer] * len(range(start, min(layers, start + interval)))
        peak = max(peak, sum(alive.values()) + sum(recomputed))
        del alive[start]
    return peak


@quiet
@given(st.integers(1, 60), st.integers(1, 100), st.integers(1, 100), st.data())
def test_the_peak_equals_a_simulated_backward(
    layers: int, layer: int, checkpoint: int, data: Any
) -> None:
    interval = data.draw(st.integers(1, layers))
    peak = checkpoint_peak_bytes(layers, layer, checkpoint, interval)
    assert peak == _simulated_peak(layers, layer, checkpoint, interval)


def test_checkpoints_of_the_lesson() -> None:
    # S14: 32 layers of 64 MiB, an input of 16 MiB; 2,048 MiB without checkpoints
    """(S14)"""
    peaks = [checkpoint_peak_bytes(32, 64 * MIB, 16 * MIB, k) // MIB for k in (1, 2, 4, 8, 16)]
    assert peaks == [576, 384, 384, 576, 1056]


@quiet
@given(st.integers(1, 60), st.integers(1, 100), st.integers(1, 100))
def test_what_is_alive_at_the_peak_adds_up(layers: int, layer: int, checkpoint: int) -> None:
    for row in intervals(layers, layer, checkpoint):
        assert row.held * checkpoint + row.recomputed * layer == row.peak_bytes
        # either the last segment with every checkpoint, or a full one with one checkpoint fewer
        last = layers - (row.checkpoints - 1) * row.interval
        full = (row.checkpoints - 1, row.interval)
        assert (row.held, row.recomputed) in [(row.checkpoints, last), full]


@quiet
@given(st.integers(1, 100), st.integers(1, 100))
def test_selective_recomputation_repeats_two_products_of_a_layer(s: int, h: int) -> None:
    # multiply-adds of a layer's forward: Q, K, V and output 4sh², MLP 8sh², scores and values 2s²h
    products = [s * h * h] * 4 + [4 * s * h * h] * 2
    attention = [s * s * h] * 2
    forward = sum(products) + sum(attention)
    assert selective_extra_compute(s, h) == pytest.approx(sum(attention) / (3 * forward))


@quiet
@given(st.integers(1, 60), st.integers(1, 100), st.integers(1, 100))
def test_the_best_interval_is_the_first_of_the_least(
    layers: int, layer: int, checkpoint: int
) -> None:
    peaks = [_simulated_peak(layers, layer, checkpoint, k) for k in range(1, layers + 1)]
    best = best_interval(layers, layer, checkpoint)
    assert best.peak_bytes == min(peaks)
    assert best.interval == 1 + peaks.index(min(peaks))
    assert best.checkpoints == -(-layers // best.interval)


@pytest.mark.parametrize("root", [2, 5, 10])
def test_no_interval_beats_the_square_root(root: int) -> None:
    # Chen et al. 2016: equal bytes for a layer and a checkpoint
    """(S14)"""
    peak = checkpoint_peak_bytes(root * root, 1, 1, root)
    assert peak == best_interval(root * root, 1, 1).peak_bytes == 2 * root


def test_recomputation_costs_a_third() -> None:
    """(S14)"""
    assert extra_compute() == pytest.approx(1 / 3)
    assert extra_compute(1) == 0.5
