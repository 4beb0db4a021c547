"""Every algorithm of every collective does what the collective promises, at its stated cost."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.build import ALGORITHMS, plan_of, squarest_node
from shardbook.collectives.exchange import direct, halving_doubling
from shardbook.collectives.hierarchical import hierarchical, hybrid_reduce
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.plan import even_sizes
from shardbook.collectives.ring import ring_all_to_all, ring_broadcast, ring_reduce
from shardbook.collectives.run import run_on_vectors
from shardbook.collectives.tree import binary, naive, tree
from shardbook.collectives.verify import verify
from shardbook.errors import InputError

PAIRS = [(collective, name) for name, done in ALGORITHMS.items() for collective in done]


def expected_and_inputs(collective, n, elements, seed):
    """What each rank gives and gets, written down from the MPI standard, not from a plan."""
    sizes = even_sizes(elements, n)
    ends = np.cumsum(sizes)[:-1]
    full = list(np.random.default_rng(seed).integers(-1000, 1000, (n, elements)))
    pieces = [np.split(vector, ends) for vector in full]
    nothing = np.empty(0, int)
    total = sum(full)
    shards = [pieces[0][rank] for rank in range(n)]
    return {
        "all-reduce": (full, [total] * n),
        "reduce-scatter": (full, np.split(total, ends)),
        "all-gather": (shards, [full[0]] * n),
        "all-to-all": (
            full,
            [np.concatenate([pieces[i][j] for i in range(n)]) for j in range(n)],
        ),
        "broadcast": ([full[0]] + [nothing] * (n - 1), [full[0]] * n),
        "reduce": (full, [total] + [nothing] * (n - 1)),
        "gather": (shards, [full[0]] + [nothing] * (n - 1)),
        "scatter": ([full[0]] + [nothing] * (n - 1), shards),
    }[collective]


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 5))
def test_every_algorithm_gives_the_collectives_result(collective, algorithm, n, elements, seed):
    plan = plan_of(collective, algorithm, n, elements)
    inputs, expected = expected_and_inputs(collective, n, elements, seed)
    results = run_on_vectors(plan, inputs)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
    assert verify(plan), verify(plan)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("elements", [0, 1, 7, 1000])
def test_bytes_sent_by_all_follow_the_formulas(n, elements):
    """(S59)"""
    s, sizes = elements, even_sizes(elements, n)

    def sent(collective, algorithm):
        return sum(measure(plan_of(collective, algorithm, n, s), flat(0, 1)).sent)

    assert sent("all-reduce", "ring") == 2 * (n - 1) * s
    assert sent("reduce-scatter", "ring") == (n - 1) * s
    assert sent("all-gather", "ring") == (n - 1) * s
    assert sent("all-reduce", "tree") == sent("all-reduce", "naive") == 2 * (n - 1) * s
    assert sent("all-reduce", "direct") == n * (n - 1) * s
    assert sent("reduce-scatter", "direct") == sent("all-gather", "direct") == (n - 1) * s
    assert sent("all-to-all", "direct") == (n - 1) * s
    hops = sum(((j - i) % n) * sizes[j] for i in range(n) for j in range(n))
    assert sent("all-to-all", "ring") == hops
    for algorithm in ("ring", "tree", "naive", "direct", "hierarchical"):
        assert sent("broadcast", algorithm) == (n - 1) * s
    assert sent("gather", "naive") == sent("scatter", "naive") == s - sizes[0]
    assert sent("all-gather", "naive") == s - sizes[0] + (n - 1) * s
    assert sent("reduce-scatter", "naive") == (n - 1) * s + s - sizes[0]


@pytest.mark.parametrize("n", range(1, 18))
def test_rounds_follow_the_formulas(n):
    """(S59)"""

    def rounds(collective, algorithm):
        return len(list(plan_of(collective, algorithm, n, 100).rounds))

    up = int(math.log2(n))
    alone = n == 1
    assert rounds("all-reduce", "ring") == 2 * (n - 1)
    assert rounds("all-gather", "ring") == rounds("all-to-all", "ring") == n - 1
    assert rounds("broadcast", "ring") == (0 if alone else 2 * n - 2)
    assert rounds("all-reduce", "tree") == 2 * up
    assert rounds("broadcast", "tree") == up
    assert rounds("all-reduce", "naive") == (0 if alone else 2)
    assert rounds("all-reduce", "direct") == (0 if alone else 1)
    fold = 0 if n == 1 << up else 2
    assert rounds("all-reduce", "halving-doubling") == 2 * up + fold
    assert rounds("reduce-scatter", "halving-doubling") == up + fold
    assert rounds("all-gather", "halving-doubling") == up + fold
    width = squarest_node(n)
    nodes = n // width
    assert rounds("all-reduce", "hierarchical") == 2 * (width - 1) + 2 * (nodes - 1)


def test_chunks_of_one_ring_differ_by_one_byte_and_nothing_is_padded():
    sent = measure(plan_of("all-reduce", "ring", 4, 10), flat(0, 1)).sent
    assert sum(sent) == 2 * 3 * 10
    # rank r sends all but chunk r, then all but chunk r + 1; the chunks have 3, 3, 2, 2 bytes
    assert sent == (14, 15, 16, 15)


def test_halving_sends_half_then_a_quarter():
    plan = halving_doubling("reduce-scatter", 8, 80)
    loads = [sum(10 for move in moves if move.source == 0) for moves in plan.rounds]
    assert loads == [40, 20, 10]
    partners = [{move.target for move in moves if move.source == 5} for moves in plan.rounds]
    assert partners == [{1}, {7}, {4}]


def test_a_further_rank_gives_and_takes_through_its_partner():
    """Five ranks of 10 bytes a chunk: rank 4 works through rank 0, and ends its own sum."""
    scattered, gathered = (
        measure(halving_doubling(collective, 5, 50), flat(0, 1))
        for collective in ("reduce-scatter", "all-gather")
    )
    assert (scattered.sent[4], scattered.received[4]) == (40, 10)
    assert (gathered.sent[4], gathered.received[4]) == (10, 40)
    # rank 0 halves with 2, then with 1: 20 + 10 bytes, and once 10 for rank 4
    assert (scattered.sent[0], scattered.received[0]) == (40, 40 + 30 + 20)


def test_binary_tree_has_heap_order():
    assert binary((9, 8, 7, 6, 5)) == (((9, 8), (9, 7)), ((8, 6), (8, 5)))
    assert binary((3,)) == ()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_a_chain_takes_ranks_plus_chunks_minus_two_rounds(n, pieces):
    for make in (ring_broadcast, ring_reduce):
        plan = make(n, [3] * pieces)
        assert verify(plan)
        assert len(list(plan.rounds)) == (n + pieces - 2 if n > 1 else 0)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_all_to_all_with_uneven_loads(n):
    """Expert parallelism: what a rank sends differs from target to target and rank to rank.

    (S58)
    """
    sizes = [(3 * k) % 5 for k in range(n * n)]
    for plan in (
        ring_all_to_all(n, sizes),
        direct("all-to-all", n, sizes),
        naive("all-to-all", n, sizes),
        hierarchical("all-to-all", n, sizes, max(1, n // 2)),
    ):
        vectors = [np.arange(sum(sizes[i * n : i * n + n])) + 100 * i for i in range(n)]
        pieces = [
            np.split(v, np.cumsum(sizes[i * n : i * n + n])[:-1]) for i, v in enumerate(vectors)
        ]
        for j, result in enumerate(run_on_vectors(plan, vectors)):
            np.testing.assert_array_equal(result, np.concatenate([pieces[i][j] for i in range(n)]))


def test_direct_sums_own_part_first_then_the_ranks_after_it():
    vectors = list(np.random.default_rng(3).standard_normal((5, 40)).astype(np.float32))
    results = run_on_vectors(direct("all-reduce", 5, 40), vectors)
    for rank, result in enumerate(results):
        expected = vectors[rank]
        for away in range(1, 5):
            expected = expected + vectors[(rank + away) % 5]
        np.testing.assert_array_equal(result, expected)
    assert np.any(results[0] != results[1])


def test_roots_are_the_first_rank_given():
    for plan in (naive("broadcast", [5, 2, 9], 4), tree("broadcast", [5, 2, 9], 4)):
        assert plan.chunks[0].sources == (5,)
        assert {move.source for moves in plan.rounds for move in moves} == {5}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.sampled_from([(1, 4), (2, 2), (2, 4), (3, 2), (4, 4), (3, 5)]), st.integers(0, 50))
def test_hierarchical_works_for_any_shape_and_talks_only_to_its_place(shape, elements):
    nodes, width = shape
    for collective in ALGORITHMS["hierarchical"]:
        plan = hierarchical(collective, nodes * width, elements, width)
        assert verify(plan), verify(plan)
        for moves in plan.rounds:
            for move in moves:
                same_node = move.source // width == move.target // width
                assert same_node or move.source % width == move.target % width


def test_hybrid_reduce_is_the_direct_sum():
    """Document B section 5.5: 2 nodes of 8, within 2.0e-15 of the direct sum (S33)."""
    vectors = list(np.random.default_rng(0).standard_normal((16, 160)))
    plan = hybrid_reduce(16, 160, 8)
    assert verify(plan), verify(plan)
    bound = 15 * np.finfo(float).eps * sum(np.abs(vector) for vector in vectors)
    total = sum(vectors)
    for rank, shard in enumerate(run_on_vectors(plan, vectors)):
        # chunk m·8 + l is part m of shard l, ten elements each
        places = [np.arange(10) + 10 * (node * 8 + rank % 8) for node in range(2)]
        index = np.concatenate(places)
        assert np.all(np.abs(shard - total[index]) <= bound[index])
    assert np.any(run_on_vectors(plan, vectors)[0] != total[np.r_[0:10, 80:90]])


@pytest.mark.parametrize("group", [1, 2, 3, 4, 6, 12])
def test_hybrid_reduce_between_data_parallel_and_full_sharding(group):
    counted = measure(hybrid_reduce(12, 1200, group), flat(0, 1))
    assert verify(hybrid_reduce(12, 13, group))
    replicas = 12 // group
    inside, across = 1200 * (group - 1) // group, 2 * 1200 * (replicas - 1) // (group * replicas)
    assert counted.sent == (inside + across,) * 12


@pytest.mark.parametrize(("ranks", "width"), [(1, 1), (4, 2), (7, 7), (8, 4), (12, 4), (64, 8)])
def test_default_nodes_are_as_square_as_it_goes(ranks, width):
    assert squarest_node(ranks) == width


@pytest.mark.parametrize(
    "make",
    [
        lambda: plan_of("all-reduce", "nope", 2, 2),
        lambda: plan_of("nope", "ring", 2, 2),
        lambda: plan_of("gather", "ring", 2, 2),
        lambda: plan_of("all-to-all", "halving-doubling", 2, 2),
        lambda: hierarchical("all-reduce", 6, 6, 4),
        lambda: hierarchical("gather", 6, 6, 3),
        lambda: hierarchical("all-reduce", 6, 6, 7),
        lambda: direct("reduce", 4, 4),
        lambda: tree("sum", 4, 4),
        lambda: plan_of("all-reduce", "ring", 0, 4),
        lambda: plan_of("all-reduce", "ring", 4, -1),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()


def test_a_refused_algorithm_is_told_what_the_collective_has():
    with pytest.raises(InputError, match="gather has tree, naive"):
        plan_of("gather", "direct", 4, 4)
