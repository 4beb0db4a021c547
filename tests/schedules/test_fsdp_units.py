"""Flat parameters, unit sizes, gathers and hybrid sharding against the lecture's figures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.schedules.cases import LAYERS_13B, VOCABULARY_13B, WIDTH_13B, blocks_13b
from shardbook.schedules.units import (
    all_gather_seconds,
    flat_parameter,
    gather_slowdown,
    granularity,
    hybrid_traffic,
    transformer_units,
)

UNITS_13B = transformer_units(WIDTH_13B, LAYERS_13B, VOCABULARY_13B)


def test_a_linear_of_15_elements_on_16_ranks_pads_one():
    """(S17)"""
    flat = flat_parameter({"weight": 12, "bias": 3}, 16)
    assert (flat.padding, flat.shard) == (1, 1)
    assert [piece.rank for piece in flat.pieces] == list(range(15))
    assert str(flat.pieces[12]) == "rank 12: bias[0:1]"


def test_a_13b_block_on_1000_ranks_pads_200():
    assert granularity([UNITS_13B["blocks"][-1]], 1000).padding == 200


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 20))
@settings(derandomize=True, deadline=None)
def test_pieces_hold_every_element_once_in_its_ranks_shard(sizes, ranks):
    names = {f"t{i}": size for i, size in enumerate(sizes)}
    flat = flat_parameter(names, ranks)
    owners = {}
    for piece in flat.pieces:
        for element in range(piece.start, piece.stop):
            assert (piece.name, element) not in owners
            owners[piece.name, element] = piece.rank
    for (name, element), rank in owners.items():
        assert (flat.offsets[name] + element) // flat.shard == rank
    assert len(owners) == sum(sizes)
    assert flat.padding < ranks and flat.shard * ranks == sum(sizes) + flat.padding


def test_13b_by_blocks_peaks_at_a_block_and_whole_at_everything():
    """(S25)"""
    blocks, whole = granularity(UNITS_13B["blocks"], 64), granularity(UNITS_13B["whole model"], 64)
    assert sum(UNITS_13B["blocks"]) == 12_746_752_000
    assert (blocks.units, blocks.shard_bytes) == (41, 398_336_000)
    assert round(blocks.gathered_bytes / 1e9, 3) == 0.629
    assert round(whole.gathered_bytes / 1e9, 2) == 25.49
    assert whole.units == 1


def test_smaller_units_trade_peak_for_collectives():
    costs = [granularity(units, 64) for units in UNITS_13B.values()]
    assert [c.peak_bytes for c in costs] == sorted((c.peak_bytes for c in costs), reverse=True)
    assert [c.collectives for c in costs] == [2, 3 * 41 - 1, 3 * 81 - 1, 3 * 241 - 1]
    assert granularity(UNITS_13B["blocks"], 64, keep_last=False).collectives == 3 * 41
    assert len({sum(units) for units in UNITS_13B.values()}) == 1


def test_33_million_elements_are_13_percent_slower():
    """(S26)"""
    size = 2**25 * 4
    assert round(gather_slowdown(size, 8, 5e-6, 450e9), 3) == 1.134
    single = all_gather_seconds(2**30 * 4, 8, 5e-6, 450e9)
    assert round(32 * all_gather_seconds(size, 8, 5e-6, 450e9) / single, 3) == 1.129
    assert gather_slowdown(size // 32, 8, 5e-6, 450e9) > 5


def test_the_lectures_gathers_of_13b_take_13_ms():
    assert round(blocks_13b()[0].all_gather * 1e3, 3) == 13.016
    assert round(blocks_13b(latency=5e-6)[0].all_gather * 1e3, 2) == 12.70
    assert round(blocks_13b()[0].forward * 1e3, 2) == 20.84
    assert round(blocks_13b()[0].backward * 1e3, 2) == 41.67


def test_uneven_gathers_are_slower():
    """(S27)"""
    for size in (2**10, 2**20, 2**30):
        even = all_gather_seconds(size, 8, 5e-6, 450e9)
        assert all_gather_seconds(size, 8, 5e-6, 450e9, even=False) > even
    assert all_gather_seconds(2**20, 1, 5e-6, 450e9) == 0.0


def test_hybrid_sharding_of_13b_on_8_nodes_sends_a_13th_between_nodes():
    """(S34)"""
    size = 2 * 12_746_752_000
    full, hybrid = hybrid_traffic(size, 64, 64), hybrid_traffic(size, 64, 8)
    assert (round(full.within / 1e9, 2), round(full.within / size, 2)) == (75.29, 2.95)
    assert (round(hybrid.between / 1e9, 2), round(hybrid.between / size, 2)) == (5.58, 0.22)
    assert full.within / hybrid.between == 13.5
    assert round(full.within / 50e9, 2) == 1.51


@given(st.integers(1, 10**9), st.integers(1, 8), st.integers(1, 8))
@settings(derandomize=True, deadline=None)
def test_hybrid_sharding_lies_between_data_parallel_and_full_sharding(size, group, replicas):
    ranks = group * replicas
    padded = -(-size // ranks) * ranks
    traffic = hybrid_traffic(size, ranks, group)
    assert traffic.within * ranks == 3 * padded * (ranks - replicas)
    assert traffic.between * ranks == 2 * padded * (replicas - 1)
    assert traffic.shard_bytes * group == padded


def test_impossible_layouts_are_refused():
    with pytest.raises(InputError, match="divisor"):
        hybrid_traffic(100, 6, 4)
    with pytest.raises(InputError):
        flat_parameter({}, 4)
    with pytest.raises(InputError):
        granularity([], 4)
    with pytest.raises(InputError):
        granularity([4], 0)
    with pytest.raises(InputError):
        all_gather_seconds(4, 2, 0.0, 0.0)
