"""Executing pipeline orders: PyTorch's lists, closed forms, a second executor, hand-made faults."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import simulate
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.pipeline import (
    SCHEDULES,
    StageTimes,
    make_order,
    parse_order,
    program_of,
    run_order,
    run_program,
)

GOLDEN = [
    json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "data" / "pipeline").glob("*.json"))
]
NAMES = {schedule.name: name for name, schedule in SCHEDULES.items()}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g['schedule']}-{g['P']}-{g['m']}")
def test_execution_of_pytorchs_lists(golden):
    order = make_order(NAMES[golden["schedule"]], golden["P"], golden["m"], golden["v"])
    result = run_order(order)
    expected = golden["exec_F1B2"]
    assert result.makespan == expected["makespan"]
    assert list(result.busy) == expected["busy"]
    assert result.bubble_fraction == pytest.approx(expected["bubble_fraction"], abs=1e-12)
    assert result.bubble_over_ideal == pytest.approx(expected["bubble_ratio_over_ideal"])
    assert list(result.peak_live) == golden["peak_inflight_until_W"]


@pytest.mark.parametrize(
    ("name", "makespan"),
    [
        ("gpipe", 33),
        ("1f1b", 33),
        ("interleaved-1f1b", 57),
        ("interleaved-zero-bubble", 51),
        ("zbv", 51),
        ("dualpipev", 54),
    ],
)
def test_four_stages_and_eight_micro_batches(name, makespan):
    """(S57)"""
    assert run_order(make_order(name, 4, 8)).makespan == makespan


times = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
stage_times = st.builds(
    StageTimes,
    forward=st.lists(times, min_size=40, max_size=40),
    backward_input=st.lists(times, min_size=40, max_size=40),
    backward_weight=st.lists(times, min_size=40, max_size=40),
    transfer=times,
    recompute=st.booleans(),
)


def polled(order, times):
    """Second executor: poll the ranks until all is done. Returns ends and peaks."""
    home = {p.stage: r for r, row in enumerate(order) for a in row for p in a.steps}
    last = max(home)
    ends, arrived, links = {}, {}, {}
    at, clock = [0] * len(order), [0.0] * len(order)
    live, peak = [0] * len(order), [0] * len(order)
    while any(step < len(row) for step, row in zip(at, order, strict=True)):
        for rank, row in enumerate(order):
            while at[rank] < len(row):
                parts = row[at[rank]].steps
                ready = [clock[rank]]
                for part in parts:
                    if part.kind == "F" and part.stage:
                        ready.append(arrived.get((part.stage - 1, "F", part.micro_batch)))
                    if part.kind in "BI" and part.stage < last:
                        ready.append(arrived.get((part.stage + 1, "B", part.micro_batch)))
                if None in ready:
                    break
                time = max(ready)
                for part in parts:
                    f, i, w = (
                        x[part.stage]
                        for x in (times.forward, times.backward_input, times.backward_weight)
                    )
                    again = f if times.recompute else 0.0
                    time += {"F": f, "B": again + i + w, "I": again + i, "W": w}[part.kind]
                    ends[part] = time
                    live[rank] += {"F": 1, "B": -1, "W": -1, "I": 0}[part.kind]
                    peak[rank] = max(peak[rank], live[rank])
                    way = "F" if part.kind == "F" else "B"
                    to = home.get(part.stage + (1 if way == "F" else -1), rank)
                    key = (part.stage, way, part.micro_batch)
                    if part.kind == "W":
                        continue
                    if to == rank or not times.transfer:
                        arrived[key] = time
                    else:
                        links[rank, to] = max(links.get((rank, to), 0), time) + times.transfer
                        arrived[key] = links[rank, to]
                clock[rank] = time
                at[rank] += 1
    return ends, peak, max([*clock, *links.values()])


@given(st.sampled_from(list(SCHEDULES)), st.integers(1, 5), st.integers(1, 3), stage_times)
@settings(derandomize=True, deadline=None, max_examples=120)
def test_times_and_peaks_equal_a_polling_executor(name, ranks, rounds, times):
    order = make_order(name, ranks, 2 * ranks * rounds)
    result = run_order(order, times)
    ends, peak, makespan = polled(order, times)
    ours = {
        action.name: end
        for action, end in zip(result.run.plan.actions, result.run.ends, strict=True)
        if action.kind == "compute"
    }
    assert ours == {str(part): end for part, end in ends.items()}
    assert list(result.peak_live) == peak
    assert result.makespan == makespan


@given(st.integers(1, 7), st.integers(1, 5), st.integers(1, 4))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_bubbles_are_the_closed_forms(ranks, rounds, chunks):
    """(S56)"""
    micro_batches = ranks * rounds
    for name, v in (("gpipe", 1), ("1f1b", 1), ("interleaved-1f1b", chunks)):
        result = run_order(make_order(name, ranks, micro_batches, v))
        slots = v * micro_batches
        assert result.makespan == 3 * (slots + ranks - 1)
        assert result.bubble_fraction == pytest.approx((ranks - 1) / (slots + ranks - 1))
        assert result.bubble_over_ideal == pytest.approx((ranks - 1) / slots)


@given(st.integers(1, 8), st.integers(0, 16))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_1f1b_saves_memory_not_time(ranks, more):
    """(S57)"""
    micro_batches = ranks + more
    one = run_order(make_order("1f1b", ranks, micro_batches))
    other = run_order(make_order("gpipe", ranks, micro_batches))
    assert one.makespan == other.makespan
    assert one.peak_live == tuple(range(ranks, 0, -1))
    assert other.peak_live == (micro_batches,) * ranks


def test_recomputation_costs_a_forward_in_each_backward():
    order = make_order("gpipe", 1, 4)
    assert run_order(order, StageTimes(recompute=True)).makespan == 4 * (1 + 1 + 2)


def test_the_slowest_stage_sets_the_pace():
    order = make_order("1f1b", 4, 32)
    slow = StageTimes(forward=[1, 1, 2, 1], backward_input=[1, 1, 2, 1])
    assert run_order(order, slow).busy[2] == 32 * 5
    assert run_order(order, slow).makespan >= 32 * 5


def test_transfers_cost_only_where_the_neighbour_is_another_rank():
    order = make_order("zbv", 2, 1)
    assert run_order(order, StageTimes(transfer=10)).makespan == pytest.approx(
        run_order(order).makespan + 4 * 10
    )


def test_transfers_are_no_work_of_a_rank():
    result = run_order(make_order("gpipe", 2, 1), StageTimes(transfer=1))
    assert (result.makespan, result.busy) == (2 * 3 + 2 * 1, (3, 3))
    assert (result.bubble_fraction, result.bubble_over_ideal) == (10 / 16, 10 / 6)


@pytest.mark.parametrize("transfer", [0.0, 10.0])
def test_a_whole_backward_waits_for_the_next_stages_input_part(transfer):
    """By hand: 0F0, 1F0 and 1I0 take a second each, 0B0 two; beside it 1W0."""
    order = parse_order("0F0 0B0\n1F0 1I0 1W0")
    assert run_order(order, StageTimes(transfer=transfer)).makespan == 3 + 2 + 2 * transfer


def test_live_sizes_may_differ_by_stage():
    result = run_order(make_order("1f1b", 2, 4), live=[10**9, 7])
    assert result.peak_live == (2 * 10**9, 7)


def test_a_memory_limit_marks_the_forward_that_exceeds_it():
    order = make_order("gpipe", 4, 8)
    with pytest.raises(ScheduleError) as caught:
        run_order(order, limit=5)
    assert (caught.value.rank, caught.value.step, caught.value.action) == ("rank 0", 5, "0F5")
    assert run_order(order, limit=8).makespan == 33
    with pytest.raises(ScheduleError) as caught:
        run_order(make_order("gpipe", 2, 20), live=[1, 10], limit=11)
    assert caught.value.action == "1F1"


def test_a_schedule_written_by_hand_runs():
    result = run_order(parse_order("0F0 0F1 0B0 0B1 0REDUCE_GRAD\n1F0 1B0 1F1 1B1"))
    assert result.makespan == 9.0
    assert result.peak_live == (2, 1)


@pytest.mark.parametrize("transfer", [0.0, 1.0])
def test_a_deadlock_is_told_of_the_schedule_as_written(transfer):
    """Steps, pairs and idle ranks as written; what is sent is not part of it."""
    order = parse_order(
        "0F0 (0F1;0B0)OVERLAP_F_B 0B2 0F2 0B1\n1F0 1B0 1F1 1B1 1F2 1B2\n2F0 2B0 2F1 2B1 2F2 2B2\n-"
    )
    with pytest.raises(ScheduleError) as caught:
        run_order(order, StageTimes(transfer=transfer))
    assert [list(row) for row in caught.value.rows.values()] == [
        [str(action) for action in row] for row in order
    ]
    assert (caught.value.rank, caught.value.step) == ("rank 0", 2)
    assert caught.value.reason.endswith(": 0B2 ← 0F2 ← 0B2")


@pytest.mark.parametrize("transfer", [0.0, 1.0])
def test_a_deadlock_across_ranks_is_told_without_what_is_sent(transfer):
    order = parse_order("0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1")
    with pytest.raises(ScheduleError) as caught:
        run_order(order, StageTimes(transfer=transfer))
    assert caught.value.reason.endswith(": 0B0 ← 1B0 ← 1F1 ← 0F1 ← 0B0")


@pytest.mark.parametrize(
    "text",
    ["0F0 0F1\n1F0 1F1", "0UNSHARD 0F0 0RESHARD 0UNSHARD 0F1 0RESHARD\n1F0 1F1"],
)
def test_forwards_alone_may_run(text):
    assert run_order(parse_order(text)).makespan == 3.0


@pytest.mark.parametrize(
    ("text", "rank", "step", "reason"),
    [
        ("0F0 0B0\n1F0 1B0 1F1", "rank 1", 2, "it needs 0F1, which no rank runs"),
        ("0F0 0F0 0B0", "rank 0", 1, "a second time"),
        ("0F0 0I0", "rank 0", 1, "weight part 0W0 is missing"),
        ("0F0 0B0 0W0", "rank 0", 1, "in parts, too"),
        ("0F0 0B0 0I0", "rank 0", 1, "in parts, too"),
        ("0F0 0W0", "rank 0", 0, "its backward 0B0 is missing"),
        ("0B0", "rank 0", 0, "it needs 0F0"),
        ("0F0 0F1 0B1", "rank 0", 0, "its backward 0B0 is missing"),
        ("0F0 0B0\n1F0", "rank 1", 0, "its backward 1B0 is missing"),
        ("0F0 0B0\n2F0 2B0", "rank 1", 0, "it needs 1F0"),
        ("0F0 0B0\n0F1 0B1", "rank 1", 0, "stage 0 is on rank 0"),
        ("0F0 0B0 1F0\n1B0", "rank 0", 2, "stage 1 is on rank 1"),
        ("0F0 0SEND_F0 0B0", "rank 0", 1, "leave transfers out"),
        ("0B0 0F0", "rank 0", 0, "deadlock"),
        ("0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1", "rank 0", 1, "0B0 ← 1B0 ← 1F1 ← 0F1 ← 0B0"),
        ("0F0 0I0 0W1 0F1 0I1 0W0", "rank 0", 2, "deadlock"),
        ("(0F0;0B0)OVERLAP_F_B", "rank 0", 0, "the backward needs the forward"),
        ("0F0 (0F1;0B0)OVERLAP_F_B 0B1\n1F1 1F0 1B0 1B1", "rank 1", 0, "1F1 ← 0F1 ← 1B0 ← 1F0"),
    ],
)
def test_the_first_fault_is_marked(text, rank, step, reason):
    with pytest.raises(ScheduleError) as caught:
        run_order(parse_order(text))
    error = caught.value
    assert (error.rank, error.step) == (rank, step)
    assert reason in error.reason
    row = next(line for line in str(error).splitlines()[1:] if line.startswith(rank))
    assert f">{error.action}<" in row


def test_too_few_stage_times_are_refused():
    with pytest.raises(InputError, match="stage 1"):
        run_order(make_order("gpipe", 2, 2), StageTimes(forward=[1.0]))
    with pytest.raises(InputError, match="stage 1"):
        run_order(make_order("gpipe", 2, 2), live=[1])
    with pytest.raises(InputError):
        run_order(())
    with pytest.raises(InputError, match="forward"):
        run_order(make_order("gpipe", 2, 2), StageTimes(forward=-1.0))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("transfer", [0.0, 0.25])
def test_a_compiled_order_runs_with_other_times_as_if_compiled_for_them(
    schedule: str, transfer: float
) -> None:
    order = make_order(schedule, 4, 8)
    program = program_of(order, StageTimes(transfer=4 * transfer))
    stages = 1 + max(part.stage for row in order for action in row for part in action.steps)
    for recompute in (False, True):
        forward = tuple(1 + stage / 8 for stage in range(stages))
        times = StageTimes(forward, 1.5, 0.75, transfer, recompute)
        again, anew = run_program(program, times), run_order(order, times)
        assert again.run.node_ends == anew.run.node_ends
        assert (again.makespan, again.busy, again.peak_live) == (
            anew.makespan,
            anew.busy,
            anew.peak_live,
        )
        assert again.bubble_fraction == anew.bubble_fraction


@given(st.sampled_from(list(SCHEDULES)), st.integers(1, 5), st.integers(1, 3), stage_times)
@settings(derandomize=True, deadline=None, max_examples=120)
def test_a_program_is_what_its_actions_compile_to(name, ranks, rounds, times):
    """The program lays its columns out itself; here each action stands for itself."""
    plan = program_of(make_order(name, ranks, 2 * ranks * rounds), times).plan
    apart = compile_plan(tuple(plan.actions))
    assert simulate(plan).node_ends == simulate(apart).node_ends
    assert (plan.seconds, plan.first, plan.second) == (apart.seconds, apart.first, apart.second)
    assert (plan.node, plan.issue_node) == (apart.node, apart.issue_node)
    assert {rank: pool.changes for rank, pool in plan.pools.items()} == {
        rank: pool.changes for rank, pool in apart.pools.items()
    }
    for rank, pool in plan.pools.items():
        assert sorted(pool.allocations) == sorted(apart.pools[rank].allocations)


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_compiled_order_refuses_transfers_that_come_or_go(before: float, after: float) -> None:
    program = program_of(make_order("1f1b", 2, 4), StageTimes(transfer=before))
    with pytest.raises(InputError, match="anew"):
        run_program(program, StageTimes(transfer=after))


def test_one_rank_runs_again_with_any_transfer() -> None:
    order = make_order("interleaved-1f1b", 1, 4)
    again = run_program(program_of(order), StageTimes(transfer=1.0))
    assert again.makespan == run_order(order).makespan
