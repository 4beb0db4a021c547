"""Attention around a ring against attention on one device."""

import numpy as np
import pytest

from shardbook.collectives.context import causal_work, ring_attention_bytes
from shardbook.errors import InputError
from shardbook.training.splitting.blocks import attend, attend_backward
from shardbook.training.splitting.ring_attention import ring_attention


def case(tokens, scale=1.0):
    stream = np.random.default_rng(tokens)
    return [scale * stream.standard_normal((2, tokens, 3)) for _ in range(4)]


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize(
    ("tokens", "ranks"), [(1, 1), (6, 1), (6, 2), (7, 2), (9, 3), (11, 4), (5, 5)]
)
def test_ring_attention_is_attention(tokens, ranks, scale):
    """(S63)"""
    q, k, v, gradient = case(tokens, scale)
    found = ring_attention(q, k, v, gradient, ranks)
    expected, probabilities = attend(q, k, v)
    np.testing.assert_allclose(found.outputs, expected, atol=1e-9)
    expected_gradients = attend_backward(q, k, v, probabilities, gradient)
    for one, other in zip(
        (found.q_gradient, found.k_gradient, found.v_gradient), expected_gradients, strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-8 * scale**3)
    assert found.blocks == tuple(range(1, ranks + 1))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_bytes_are_the_formula_s(ranks):
    """(S63)"""
    wires = ring_attention(*case(8), ranks).wires
    assert wires.sent() == (ring_attention_bytes(8, 2 * 3, ranks, 8),) * ranks
    moves = wires.count()
    assert moves.get(("forward", "pass on"), 0) == ranks - 1
    assert moves.get(("backward", "pass on"), 0) == (2 * ranks - 1 if ranks > 1 else 0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_causal_work_against_the_mask(ranks):
    """(S63)"""
    runs = 2 * ranks
    # half the diagonal and all below it, doubled
    mask = 2 * np.tri(runs, k=-1) + np.eye(runs)
    by_run = mask.sum(axis=1)
    assert causal_work(ranks) == tuple(by_run.reshape(ranks, 2).sum(axis=1))
    assert causal_work(ranks, two_ended=True) == tuple(
        by_run[i] + by_run[-1 - i] for i in range(ranks)
    )
    assert len(set(causal_work(ranks, two_ended=True))) == 1


def test_more_ranks_than_tokens_are_refused():
    with pytest.raises(InputError, match="sequence"):
        ring_attention(*case(3), 4)
