"""The simulator against hand-made timelines and a second, event-driven implementation."""

import ast
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardbook.schedules
from shardbook.errors import InputError
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import Action, Buffer, held_over_time, simulate
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.timeline import (
    busy,
    critical_path,
    exposed,
    first_over,
    memory,
    spans,
)


def run(*actions: Action, allocate: str = "start"):
    return simulate(compile_plan(actions), allocate=allocate)


def test_an_action_starts_when_issued_stream_free_and_needs_ended():
    result = run(
        Action("A", "comm", 3.0),
        Action("F", "compute", 2.0, needs=(0,)),
        Action("G", "compute", 1.0),
        Action("C", "comm", 4.0, issue=5.0),
    )
    assert result.starts == (0.0, 3.0, 5.0, 5.0)
    assert result.makespan == 9.0


def test_issue_costs_add_up_along_the_host():
    result = run(*(Action(f"F{k}", f"s{k}", 1.0, issue=0.5) for k in range(4)))
    assert result.starts == (0.5, 1.0, 1.5, 2.0)


def test_a_waiting_host_holds_back_everything_it_issues_later():
    result = run(
        Action("A", "x", 4.0),
        Action("B", "y", 1.0, waits=(0,)),
        Action("C", "z", 1.0),
        Action("D", "z", 1.0, host="other"),
    )
    assert result.starts == (0.0, 4.0, 4.0, 5.0)


def test_a_need_may_be_issued_later_on_another_stream():
    result = run(Action("A", "x", 1.0, needs=(1,)), Action("B", "y", 2.0))
    assert result.starts == (2.0, 0.0)


@st.composite
def programs(draw):
    count = draw(st.integers(1, 14))
    actions = []
    for index in range(count):
        earlier = st.lists(st.integers(0, index - 1), max_size=5) if index else st.just([])
        actions.append(
            Action(
                f"a{index}",
                draw(st.sampled_from("xyz")),
                float(draw(st.integers(0, 5))),
                tuple(draw(earlier)),
                host=draw(st.sampled_from("hg")),
                issue=float(draw(st.integers(0, 2))),
                waits=tuple(draw(earlier)) if draw(st.booleans()) else (),
                kind=draw(st.sampled_from(["compute", "communication"])),
                takes=(Buffer("pool", f"b{index}", draw(st.integers(1, 9))),),
            )
        )
        if index and draw(st.booleans()):
            first = actions[index]
            target = draw(st.integers(0, index))
            if not any(b.name == f"b{target}" for a in actions for b in a.releases):
                actions[index] = Action(
                    first.name,
                    first.stream,
                    first.seconds,
                    tuple({*first.needs, target} - {index}),
                    first.kind,
                    first.host,
                    first.issue,
                    first.waits,
                    first.takes,
                    (Buffer("pool", f"b{target}"),),
                )
    return actions


def tick(actions):
    """Second implementation: repeat until nothing changes, no order, no compilation."""
    starts = [0.0] * len(actions)
    issued = [0.0] * len(actions)
    while True:
        before = (list(starts), list(issued))
        ends = [start + action.seconds for start, action in zip(starts, actions, strict=True)]
        for i, action in enumerate(actions):
            host = [issued[j] for j in range(i) if actions[j].host == action.host]
            waits = [ends[j] for j in action.waits]
            issued[i] = max([0.0, *host, *waits]) + action.issue
            stream = [ends[j] for j in range(i) if actions[j].stream == action.stream]
            starts[i] = max([issued[i], *stream, *(ends[j] for j in action.needs)])
        if before == (starts, issued):
            return starts, ends, issued


@given(programs())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_times_equal_a_fixed_point_iteration(actions):
    result = run(*actions)
    starts, ends, _ = tick(actions)
    assert list(result.starts) == starts
    assert list(result.ends) == ends


@given(programs())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_memory_equals_a_count_between_the_events(actions):
    starts, ends, issued = tick(actions)
    for allocate, taken in (("start", starts), ("issue", issued)):
        result = run(*actions, allocate=allocate)
        released = {b.name: i for i, a in enumerate(actions) for b in a.releases}
        held = [
            (taken[i], ends[released[b.name]] if b.name in released else float("inf"), b.size)
            for i, a in enumerate(actions)
            for b in a.takes
        ]
        times = sorted({t for a, b, _ in held for t in (a, b) if t < float("inf")})
        for now, later in zip(times, [*times[1:], times[-1] + 2], strict=True):
            middle = (now + later) / 2
            here = sum(size for a, b, size in held if a <= middle < b)
            curve = [size for time, size in memory(result, "pool") if time <= middle]
            assert curve[-1] == here
        assert result.peaks["pool"] >= max(size for _, size in memory(result, "pool"))


