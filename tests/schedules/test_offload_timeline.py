"""Offload timelines against the lecture's 10B step and closed forms."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.schedules.core import simulate
from shardbook.schedules.offload import (
    GPU_POOL,
    HOST_POOL,
    OffloadStep,
    PrefetchLayer,
    offload_run,
    prefetch_plan,
    step_seconds,
)

#: 10B parameters, micro-batch 8 of 1,024 tokens, 62.5 TFLOP/s, PCIe 12 GB/s, CPU Adam 2.57 s
TOKENS = 8 * 1024
COMPUTE = 8 * 10e9 * TOKENS / 62.5e12
COPY = 2 * 10e9 / 12e9
USEFUL = 6 * 10e9 * TOKENS / 1e12


def step(parts=1000, pipelined=True):
    return OffloadStep(COMPUTE / 4, COMPUTE * 3 / 4, COPY, 2.57, COPY, parts, parts, pipelined)


def test_10b_takes_the_lectures_times():
    """(S45, S47)"""
    assert round(COMPUTE, 2) == 10.49
    piped, serial = step_seconds(step()), step_seconds(step(pipelined=False))
    delayed = step_seconds(step(), delayed=True)
    assert (round(piped, 2), round(serial, 2), round(delayed, 2)) == (13.06, 14.72, 10.49)
    assert (round(piped / delayed, 3), round(serial / delayed, 2)) == (1.245, 1.40)
    assert (round(USEFUL / piped, 1), round(USEFUL / delayed, 1)) == (37.6, 46.9)


@given(st.integers(1, 12), st.integers(1, 12), *[st.sampled_from([0.0, 1.0, 2.0, 6.0])] * 5)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_one_step_is_the_closed_form_of_its_pipelines(layers, chunks, f, b, down, update, up):
    one = OffloadStep(f, b, down, update, up, layers, chunks)
    downloaded = f + max(b + down / layers, b / layers + down)
    uploaded = max(update + up / chunks, update / chunks + up)
    assert offload_run(one).makespan == pytest.approx(downloaded + uploaded)
    late = OffloadStep(f, b, down, update, up, layers, chunks, pipelined=False)
    assert offload_run(late).makespan == pytest.approx(downloaded + update + up)


@pytest.mark.parametrize("start", [0, 2, 5])
def test_delayed_updates_begin_when_told(start):
    """(S47)"""
    run = offload_run(step(8), 8, delayed_from=start)
    ends = {action.name: end for action, end in zip(run.plan.actions, run.ends, strict=True)}
    starts = {action.name: at for action, at in zip(run.plan.actions, run.starts, strict=True)}
    for at in range(1, 8):
        waits = starts[f"s{at}:F0"] >= ends[f"s{at - 1}:U7"]
        assert waits == (at < start)


def test_delaying_cannot_beat_the_cpu():
    slow = OffloadStep(1.0, 2.0, 0.5, 9.0, 0.5, 4, 4)
    assert step_seconds(slow, delayed=True) == pytest.approx(9.0)


@given(
    st.integers(1, 9),
    st.integers(0, 9),
    st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 5.0])] * 4),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_prefetch_goes_from_the_sum_of_stages_to_the_slowest(count, depth, stages):
    """(S50)"""
    run = simulate(prefetch_plan((PrefetchLayer(*stages),) * count, depth))
    serial, bound = count * sum(stages), sum(stages) + (count - 1) * max(stages)
    assert bound <= run.makespan <= serial
    if depth == 0:
        assert run.makespan == serial
    if depth >= 3:
        assert run.makespan == bound
    if all(stages):
        assert run.peaks[HOST_POOL] <= depth + 1
        assert run.peaks[GPU_POOL] <= depth + 1


def test_impossible_offloads_are_refused():
    with pytest.raises(InputError, match="upload"):
        OffloadStep(1, 1, 1, 1, -1)
    with pytest.raises(InputError, match="layers"):
        OffloadStep(1, 1, 1, 1, 1, layers=0)
    with pytest.raises(InputError, match="delayed_from"):
        offload_run(step(1), 2, delayed_from=3)
    with pytest.raises(InputError, match="depth"):
        prefetch_plan((PrefetchLayer(1, 1, 1, 1),), -1)
