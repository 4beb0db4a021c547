"""Lab n47: the references agree with the engine, and no program is shorter than theirs."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardgrade.checkout import reference
from shardgrade.checks.judging import cases_of, hidden_check
from shardgrade.checks.n47_units import bucket_seconds, whole_buckets

from shardbook.labs.checking import examine
from shardbook.labs.handed_units import incomplete, read_program, run_program
from shardbook.labs.registry import TASKS
from shardbook.labs.values import Fault
from shardbook.schedules.buckets import Layer, Reduction, ddp_step
from shardbook.schedules.core import Run
from shardbook.schedules.fsdp import PARAMETERS, Policy, Unit, equal_units, fsdp_run
from shardbook.schedules.units import flat_parameter


def cases(task: str) -> list[Any]:
    return [case for p in hidden_check(TASKS[task]).probes for case in cases_of(TASKS[task], p)]


def ran(program: Any, units: Any, buffers: int | None = None) -> Run:
    steps = read_program(program)
    assert not isinstance(steps, Fault)
    run = run_program(steps, units, buffers=buffers)
    assert isinstance(run, Run), run
    return run


def test_the_engine_lays_out_the_same() -> None:
    for sizes, ranks in cases("n47.1"):
        found = reference(TASKS["n47.1"])(sizes, ranks)
        flat = flat_parameter(dict(sizes), ranks)
        assert found["offsets"] == list(flat.offsets.values())
        assert (found["shard"], found["padding"]) == (flat.shard, flat.padding)
        pieces = [(rank, *piece) for rank, mine in enumerate(found["pieces"]) for piece in mine]
        assert sorted(pieces) == sorted((p.rank, p.name, p.start, p.stop) for p in flat.pieces)


def test_the_engine_ends_a_ddp_step_at_the_same_time() -> None:
    for layers, capacity, first, latency, bandwidth in cases("n47.2"):
        found = reference(TASKS["n47.2"])(layers, capacity, first, latency, bandwidth)
        # Two ranks: 2·α and size/B.
        step = ddp_step(
            [Layer(0.0, seconds, size) for seconds, size in layers],
            Reduction(2, latency / 2, bandwidth),
            capacity=capacity,
            first=first,
        )
        assert found["buckets"] == [list(bucket) for bucket in step.buckets]
        assert found["end"] == pytest.approx(step.makespan)


times = st.integers(1, 9).map(float)


def alike(gather: float, scatter: float, computing: Iterable[tuple[float, float]]) -> list[Unit]:
    """Units of these forwards and backwards whose communication takes equally long."""
    return [Unit(forward, backward, gather, scatter) for forward, backward in computing]


def every_program(count: int) -> Iterator[list[str]]:
    """All programs of a step: what is computed in its order, with gathers anywhere between."""
    computed = [f"F{unit}" for unit in range(count)]
    computed += [f"{kind}{unit}" for unit in reversed(range(count)) for kind in ("B", "RS")]

    def longer(program: list[str], at: int) -> Iterator[list[str]]:
        if at == len(computed):
            yield program
            return
        if f"AG{computed[at].lstrip('FBRS')}" in program:
            yield from longer([*program, computed[at]], at + 1)
        for unit in range(count):
            gathers = program.count(f"AG{unit}")
            wanted = gathers == 0 or (gathers == 1 and f"F{unit}" in program)
            if wanted and f"B{unit}" not in program:
                yield from longer([*program, f"AG{unit}"], at)

    return longer([], 0)


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_no_program_at_all_of_three_units_is_shorter_or_gathers_less(buffers: int) -> None:
    cases = [
        alike(gather, scatter, [(forward, 3.0), (2.0, backward), (5.0, 1.0)])
        for gather in (1.0, 4.0, 9.0)
        for scatter in (1.0, 8.0)
        for forward, backward in ((2.0, 7.0), (9.0, 1.0))
    ]
    best = reference(TASKS["n47.3"])(3, buffers)
    shortest = [ran(best, units, buffers).makespan for units in cases]
    tried = 0
    for program in every_program(3):
        steps = read_program(program)
        assert not isinstance(steps, Fault)
        if incomplete(steps, 3) or isinstance(run_program(steps, cases[0], buffers=buffers), Fault):
            continue
        tried += 1
        assert str(best).count("AG") <= str(program).count("AG")
        for units, makespan in zip(cases, shortest, strict=True):
            assert makespan <= ran(program, units, buffers).makespan
    assert tried > 5


def test_where_gathers_differ_another_unit_may_be_better_kept() -> None:
    """So the text says to plan as if they took equally long: unit 0 takes long to gather again."""
    units = [Unit(13, 5, 8, 2), Unit(2, 2, 2, 2), Unit(13, 13, 1, 13)]
    kept = ["AG0", "AG1", "F0", "F1", "AG2", "F2", "B2", "AG1", "RS2", "B1", "RS1", "B0", "RS0"]
    best = reference(TASKS["n47.3"])(3, 2)
    assert ran(kept, units, 2).makespan < ran(best, units, 2).makespan
    even = alike(3, 3, [(13, 5), (2, 2), (13, 13)])
    assert ran(kept, even, 2).makespan > ran(best, even, 2).makespan


@st.composite
def steps_of_units(draw: st.DrawFn) -> tuple[list[Unit], int, list[str]]:
    """Units, buffers, and a random program that the buffers allow."""
    count, buffers = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    units = alike(draw(times), draw(times), [(draw(times), draw(times)) for _ in range(count)])
    uses = [("F", unit) for unit in range(count)] + [("B", unit) for unit in reversed(range(count))]
    texts: list[str] = []
    there: list[int] = []
    for at, (kind, unit) in enumerate(uses):
        ahead = dict.fromkeys(other for _, other in uses[at + 1 :])
        wanted = [unit] * (unit not in there)
        wanted += [other for other in ahead if other != unit and draw(st.booleans())]
        scatter = [f"RS{uses[at - 1][1]}"] * (at > count)
        early = draw(st.booleans())
        texts += scatter * (not early)
        for other in wanted:
            if other in there:
                continue
            if len(there) == buffers:
                idle = [held for held in there if held not in (unit, *wanted)]
                if other == unit:
                    idle = idle or [held for held in there if held != unit]
                if not idle:
                    break
                there.remove(draw(st.sampled_from(idle)))
            there.append(other)
            texts.append(f"AG{other}")
        texts += [*scatter * early, f"{kind}{unit}"]
    return units, buffers, [*texts, "RS0"]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(made=steps_of_units())
def test_no_random_program_is_shorter_or_gathers_less(
    made: tuple[list[Unit], int, list[str]],
) -> None:
    units, buffers, program = made
    steps = read_program(program)
    assert not isinstance(steps, Fault) and incomplete(steps, len(units)) is None
    run = run_program(steps, units, buffers=buffers)
    if isinstance(run, Fault):  # a unit that nobody used could not be freed
        return
    best = reference(TASKS["n47.3"])(len(units), buffers)
    assert ran(best, units, buffers).makespan <= run.makespan
    assert str(best).count("AG") <= str(program).count("AG")


@pytest.mark.parametrize("count", [2, 4, 7])
def test_the_engines_backward_prefetch_is_not_shorter(count: int) -> None:
    units = equal_units(count, 2, 4, 1.5, 1.5)
    engine = fsdp_run(units, Policy(backward_prefetch=1, forward_prefetch=1, limit=2))
    best = reference(TASKS["n47.3"])(count, 2)
    assert ran(best, units, 2).makespan <= engine.makespan


@pytest.mark.parametrize("limit", [2, 3, 4])
@pytest.mark.parametrize(
    "policy", [Policy(), Policy(forward_prefetch=1), Policy(backward_prefetch=1)]
)
def test_the_engines_limiter_waits_as_long(limit: int, policy: Policy) -> None:
    units = equal_units(6, 2, 4, 3, 1)
    free = fsdp_run(units, policy)
    limited = Policy(
        forward_prefetch=policy.forward_prefetch,
        backward_prefetch=policy.backward_prefetch,
        limit=limit,
    )
    engine = fsdp_run(units, limited)
    program = [action.name for action in free.plan.actions]
    run = ran(reference(TASKS["n47.4"])(program, limit), units)
    assert run.makespan == engine.makespan
    assert run.peaks[PARAMETERS] == engine.peaks[PARAMETERS] <= limit


def test_a_step_of_one_unit() -> None:
    found = reference(TASKS["n47.5"])([(7, 5)], 2, True)
    assert found == {"steady": 48, "during": {"F0": 21, "B0": 37}, "peak": "B0"}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (3, "the program"),
        (["AG0", 3], "step 1"),
        (["AG0", "X0"], "step 1"),
        (["AG0"] * 9999, "the"),
    ],
)
def test_data_that_is_no_program_is_told(value: Any, where: str) -> None:
    fault = read_program(value)
    assert isinstance(fault, Fault) and fault.where.startswith(where)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (["F0"], "unit 0 is not gathered"),
        (["AG0", "AG0"], "gathered already"),
        (["AG0", "AG1", "AG0"], "gathered already"),
        (["AG0", "RS0"], "B0 is not issued yet"),
        (["AG0", "WAIT F0", "F0"], "before it is issued"),
        (["AG0", "AG1", "AG2", "F0"], "no buffer is free"),
        (["AG7"], "7"),
    ],
)
def test_a_program_that_cannot_run_is_told(program: list[str], told: str) -> None:
    steps = read_program(program)
    assert not isinstance(steps, Fault)
    fault = run_program(steps, equal_units(3, 1, 1, 1, 1), buffers=2)
    assert isinstance(fault, Fault) and told in fault.got


def test_a_step_that_is_not_whole_is_told() -> None:
    for texts in (["F0", "B0"], ["B0", "F0", "RS0"], ["F0", "B0", "RS0", "RS0"]):
        steps = read_program(texts)
        assert not isinstance(steps, Fault) and incomplete(steps, 1)


@pytest.mark.parametrize("value", [None, [0, 1], [[0]], [[0, 1], []], [[0, 1, 1]], [[0, True]]])
def test_buckets_that_leave_a_layer_out_are_told(value: Any) -> None:
    assert isinstance(whole_buckets(value, 2), Fault)


def test_a_bucket_waits_for_all_of_its_layers() -> None:
    layers = [(1.0, 10), (2.0, 10), (4.0, 10)]
    assert bucket_seconds(layers, [[2, 0], [1]], 0.5, 10.0) == 7 + 2.5 + 1.5


def test_the_diagnosis_of_a_program_shows_the_picture() -> None:
    finding = examine("n47.3", lambda count, buffers: ["AG0", "F0"]).finding
    assert finding and "F, B and RS" in finding.fault.expected
    greedy = [*(f"AG{unit}" for unit in range(3)), *reference(TASKS["n47.3"])(3, 3)[3:]]
    finding = examine("n47.3", lambda count, buffers: greedy).finding
    assert finding and ">AG2<" in finding.fault.got
