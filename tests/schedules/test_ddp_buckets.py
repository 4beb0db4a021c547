"""Gradient buckets: closed forms, and what size, a slow rank and contention do."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.schedules.buckets import MIB, Layer, Reduction, ddp_step, fill_buckets

LINK = Reduction(ranks=8, latency=20e-6, bandwidth=50e9)
LAYERS = [Layer(1e-3, 2e-3, 28 * MIB)] * 24


def step(capacity, **options):
    return ddp_step(LAYERS, LINK, capacity=capacity, first=None, **options)


def test_buckets_fill_from_the_last_layer_and_close_when_full():
    sizes = [10 * MIB, 3 * MIB, 12 * MIB, 20 * MIB, 2 * MIB]
    assert fill_buckets(sizes) == ((4,), (3, 2), (1, 0))
    assert fill_buckets(sizes, first=None) == ((4, 3, 2), (1, 0))


def test_buckets_are_pytorchs():
    cases = json.loads((Path(__file__).parent / "data" / "ddp_buckets.json").read_text())
    for case in cases:
        buckets = fill_buckets(case["sizes"], case["capacity"], case["first"])
        assert [list(bucket) for bucket in buckets] == case["buckets"]
    assert len(cases) == 6


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 60))
@settings(derandomize=True, deadline=None)
def test_every_gradient_is_in_one_bucket_and_all_but_the_last_are_full(sizes, capacity):
    buckets = fill_buckets(sizes, capacity, None)
    assert [layer for bucket in buckets for layer in bucket] == list(range(len(sizes)))[::-1]
    assert all(sum(sizes[layer] for layer in bucket) >= capacity for bucket in buckets[:-1])
    assert all(sum(sizes[layer] for layer in bucket[:-1]) < capacity for bucket in buckets)


def test_one_bucket_hides_nothing():
    """(S66)"""
    result = step(2**60)
    compute = 24 * 3e-3
    assert len(result.buckets) == 1
    assert result.makespan == pytest.approx(compute + LINK.seconds(24 * 28 * MIB))
    assert result.tail == pytest.approx(LINK.seconds(24 * 28 * MIB))
    assert result.exposed == pytest.approx(result.tail)


def test_a_bucket_a_layer_leaves_only_the_first_layers_all_reduce():
    result = step(28 * MIB)
    assert result.tail == pytest.approx(LINK.seconds(28 * MIB))


def test_too_small_pays_for_starts_and_too_large_waits():
    """(S66)"""
    tiny = [Layer(1e-5, 2e-5, MIB)] * 400
    times = [
        ddp_step(tiny, LINK, capacity=capacity, first=None).makespan
        for capacity in (1, 50 * MIB, 2**60)
    ]
    assert times[1] < times[0] and times[1] < times[2]


def test_the_slowest_rank_sets_the_step():
    """(S66)"""
    even, slow = step(28 * MIB), step(28 * MIB, slowdown=(1.0, 1.0, 1.5))
    assert slow.makespan == pytest.approx(1.5 * 24 * 3e-3 + even.tail)
    assert slow.tail == pytest.approx(even.tail)
    assert step(28 * MIB, slowdown=(1.0, 0.5)).makespan == pytest.approx(even.makespan)


def test_contention_costs_its_share_of_the_hidden_communication():
    free, shared = step(28 * MIB), step(28 * MIB, contention=0.25)
    hidden = 23 * LINK.seconds(28 * MIB)
    assert shared.makespan == pytest.approx(free.makespan + 0.25 * hidden)
    assert step(2**60, contention=0.9).makespan == pytest.approx(step(2**60).makespan)


@given(st.integers(1, 6), st.integers(1, 40), st.sampled_from([0.1, 0.5, 0.9]))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_contended_work_adds_up(layers, size, share):
    """What a compute action loses is the share of the time the network is busy under it."""
    chain = [Layer(1.0, 2.0 + at % 3, size) for at in range(layers)]
    link = Reduction(2, 0.5, 4.0)
    slowdown = (1.0, 1.5)
    run = ddp_step(
        chain, link, capacity=2 * size, first=None, slowdown=slowdown, contention=share
    ).run
    network = [
        (start, end)
        for action, start, end in zip(run.plan.actions, run.starts, run.ends, strict=True)
        if action.stream == "network"
    ]
    for action, start, end in zip(run.plan.actions, run.starts, run.ends, strict=True):
        if action.stream != "network":
            under = sum(max(0.0, min(end, b) - max(start, a)) for a, b in network)
            alone = 1.0 if action.name.startswith("F") else 2.0 + int(action.name[1:]) % 3
            alone *= slowdown[int(action.stream.removeprefix("rank "))]
            assert end - start == pytest.approx(alone + share * under, rel=1e-12)


@pytest.mark.parametrize(
    "wrong", [{"contention": 1.0}, {"slowdown": ()}, {"slowdown": (0.0,)}, {"capacity": 0}]
)
def test_impossible_steps_are_refused(wrong):
    with pytest.raises(InputError) as caught:
        ddp_step(LAYERS, LINK, **wrong)
    assert caught.value.argument == next(iter(wrong))


def test_no_layers_and_no_link_are_refused():
    with pytest.raises(InputError):
        ddp_step([], LINK)
    with pytest.raises(InputError):
        Reduction(8, 0.0, 0.0)
