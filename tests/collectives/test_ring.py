"""Ring collectives against real gloo results, formulas and direct sums."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.plan import MOST_RANKS, Plan, Transfer
from shardbook.collectives.ring import (
    gloo_sizes,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from shardbook.collectives.run import run_on_vectors
from shardbook.errors import InputError

DATA = Path(__file__).parent / "data"
#: sums by PyTorch 2.13 with gloo: 14 cases of 2 and 4 ranks, and 4 of 3 and 5 ranks
GLOO = {
    name: array
    for file in ("ring_all_reduce_gloo.npz", "ring_all_reduce_gloo_odd.npz")
    for name, array in np.load(DATA / file).items()
}
CASES = sorted(name.removesuffix("_in") for name in GLOO if name.endswith("_in"))


@st.composite
def rings(draw):
    n = draw(st.integers(1, 9))
    sizes = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return n, sizes, draw(st.sampled_from([1, -1])), draw(st.integers(-n, n))


def vectors_of(n, sizes, seed=0):
    return list(np.random.default_rng(seed).integers(-99, 99, (n, sum(sizes))))


@pytest.mark.parametrize("case", CASES)
def test_ring_all_reduce_equals_gloo_bit_for_bit(case):
    inputs, expected = GLOO[case + "_in"], GLOO[case + "_out"]
    n, elements = inputs.shape
    plan = ring_all_reduce(n, gloo_sizes(elements, inputs.itemsize, n), direction=-1)
    for result in run_on_vectors(plan, list(inputs)):
        assert result.dtype == expected.dtype
        assert result.tobytes() == expected.reshape(-1).tobytes()


def test_there_are_18_gloo_cases_and_some_tell_the_direction_apart():
    assert len(CASES) == 18
    differ = []
    for case in CASES:
        inputs = GLOO[case + "_in"]
        n, elements = inputs.shape
        plan = ring_all_reduce(n, gloo_sizes(elements, inputs.itemsize, n), direction=1)
        differ.append(np.any(run_on_vectors(plan, list(inputs))[0] != GLOO[case + "_out"]))
    assert any(differ)


@settings(derandomize=True, deadline=None)
@given(rings())
def test_all_reduce_gives_every_rank_the_sum(case):
    """(S19)"""
    n, sizes, direction, offset = case
    vectors = vectors_of(n, sizes)
    plan = ring_all_reduce(n, sizes, direction=direction, offset=offset)
    for result in run_on_vectors(plan, vectors):
        np.testing.assert_array_equal(result, sum(vectors))
    assert len(list(plan.rounds)) == 2 * (n - 1)


@settings(derandomize=True, deadline=None)
@given(rings())
def test_reduce_scatter_leaves_each_rank_its_own_chunk(case):
    n, sizes, direction, offset = case
    vectors = vectors_of(n, sizes)
    pieces = np.split(sum(vectors), np.cumsum(sizes)[:-1])
    plan = ring_reduce_scatter(n, sizes, direction=direction, offset=offset)
    for rank, result in enumerate(run_on_vectors(plan, vectors)):
        np.testing.assert_array_equal(result, pieces[(rank + offset) % n])


@settings(derandomize=True, deadline=None)
@given(rings())
def test_all_gather_gives_every_rank_every_shard(case):
    n, sizes, direction, offset = case
    whole = vectors_of(1, sizes)[0]
    pieces = np.split(whole, np.cumsum(sizes)[:-1])
    plan = ring_all_gather(n, sizes, direction=direction, offset=offset)
    for result in run_on_vectors(plan, [pieces[(r + offset) % n] for r in range(n)]):
        np.testing.assert_array_equal(result, whole)


@settings(derandomize=True, deadline=None)
@given(rings())
def test_each_rank_sends_to_one_neighbour_one_chunk_a_round(case):
    """(S19)"""
    n, sizes, direction, offset = case
    for transfers in ring_all_reduce(n, sizes, direction=direction, offset=offset).rounds:
        assert sorted(move.source for move in transfers) == list(range(n))
        assert all(move.target == (move.source + direction) % n for move in transfers)


def test_summation_order_is_the_rings():
    """Chunk c is summed from rank c + 1 on, in the direction of the ring, and ends at rank c."""
    vectors = list(np.random.default_rng(1).standard_normal((5, 20)).astype(np.float32))
    for direction in (1, -1):
        plan = ring_reduce_scatter(5, 20, direction=direction)
        for rank, result in enumerate(run_on_vectors(plan, vectors)):
            expected = np.float32(0)
            for k in range(1, 6):
                expected = expected + vectors[(rank + direction * k) % 5][4 * rank : 4 * rank + 4]
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.complex64])
def test_any_dtype_is_kept(dtype):
    vectors = [np.arange(7).astype(dtype)] * 3
    result = run_on_vectors(ring_all_reduce(3, 7), vectors)[2]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.arange(7).astype(dtype) * dtype(3))


def test_callback_sees_every_transfer_with_its_bytes():
    """(S19)"""
    seen = []
    run_on_vectors(
        ring_all_reduce(4, 16),
        [np.ones(16, np.float32)] * 4,
        lambda number, move, array: seen.append((number, move.source, array.nbytes)),
    )
    assert len(seen) == 6 * 4
    assert sum(size for _, source, size in seen if source == 0) == 2 * 3 * 16
    assert {number for number, _, _ in seen} == set(range(6))


def test_a_group_of_global_ranks_reduces_among_itself():
    plan = ring_all_reduce([1, 5, 3], 6)
    assert {move.source for moves in plan.rounds for move in moves} == {1, 3, 5}
    assert {move.target for moves in plan.rounds for move in moves if move.source == 1} == {5}


def test_plans_are_values():
    assert ring_all_reduce(4, 10) == ring_all_reduce(4, 10)
    assert hash(ring_all_reduce(4, 10)) == hash(ring_all_reduce(4, 10))
    assert ring_all_reduce(4, 10) != ring_all_reduce(4, 10, direction=-1)
    assert str(next(iter(ring_all_reduce(4, 10).rounds))[1]) == "rank 1 → 2: chunk 0 +"


def test_inputs_are_left_alone():
    vectors = [np.arange(5.0) for _ in range(3)]
    results = run_on_vectors(ring_all_reduce(3, 5), vectors)
    results[0][:] = -1
    for vector in vectors:
        np.testing.assert_array_equal(vector, np.arange(5.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ring_all_reduce(0, 4),
        lambda: ring_all_reduce(MOST_RANKS + 1, 4),
        lambda: ring_all_reduce([], 4),
        lambda: ring_all_reduce([1, 1], 4),
        lambda: ring_all_reduce(2, [1, 2, 3]),
        lambda: ring_all_reduce(2, [1, -1]),
        lambda: ring_all_reduce(2, -1),
        lambda: ring_all_reduce(2, 1.5),
        lambda: ring_all_reduce(2, 4, direction=2),
        lambda: ring_all_reduce(2, 4, offset=3),
        lambda: run_on_vectors(ring_all_reduce(2, 4), [np.ones(4)]),
        lambda: run_on_vectors(ring_all_reduce(2, 4), [np.ones(4), np.ones(3)]),
        lambda: run_on_vectors(ring_all_reduce(2, 4), [np.ones(4), np.ones(4, np.float32)]),
        lambda: run_on_vectors(ring_all_reduce(2, 4), [np.ones((2, 2)), np.ones((2, 2))]),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()


def test_a_plan_that_sends_what_it_lacks_is_refused():
    good = ring_all_gather(3, 6)
    broken = Plan(good.collective, good.ranks, good.chunks, tuple(good.rounds)[1:])
    with pytest.raises(InputError, match="does not hold chunk"):
        run_on_vectors(broken, [np.ones(2)] * 3)


@pytest.mark.parametrize("move", [Transfer(0, 9, 0, False), Transfer(9, 0, 0, True)])
def test_a_plan_with_a_foreign_rank_is_refused(move):
    good = ring_all_gather(3, 6)
    foreign = Plan(good.collective, good.ranks, good.chunks, ((move,),))
    with pytest.raises(InputError, match="rank 9 does not"):
        run_on_vectors(foreign, [np.ones(2)] * 3)
