import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.training import network
from shardbook.training.flat import Layout, flat_units, padded
from shardbook.training.loss import squared_error

few = settings(derandomize=True, deadline=None, max_examples=40)


def loss_of(units, weights, inputs, targets, mask):
    for number, unit in enumerate(units):
        inputs = network.forward(unit, weights[number], network.activation(number, inputs))
    return squared_error(inputs, targets, mask)[0]


@few
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=5),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)
def test_every_gradient_is_the_central_difference_of_the_loss(layers, rows, seed):
    stream = np.random.default_rng(seed)
    units = flat_units(tuple(layers), 4)
    weights = [stream.standard_normal(unit.padded) for unit in units]
    data, targets = (
        stream.standard_normal((rows, layers[0])),
        stream.standard_normal((rows, layers[-1])),
    )
    mask = stream.random(rows) < 0.7
    kept = []
    outputs = data
    for number, unit in enumerate(units):
        kept.append(network.activation(number, outputs))
        outputs = network.forward(unit, weights[number], kept[-1])
    gradient = squared_error(outputs, targets, mask)[1]
    for number in reversed(range(len(units))):
        flat, gradient = network.backward(
            number, units[number], weights[number], kept[number], gradient
        )
        assert not flat[units[number].elements :].any()
        for place in range(units[number].elements):
            step = 1e-6
            ends = []
            for sign in (1, -1):
                moved = [w.copy() for w in weights]
                moved[number][place] += sign * step
                ends.append(loss_of(units, moved, data, targets, mask))
            assert flat[place] == pytest.approx(
                (ends[0] - ends[1]) / (2 * step), abs=2e-7, rel=1e-5
            )
    assert gradient is None


def test_half_precision_products_are_float32_products_rounded_once():
    """1 + 2048 · 2⁻¹² = 1.5; summing in float16 would lose every term after the first."""
    unit = flat_units((2049, 1), 1)[0]
    inputs = np.full((1, 2049), 2**-6, np.float16)
    weights = np.full(unit.padded, 2**-6, np.float16)
    inputs[0, 0], weights[0] = 1, 1
    weights[-1] = 0
    out = network.forward(unit, weights, inputs)
    assert out.dtype == np.float16
    assert out[0, 0] == 1.5


def test_half_precision_backward_is_the_float32_one_rounded_once():
    stream = np.random.default_rng(5)
    unit = flat_units((17, 9), 1)[0]
    half = [stream.standard_normal(n).astype(np.float16) for n in (unit.padded, 8 * 17, 8 * 9)]
    weights, inputs, gradient = half[0], np.tanh(half[1]).reshape(8, 17), half[2].reshape(8, 9)
    ours = network.backward(1, unit, weights, inputs, gradient)
    wide = network.backward(1, unit, *(a.astype(np.float32) for a in (weights, inputs, gradient)))
    for rounded, exact in zip(ours, wide, strict=True):
        assert rounded.dtype == np.float16
        assert np.array_equal(rounded, exact.astype(np.float16))


def test_weight_and_bias_are_views_of_the_flat_vector():
    """(S36)"""
    unit = flat_units((4, 3), 16)[0]
    flat = np.arange(unit.padded, dtype=np.float32)
    weight, bias = unit.views(flat)
    weight[1, 2], bias[2] = -1, -2
    assert flat[1 * 4 + 2] == -1
    assert flat[12 + 2] == -2
    assert np.shares_memory(weight, flat)
    assert np.shares_memory(bias, flat)


def test_a_4_to_3_linear_layer_on_16_ranks_has_one_padding_element_on_the_last_rank():
    """(S17)"""
    unit = flat_units((4, 3), 16)[0]
    assert (unit.elements, unit.padded) == (15, 16)
    layout = Layout(16, 16)
    assert [layout.part(rank, unit) for rank in (0, 15)] == [slice(0, 1), slice(15, 16)]


def test_a_block_of_the_13b_model_on_1000_ranks_pads_200():
    """(S17)"""
    assert padded(12 * 5120**2, 1000) - 12 * 5120**2 == 200


def test_the_lectures_network_has_its_five_units():
    sizes = [unit.elements for unit in flat_units((32, 96, 96, 96, 96, 16), 1)]
    assert sizes == [3168, 9312, 9312, 9312, 1552]


@few
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 40), st.integers(1, 40))
def test_parts_tile_the_vector_and_padding_is_less_than_a_shard_group(shard, groups, i, o):
    layout = Layout(shard * groups, shard)
    unit = flat_units((i, o), shard)[0]
    assert 0 <= unit.padded - unit.elements < shard
    for rank in range(layout.ranks):
        group = layout.shard_group(rank)
        covered = [e for r in group for e in range(unit.padded)[layout.part(r, unit)]]
        assert covered == list(range(unit.padded))
        own = layout.part(rank, unit)
        assert all(layout.part(r, unit) == own for r in layout.replicas(rank))
        assert set(group) & set(layout.replicas(rank)) == {rank}


@pytest.mark.parametrize("layers", [(5,), (5, 0), (5, 4097), (1,) * 66, (5, 2.5)])
def test_an_impossible_network_is_refused(layers):
    with pytest.raises(InputError, match="layers"):
        flat_units(layers, 1)


@pytest.mark.parametrize("shard", [0, 3, 8])
def test_a_shard_group_must_divide_the_ranks(shard):
    with pytest.raises(InputError, match="shard"):
        Layout(4, shard)
