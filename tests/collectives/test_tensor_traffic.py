"""Tensor against data parallel bytes: the ratio t/(3h)."""

from fractions import Fraction

import pytest

from shardbook.collectives.tensor import tensor_traffic, traffic_ratio


@pytest.mark.parametrize(("width", "ratio"), [(4096, 1.33), (5120, 1.07), (8192, 0.67)])
def test_ratio_at_16384_tokens(width, ratio):
    """(S55)"""
    assert float(traffic_ratio(16_384, width)) == pytest.approx(ratio, abs=0.005)


def test_cutting_the_layer_multiplies_the_ratio():
    """Gradients shrink by T, activations do not; both rings are of one size (S55)."""
    for ranks in (2, 4, 8):
        found = tensor_traffic(16_384, 4096, 32, ranks, ranks)
        assert found.ratio == ranks * traffic_ratio(16_384, 4096)
    assert found.tensor_bytes == 32 * 4 * 16_384 * 4096 * 2 * Fraction(14, 8)
    assert found.blocking_all_reduces == 128


def test_alone_nothing_is_sent():
    found = tensor_traffic(1, 1, 1, 1, 1)
    assert (found.tensor_bytes, found.data_bytes, found.ratio) == (0, 0, None)
    assert found.blocking_all_reduces == 0
