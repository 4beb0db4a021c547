"""Lab pp: the references agree with the engine, and no order is shorter than the bound."""

from itertools import pairwise, permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardgrade.checkout import reference

from shardbook.errors import InputError
from shardbook.labs.checking import examine
from shardbook.labs.handed_orders import read_order, run_handed, too_many_live
from shardbook.labs.pipeline_bound import lower_bound
from shardbook.labs.registry import TASKS
from shardbook.labs.values import Fault
from shardbook.schedules.pipeline import PipelineRun, StageTimes, format_order, make_order

Times = tuple[int, int, int]


def as_text(handed: Any) -> str:
    return "\n".join(" ".join(row) for row in handed)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7])
def test_1f1b_is_the_engines(stages: int) -> None:
    for micro_batches in range(stages, 3 * stages):
        handed = reference(TASKS["pp.1"])(stages, micro_batches)
        assert as_text(handed) == format_order(make_order("1f1b", stages, micro_batches))


@pytest.mark.parametrize(
    ("ranks", "rounds", "chunks"), [(2, 1, 2), (4, 2, 2), (3, 3, 3), (5, 2, 4)]
)
def test_interleaved_is_the_engines(ranks: int, rounds: int, chunks: int) -> None:
    handed = reference(TASKS["pp.2"])(ranks, rounds * ranks, chunks)
    engine = make_order("interleaved-1f1b", ranks, rounds * ranks, chunks)
    assert as_text(handed) == format_order(engine)


def run(order: Any, stages: int, micro_batches: int, times: Times) -> PipelineRun | Fault:
    seconds = StageTimes(*times)
    return run_handed(order, stages, stages, micro_batches, kinds="FIW", times=seconds)


def rows(stage: int, micro_batches: int) -> list[list[str]]:
    """Every order of one stage's actions that keeps F before I before W and micro-batches in turn.

    Micro-batches are alike, so that the best order needs no other turn.
    """
    kinds = set(permutations("FIW" * micro_batches))
    found = []
    for row in sorted(kinds):
        counts = [
            (row[: k + 1].count("F"), row[: k + 1].count("I"), row[: k + 1].count("W"))
            for k in range(len(row))
        ]
        if all(f >= i >= w for f, i, w in counts):
            found.append([f"{stage}{kind}{row[:k].count(kind)}" for k, kind in enumerate(row)])
    return found


@pytest.mark.parametrize("times", [(1, 1, 1), (3, 2, 1), (1, 2, 4), (2, 5, 1)])
@pytest.mark.parametrize("limit", [1, 2])
def test_no_order_of_two_stages_is_shorter_than_the_bound(times: Times, limit: int) -> None:
    found = []
    for order in product(rows(0, 2), rows(1, 2)):
        ran = run(order, 2, 2, times)
        if isinstance(ran, PipelineRun) and max(ran.peak_live) <= limit:
            found.append(ran.makespan)
    best = run(reference(TASKS["pp.3"])(2, 2, times, limit), 2, 2, times)
    assert isinstance(best, PipelineRun)
    assert lower_bound(2, 2, times, limit) <= min(found) == best.makespan


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data(), stages=st.integers(1, 4), micro_batches=st.integers(1, 6))
def test_a_random_order_is_never_shorter_than_the_bound(
    data: st.DataObject, stages: int, micro_batches: int
) -> None:
    times = data.draw(st.tuples(*[st.integers(1, 9)] * 3))
    done = {(stage, kind): 0 for stage in range(stages) for kind in "FIW"}
    order: list[list[str]] = [[] for _ in range(stages)]
    while sum(done.values()) < 3 * stages * micro_batches:
        ready = [
            (stage, kind)
            for (stage, kind), count in done.items()
            if count < micro_batches
            and (kind != "F" or stage == 0 or done[stage - 1, "F"] > count)
            and (kind != "I" or done[stage, "F"] > count)
            and (kind != "I" or stage == stages - 1 or done[stage + 1, "I"] > count)
            and (kind != "W" or done[stage, "I"] > count)
        ]
        stage, kind = data.draw(st.sampled_from(ready))
        order[stage].append(f"{stage}{kind}{done[stage, kind]}")
        done[stage, kind] += 1
    ran = run(order, stages, micro_batches, times)
    assert isinstance(ran, PipelineRun)
    assert ran.makespan >= lower_bound(stages, micro_batches, times, max(ran.peak_live))


@pytest.mark.parametrize("times", [(4, 4, 4), (2, 3, 4)])
def test_more_memory_never_raises_the_bound(times: Times) -> None:
    bounds = [lower_bound(4, 9, times, limit) for limit in range(1, 12)]
    assert all(later <= earlier for earlier, later in pairwise(bounds))
    assert bounds[0] == 9 * (4 * (times[0] + times[1]) + times[2])


def test_a_bound_needs_sensible_numbers() -> None:
    for arguments in ((0, 1, (1, 1, 1), 1), (1, 1, (1, 1), 1), (1, 1, (1, 1, -1), 1)):
        with pytest.raises(InputError):
            lower_bound(*arguments)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (7, "the order"),
        ([["0F0"]], "the order"),
        ([["0F0"], "1F0"], "rank 1"),
        ([["0F0"], [3]], "rank 1, step 0"),
        ([["0F0", "0X0"], []], "rank 0, step 1"),
        ([["0F0", "0W0"], []], "rank 0, step 1"),
        ([["0F0" * 30], []], "rank 0, step 0"),
        ([["0F0"] * 30_000, []], "rank 0"),
    ],
)
def test_data_that_is_no_order_is_told(value: Any, where: str) -> None:
    fault = read_order(value, 2, "FB")
    assert isinstance(fault, Fault) and fault.where == where


@pytest.mark.parametrize(
    ("rows", "where"),
    [
        ([["0F0", "0B0", "0B0"], ["1F0", "1B0"]], "rank 0, step 2"),
        ([["0F0", "0B0"], ["1F0"]], "rank 1"),
        ([["0F0", "1F0", "0B0"], ["1B0"]], "rank 0, step 1"),
        ([["0B0", "0F0"], ["1F0", "1B0"]], "rank 0, step 0"),
    ],
)
def test_an_order_that_is_not_whole_or_cannot_run_is_told(rows: Any, where: str) -> None:
    fault = run_handed(rows, 2, 2, 1)
    assert isinstance(fault, Fault) and fault.where == where


def test_the_diagnosis_of_a_deadlock_shows_the_grid() -> None:
    def deadlocks(stages: int, micro_batches: int) -> list[list[str]]:
        order = [list(row) for row in reference(TASKS["pp.1"])(stages, micro_batches)]
        order[1].reverse()
        return order

    finding = examine("pp.1", deadlocks).finding
    assert finding and "rank 2" in finding.fault.got and ">" in finding.fault.got


def test_the_first_place_too_many_is_told_with_rank_and_step() -> None:
    order = [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1F1", "1B0", "1B1"]]
    ran = run_handed(order, 2, 2, 2)
    assert isinstance(ran, PipelineRun) and too_many_live(ran, [2, 2]) is None
    fault = too_many_live(ran, [2, 1])
    assert fault and fault.where == "rank 1, step 1" and "1F1" in fault.got
