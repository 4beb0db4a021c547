"""Plans, programs and copies handed in as data: whatever they hold, there is a verdict."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.ring import ring_all_gather, ring_reduce_scatter
from shardbook.labs.handed_copies import Resharded, misplaced, needless, reshard
from shardbook.labs.handed_plans import (
    first_fault,
    off_the_ring,
    read_plan,
    received_again,
    wrong_rounds,
    wrong_traffic,
)
from shardbook.labs.handed_programs import (
    ACTIONS,
    Ran,
    idle_unit,
    read_program,
    run_step,
    wrong_weights,
)
from shardbook.labs.values import Fault

small = st.integers(-1, 4)
odd = small | st.booleans() | st.none() | st.just("0") | st.just(10**30)
moves = st.tuples(small, small, small) | st.tuples(odd, odd, odd) | st.tuples(small, small) | odd
plans = st.lists(st.lists(moves, max_size=4) | odd, max_size=5) | odd
actions = st.builds(
    lambda kind, unit: f"{kind} {unit}", st.sampled_from(ACTIONS), st.integers(0, 2)
)
programs = st.lists(actions | st.sampled_from(ACTIONS) | odd | st.just("forward -1"), max_size=30)
possible = st.lists(actions | st.sampled_from(("load", "loss", "clear")), max_size=40)
numbers = st.integers(-1, 6)
copies = st.lists(
    st.tuples(*[numbers] * 6) | st.tuples(odd, odd, odd, odd, odd, odd) | odd, max_size=8
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(value=plans, collective=st.sampled_from(("reduce-scatter", "all-gather")))
def test_any_plan_gets_a_verdict(value: object, collective: str) -> None:
    plan = read_plan(collective, [2, 0, 3], [1, 4, 2], value)
    if isinstance(plan, Fault):
        return
    found = [
        first_fault(plan, drawn=True),
        wrong_rounds(plan, 2),
        off_the_ring(plan),
        wrong_traffic(plan, [6, 3, 5]),
        received_again(plan),
    ]
    assert all(one is None or isinstance(one, Fault) for one in found)


def test_the_engines_rings_have_no_fault() -> None:
    for maker, collective in (
        (ring_reduce_scatter, "reduce-scatter"),
        (ring_all_gather, "all-gather"),
    ):
        ring = maker([2, 0, 3], [1, 4, 2])
        plan = read_plan(
            collective, [2, 0, 3], [1, 4, 2], [[m[:3] for m in r] for r in ring.rounds]
        )
        assert not isinstance(plan, Fault)
        assert first_fault(plan) is wrong_rounds(plan, 2) is off_the_ring(plan) is None
        assert received_again(plan) is None or collective == "reduce-scatter"
        sent = [7 - [1, 4, 2][(i + (collective == "all-gather")) % 3] for i in range(3)]
        assert wrong_traffic(plan, sent) is None


@settings(derandomize=True, deadline=None, max_examples=150)
@given(value=programs | possible | odd, micro_batches=st.integers(1, 2))
def test_any_program_gets_a_verdict(value: object, micro_batches: int) -> None:
    program = read_program(3, value)
    if isinstance(program, Fault):
        return
    assert isinstance(run_step(program, 3, micro_batches), (Ran, Fault))
    assert isinstance(idle_unit(program, 3, micro_batches), (Fault, type(None)))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_a_program_with_an_edit_gets_a_verdict(rng: object, edits: int) -> None:
    program = [
        "load",
        "unshard 0",
        "forward 0",
        "reshard 0",
        "unshard 1",
        "forward 1",
        "loss",
        "backward 1",
    ]
    program += ["reduce-scatter 1", "keep-shard 1", "reshard 1", "unshard 0", "backward 0"]
    program += ["reduce-scatter 0", "keep-shard 0", "reshard 0", "update 0", "update 1", "clear"]
    for _ in range(edits):
        i, j = rng.randrange(len(program)), rng.randrange(len(program))  # type: ignore[attr-defined]
        choice = rng.randrange(3)  # type: ignore[attr-defined]
        if choice == 0:
            program[i], program[j] = program[j], program[i]
        elif choice == 1:
            program.insert(i, program[j])
        else:
            del program[i]
    parsed = read_program(2, program)
    assert isinstance(parsed, tuple)
    assert isinstance(run_step(parsed, 2, 1), (Ran, Fault))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(value=copies | odd)
def test_any_copies_get_a_verdict(value: object) -> None:
    done = reshard([5, 4], 2, 3, value)
    if isinstance(done, Resharded):
        assert isinstance(misplaced([5, 4], 3, done), (Fault, type(None)))
        assert isinstance(needless(done), (Fault, type(None)))


def test_what_is_far_too_large_is_refused() -> None:
    for value in ([[(0, 1, 0)] * 6000], [[]] * 6000):
        assert isinstance(read_plan("all-gather", [0, 1], [1, 1], value), Fault)
    assert isinstance(read_program(2, ["load"] * 2000), Fault)
    assert isinstance(reshard([4], 1, 2, [(0, 0, 0, 0, 0, 1)] * 30_000), Fault)
    assert isinstance(reshard([100_000], 1, 1, [(0, 0, 0, 0, 0, 100_000)] * 3), Fault)


def test_a_weight_that_is_not_a_number_is_wrong() -> None:
    right = Ran(((0.5, 0.25),), 0, "", 0, "", "")
    assert wrong_weights(right, right) is None
    for weight in (math.nan, math.inf, 0.3):
        assert wrong_weights(replace(right, weights=((0.5, weight),)), right)