@given(programs())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_a_pool_of_one_stream_holds_what_its_allocations_say(actions):
    """Read off the stream's order, and put together from each buffer's two times."""
    stream_of = {buffer.name: action.stream for action in actions for buffer in action.takes}
    own = [
        action._replace(
            takes=tuple(buffer._replace(pool=action.stream) for buffer in action.takes),
            releases=tuple(
                buffer._replace(pool=action.stream)
                for buffer in action.releases
                if stream_of[buffer.name] == action.stream
            ),
        )
        for action in actions
    ]
    plan = compile_plan(own)
    assert all(pool.changes is not None for pool in plan.pools.values())
    shared = {name: replace(pool, changes=None) for name, pool in plan.pools.items()}
    quick, slow = simulate(plan), simulate(replace(plan, pools=shared))
    for stream in plan.pools:
        assert memory(quick, stream) == memory(slow, stream)
        assert quick.peaks[stream] >= slow.peaks[stream]


@given(programs())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_the_critical_path_is_as_long_as_the_makespan(actions):
    result = run(*actions)
    path = critical_path(result)
    costs = sum(action.seconds for action in path)
    issue = sum(action.issue for action in actions)
    assert costs <= result.makespan <= costs + issue


@given(programs())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_exposed_is_what_runs_outside_compute(actions):
    result = run(*actions)
    exact = 0.0
    times = sorted({*result.starts, *result.ends})
    for now, later in pairwise(times):
        kinds = {s.kind for s in spans(result) if s.start <= now and s.end >= later}
        exact += later - now if kinds == {"communication"} else 0.0
    assert exposed(result) == exact


def test_busy_counts_overlapping_actions_once():
    result = run(Action("A", "x", 3.0), Action("B", "y", 5.0))
    assert busy(result, kind="compute") == 5.0
    assert busy(result, stream="x") == 3.0


def test_a_plan_runs_again_with_other_durations():
    plan = compile_plan([Action("A", "x", 1.0), Action("B", "y", 1.0, needs=(0,))])
    assert simulate(plan, [5.0, 2.0]).makespan == 7.0
    assert simulate(plan).makespan == 2.0
    with pytest.raises(InputError, match="2 durations"):
        simulate(plan, [1.0])


def test_at_one_instant_the_earlier_buffer_is_released_first():
    one, two = Buffer("pool", "one", 5), Buffer("pool", "two", 7)
    actions = [
        Action("A", "x", 1.0, takes=(one,), releases=(one,)),
        Action("B", "y", 1.0, needs=(0,), takes=(two,)),
    ]
    assert run(*actions).peaks == {"pool": 7}
    assert run(*actions, allocate="issue").peaks == {"pool": 12}


def test_a_release_comes_before_a_take_at_the_same_instant_also_against_program_order():
    early, late = Buffer("pool", "early", 5), Buffer("pool", "late", 7)
    result = run(
        Action("A", "y", 1.0, needs=(1,), takes=(late,)),
        Action("B", "x", 1.0, takes=(early,), releases=(early,)),
    )
    assert result.peaks == {"pool": 7}


def test_what_is_taken_and_released_at_one_instant_is_held():
    taken = Buffer("pool", "taken", 5)
    result = run(Action("A", "x", takes=(taken,)), Action("B", "y", needs=(0,), releases=(taken,)))
    assert result.peaks == {"pool": 5}
    assert [held for _, held, _ in held_over_time(result, "pool")] == [5, 0]


def test_the_first_allocation_over_the_capacity_is_named():
    actions = [
        Action(f"{name}", "x", 1.0, takes=(Buffer("pool", name, 10),)) for name in ("F0", "F1")
    ]
    found = first_over(run(*actions), "pool", capacity=24, resident=5)
    assert (found.action, found.time, found.held) == ("F1", 1.0, 25)
    assert first_over(run(*actions), "pool", capacity=25, resident=5) is None


