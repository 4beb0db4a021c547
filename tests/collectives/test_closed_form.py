"""The formulas of an all-reduce against the plans they stand for, and who holds what meanwhile."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.bandwidth import ring_seconds
from shardbook.collectives.build import plan_of
from shardbook.collectives.closed_form import ALL_REDUCE, all_reduce_cost, equal_size
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.ring import ring_all_reduce
from shardbook.collectives.verify import held_after
from shardbook.errors import InputError


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33])
def test_a_formula_is_what_the_plan_costs(algorithm: str, ranks: int) -> None:
    core = 1 << (ranks.bit_length() - 1)
    size = ranks * core * 3
    cost = all_reduce_cost(algorithm, ranks)
    plan = plan_of("all-reduce", algorithm, ranks, size)
    for latency, bandwidth in [(0.0, 1.0), (1.0, 1e9), (3e-3, 7e2)]:
        measured = measure(plan, flat(latency, bandwidth))
        assert cost.rounds == measured.rounds
        assert cost.seconds(size, latency, bandwidth) == pytest.approx(measured.seconds, rel=1e-12)


@given(st.integers(2, 5000), st.floats(1e-7, 1e-3), st.floats(1e9, 1e12))
@settings(derandomize=True, deadline=None)
def test_at_the_equal_size_two_algorithms_take_the_same_time(
    ranks: int, latency: float, bandwidth: float
) -> None:
    ring = all_reduce_cost("ring", ranks)
    for name in ALL_REDUCE:
        other = all_reduce_cost(name, ranks)
        size = equal_size(ring, other, latency, bandwidth)
        if size is not None:
            times = [cost.seconds(size, latency, bandwidth) for cost in (ring, other)]
            assert times[0] == pytest.approx(times[1], rel=1e-9)
            assert ring.seconds(2 * size, latency, bandwidth) < other.seconds(
                2 * size, latency, bandwidth
            )
        else:  # the same order, however large
            tiny, huge = (
                [cost.seconds(s, latency, bandwidth) for cost in (ring, other)] for s in (0, 1e18)
            )
            assert (tiny[0] - tiny[1]) * (huge[0] - huge[1]) >= 0


def test_the_ring_is_the_lessons_formula() -> None:
    assert all_reduce_cost("ring", 4).seconds(2**30, 5e-6, 50e9) == pytest.approx(
        ring_seconds(4, 2**30, 5e-6, 50e9)
    )


def test_unknown_algorithms_and_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="algorithm"):
        all_reduce_cost("spiral", 4)
    with pytest.raises(InputError, match="ranks"):
        all_reduce_cost("ring", 0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("direction", [1, -1])
def test_a_ring_grows_one_sum_by_one_rank_a_round(ranks: int, direction: int) -> None:
    plan = ring_all_reduce(ranks, ranks, direction=direction)
    for rounds in range(ranks):
        held = held_after(plan, rounds)
        for rank in range(ranks):
            counts = sorted(len(held[rank][chunk]) for chunk in range(ranks))
            assert counts[-1] == rounds + 1
            whole = sum(count == ranks for count in counts)
            assert whole == (1 if rounds == ranks - 1 else 0)
    for rounds in range(ranks - 1, 2 * ranks - 1):
        held = held_after(plan, rounds)
        for rank in range(ranks):
            whole = sum(len(names) == ranks for names in held[rank].values())
            assert whole == rounds - ranks + 2
