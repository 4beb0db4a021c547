import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.training.replicas import example, local_update, numeric_gradient, replicated_update


def test_the_lessons_numbers():
    """Loss 30.2175; the lesson's gradient norm, 53.0517, is 16 times too large (S53)."""
    update = local_update(*example())
    assert update.loss == pytest.approx(30.2175, abs=5e-5)
    assert update.gradient_norm * 16 == pytest.approx(53.0517, abs=5e-5)


@pytest.mark.parametrize("place", [(0, 0), (31, 15), (7, 3)])
def test_the_gradient_is_the_central_difference(place):
    data, weights = example()
    numeric = numeric_gradient(data, weights, *place)
    assert local_update(data, weights).gradient[place] == pytest.approx(numeric, abs=1e-7)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 64, [1, 60, 3]])
def test_weighed_by_rows_the_average_is_the_joint_batchs(ranks):
    """(S53)"""
    data, weights = example()
    joint, averaged = local_update(data, weights), replicated_update(data, weights, ranks)
    assert averaged.loss == pytest.approx(joint.loss)
    assert averaged.gradient == pytest.approx(joint.gradient, abs=1e-13)


def test_unweighed_it_is_so_for_equal_shards_only():
    data, weights = example()
    joint = local_update(data, weights)
    equal = replicated_update(data, weights, 4, weigh_rows=False)
    unequal = replicated_update(data, weights, 3, weigh_rows=False)
    assert equal.gradient == pytest.approx(joint.gradient, abs=1e-13)
    error = np.abs(unequal.gradient - joint.gradient).max() * 16
    assert error == pytest.approx(0.10, abs=0.005)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 5), st.data())
def test_any_shards_of_any_shape_agree(rows, inputs, outputs, data):
    ranks = data.draw(st.integers(1, rows))
    x, w = example(rows, inputs, outputs, seed=rows)
    averaged = replicated_update(x, w, ranks)
    assert averaged.gradient == pytest.approx(local_update(x, w).gradient, abs=1e-12)


@pytest.mark.parametrize("ranks", [0, 65, [32, 31], [64, 0], [-1, 65]])
def test_shards_that_do_not_fit_are_refused(ranks):
    with pytest.raises(InputError):
        replicated_update(*example(), ranks)