def test_a_circle_is_refused_with_the_picture():
    with pytest.raises(ScheduleError) as caught:
        run(
            Action("S", "rank 0", 1.0),
            Action("A", "rank 0", 1.0, needs=(3,)),
            Action("B", "rank 1", 1.0, needs=(1,)),
            Action("C", "rank 1", 1.0),
        )
    error = caught.value
    assert (error.rank, error.step, error.action) == ("rank 0", 1, "A")
    assert "A ← C ← B ← A" in str(error)
    assert str(error).splitlines()[1:] == [
        "step    0  1",
        "rank 0  S >A<",
        "rank 1  B  C",
    ]


def test_of_a_circle_the_first_action_is_marked_whoever_waits_for_it():
    with pytest.raises(ScheduleError, match="B ← C ← B") as caught:
        run(
            Action("A", "x", needs=(2,)), Action("B", "y", needs=(2,)), Action("C", "z", needs=(1,))
        )
    assert caught.value.action == "B"


def test_of_a_long_circle_its_beginning_and_its_end_are_told():
    circle = [Action(f"A{at}", f"s{at}", needs=((at + 1) % 9,)) for at in range(9)]
    with pytest.raises(ScheduleError, match="A0 ← A1 ← A2 ← A3 ← A4 ← A5 ← A6 ← … ← A0"):
        run(*circle)
    circle = [Action(f"A{at}", f"s{at}", needs=((at + 1) % 8,)) for at in range(8)]
    with pytest.raises(ScheduleError, match="← A6 ← A7 ← A0"):
        run(*circle)


def test_the_picture_shows_the_six_steps_before_and_after_the_fault():
    actions = [Action(f"A{at}", "x") for at in range(20)] + [Action("B", "y")]
    actions[9] = Action("A9", "x", needs=(99,))
    with pytest.raises(ScheduleError) as caught:
        run(*actions)
    steps, row, other = caught.value.picture.splitlines()
    assert steps.split() == ["step", *map(str, range(3, 16))]
    assert row.split() == ["x", *(f">A{at}<" if at == 9 else f"A{at}" for at in range(3, 16))]
    assert other == "y"


def test_a_missing_producer_is_refused():
    with pytest.raises(ScheduleError, match="nothing produces"):
        run(Action("A", "x", 1.0, needs=(4,)))
    with pytest.raises(ScheduleError, match="waits"):
        run(Action("A", "x", 1.0, waits=(4,)))


def test_a_need_that_is_queued_behind_is_a_deadlock():
    with pytest.raises(ScheduleError, match="A ← B ← A"):
        run(Action("A", "x", 1.0, needs=(1,)), Action("B", "x", 1.0))
    with pytest.raises(ScheduleError, match="A ← A"):
        run(Action("A", "x", 1.0, needs=(0,)))


def test_a_host_that_waits_for_what_it_has_not_issued_is_a_deadlock():
    with pytest.raises(ScheduleError, match="B ← issue of B ← issue of A ← B"):
        run(Action("A", "x", 1.0, waits=(1,)), Action("B", "y", 1.0))


@pytest.mark.parametrize("order", [["take", "take"], ["release"], ["take", "release", "release"]])
def test_memory_taken_or_released_twice_is_refused(order):
    buffer = (Buffer("pool", "b"),)
    actions = [
        Action(
            f"{k}",
            "x",
            1.0,
            takes=buffer if what == "take" else (),
            releases=buffer if what == "release" else (),
        )
        for k, what in enumerate(order)
    ]
    with pytest.raises(ScheduleError, match="taken"):
        run(*actions)


def test_memory_released_before_it_is_taken_is_refused():
    late, early = Buffer("pool", "late"), Buffer("pool", "other")
    with pytest.raises(ScheduleError, match="before that is taken"):
        run(
            Action("A", "x", 5.0, takes=(early,)),
            Action("B", "x", 1.0, takes=(late,)),
            Action("C", "y", 1.0, releases=(late,)),
        )


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_impossible_durations_are_refused(seconds):
    with pytest.raises(InputError):
        run(Action("A", "x", seconds))


def test_the_engine_needs_the_standard_library_only():
    """It runs in the browser, where nothing else is installed."""
    names = set()
    for path in Path(shardbook.schedules.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").partition(".")[0])
    assert names - {"shardbook"} <= sys.stdlib_module_names


def test_an_empty_program_takes_no_time():
    assert run().makespan == 0.0
    assert critical_path(run()) == ()
