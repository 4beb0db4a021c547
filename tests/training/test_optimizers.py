import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.training.optimizers import SGD, Adam, NormalisedSGD


def adam_by_the_paper(weights, gradients, rate=1e-3, b1=0.9, b2=0.999, eps=1e-8):
    """Algorithm 1 of Kingma and Ba, in float64."""
    m = v = np.zeros_like(weights)
    for t, g in enumerate(gradients, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        weights = weights - rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return weights


def run(optimizer, weights, gradients):
    weights = weights.astype(np.float32)
    states = [np.zeros_like(weights) for _ in optimizer.states]
    for step, gradient in enumerate(gradients, 1):
        optimizer.update(step, weights, gradient.astype(np.float32), states)
    return weights


def test_adam_is_the_papers_algorithm():
    stream = np.random.default_rng(3)
    weights, gradients = stream.standard_normal(50), stream.standard_normal((40, 50))
    ours = run(Adam(), weights, gradients)
    assert ours == pytest.approx(adam_by_the_paper(weights, gradients), abs=1e-6)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([Adam(), SGD(), SGD(momentum=0.9)]))
def test_element_wise_optimizers_update_a_shard_bit_for_bit_as_the_whole(size, cut, optimizer):
    stream = np.random.default_rng(size)
    weights, gradients = stream.standard_normal(size), stream.standard_normal((5, size))
    whole = run(optimizer, weights, gradients)
    parts = [run(optimizer, weights[p], gradients[:, p]) for p in (slice(cut), slice(cut, None))]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_an_optimizer_that_uses_a_norm_does_not():
    stream = np.random.default_rng(1)
    weights, gradients = stream.standard_normal(8), stream.standard_normal((1, 8))
    whole = run(NormalisedSGD(0.1), weights, gradients)
    parts = [run(NormalisedSGD(0.1), weights[p], gradients[:, p]) for p in (slice(4), slice(4, 8))]
    assert np.abs(np.concatenate(parts) - whole).max() > 0.01
    assert np.linalg.norm(whole - weights.astype(np.float32)) == pytest.approx(0.1, rel=1e-4)


def test_sgd_with_momentum_by_hand():
    weights = run(SGD(rate=0.5, momentum=0.5), np.array([1.0]), np.array([[1.0], [1.0]]))
    assert weights.tolist() == [1 - 0.5 * 1 - 0.5 * 1.5]


@pytest.mark.parametrize(
    "bad",
    [lambda: Adam(rate=-1), lambda: Adam(beta1=1), lambda: SGD(momentum=2), lambda: Adam(beta2=-1)],
)
def test_impossible_settings_are_refused(bad):
    with pytest.raises(InputError):
        bad()
