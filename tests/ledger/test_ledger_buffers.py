"""Buffers and working memory (S2, S40, S43)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.ledger.buffers import DDP_BUCKET_BYTES, constant_buffer_bytes, fused_buffer_bytes
from shardbook.ledger.stages import bytes_per_rank
from shardbook.ledger.working import (
    largest_hidden,
    operator_tensor_bytes,
    update_bytes,
    working_bytes,
)
from shardbook.numbers.units import GB

MLP = (3168, 9312, 9312, 9312, 1552)


@pytest.mark.parametrize(("billions", "gigabytes"), [(1.5, 6), (3, 12), (175, 700)])
def test_a_fused_buffer_is_as_large_as_the_model(billions: float, gigabytes: int) -> None:
    """(S40)"""
    parameters = int(billions * 10**9)
    assert fused_buffer_bytes(parameters) == gigabytes * GB
    assert constant_buffer_bytes(parameters) == DDP_BUCKET_BYTES == 26_214_400


def test_a_small_model_does_not_fill_the_bucket() -> None:
    """(S40)"""
    assert constant_buffer_bytes(32_656) == 4 * 32_656
    assert constant_buffer_bytes(32_656, 1000) == 1000


@pytest.mark.parametrize(
    ("hidden", "tiles", "size"),
    [(8192, 1, 1_073_741_824), (65536, 1, 68_719_476_736), (65536, 16, 4_294_967_296)],
)
def test_working_memory_of_the_largest_operator(hidden: int, tiles: int, size: int) -> None:
    """(S43)"""
    assert working_bytes(hidden, tiles) == size == 4 * hidden * 4 * hidden // tiles


def test_16_tiles_gain_4_times_the_width() -> None:
    # M31: not 8 times
    """(S43)"""
    assert largest_hidden(2 * 2**30) == 16_384
    assert largest_hidden(2 * 2**30, 16) == 65_536
    assert working_bytes(16_384) == working_bytes(65_536, 16)
    assert largest_hidden(7) == 0


@settings(derandomize=True, deadline=None)
@given(st.integers(8, 10**13), st.integers(1, 64))
def test_the_largest_width_fits_and_twice_it_does_not(piece: int, tiles: int) -> None:
    hidden = largest_hidden(piece, tiles)
    assert 8 * hidden**2 <= piece * tiles < 8 * (2 * hidden) ** 2


def test_the_update_holds_one_units_fp32_gradients() -> None:
    # S2, S18: 522,496 → 559,744 B and 228,592 → 237,904 B
    """(S2)"""
    assert update_bytes(bytes_per_rank(MLP, 4, 0)) == 559_744
    assert update_bytes(bytes_per_rank(MLP, 4, 1)) == 237_904
    assert update_bytes(bytes_per_rank(MLP, 1, 3)) == 559_744


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("parameters", lambda: fused_buffer_bytes(0)),
        ("buffer", lambda: constant_buffer_bytes(8, -1)),
        ("hidden", lambda: working_bytes(0)),
        ("tiles", lambda: operator_tensor_bytes(8, 9)),
        ("tiles", lambda: largest_hidden(8, 0)),
        ("contiguous bytes", lambda: largest_hidden(float("inf"))),
    ],
)
def test_bad_buffer_sizes_name_the_argument(argument: str, call: Any) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument
