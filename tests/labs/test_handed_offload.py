"""Placements, proofs and plans of layers handed in as data: whatever they hold, there is a verdict."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.labs.handed_graphs import crossing, proved, read_placement, stored, too_much_stored
from shardbook.labs.handed_layers import Streamed, run_layers
from shardbook.labs.values import Fault
from shardbook.planner.placements import EDGES, FORWARD_BACKWARD, STATES, placements

NODES = {FORWARD_BACKWARD: 0, **STATES, "update": 0, "float2half": 0}
TWO = ({"gpu": 2, "x": 4, "y": 4}, [("gpu", "x", 3), ("x", "y", 2)], ["gpu"])
LAYERS = [(2, 3.0, 1.0, 4.0), (3, 2.0, 1.0, 2.0), (2, 2.0, 1.0, 3.0)]

name = st.sampled_from(["gpu", "x", "y", "z"])
odd = st.none() | st.integers(-1, 4) | st.just("x") | st.floats() | st.just(10**30) | st.booleans()
moves = st.lists(
    st.tuples(name, name, st.integers(0, 4)) | st.tuples(odd, odd, odd) | odd, max_size=4
)
proofs = st.fixed_dictionaries(
    {"states": st.lists(name, max_size=3) | odd, "flows": st.dictionaries(name, moves) | odd}
)
waits = st.none() | st.integers(-1, 3)
plans = st.lists(st.just("keep") | st.tuples(waits, waits) | st.tuples(odd, odd) | odd, max_size=4)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(value=proofs | moves | odd)
def test_any_proof_gets_a_verdict(value: object) -> None:
    bound = proved(*TWO, 5, value)
    assert isinstance(bound, Fault) or 0 < bound <= 3


@settings(derandomize=True, deadline=None, max_examples=200)
@given(value=plans | odd)
def test_any_plan_of_layers_gets_a_verdict(value: object) -> None:
    run = run_layers(LAYERS, 5, 7, value)
    assert isinstance(run, Fault) or run.host_peak <= 5


@given(value=st.lists(name | odd, max_size=3) | odd)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_any_placement_gets_a_verdict(value: object) -> None:
    here = read_placement(value, TWO[0], TWO[2])
    assert isinstance(here, Fault) or {"gpu"} <= here <= {"gpu", "x", "y"}


def test_the_engines_placements_cost_what_they_say() -> None:
    """(S44)"""
    for each in placements():
        here = read_placement(list(each.gpu), NODES, [FORWARD_BACKWARD])
        assert not isinstance(here, Fault)
        assert sum(crossing(EDGES, here)) == each.traffic
        assert stored(NODES, here) == each.gpu_bytes
        assert (too_much_stored(NODES, here, 15) is None) == (each.gpu_bytes < 16)


def proof(x: Any = (("gpu", "x", 3),), y: Any = (("gpu", "x", 2), ("x", "y", 2))) -> Any:
    return {"states": ["x", "y"], "flows": {"x": list(x), "y": list(y)}}


def test_a_proof_is_as_strong_as_its_smallest_flow() -> None:
    assert proved(*TWO, 9, proof()) == 2
    assert proved(*TWO, 9, proof(y=[("gpu", "x", 1), ("x", "y", 1)])) == 1
    assert proved(*TWO, 5, {"states": ["x"], "flows": {"x": [("gpu", "x", 3)]}}) == 3


def test_states_that_just_fit_prove_nothing() -> None:
    value = {"states": ["x"], "flows": {"x": [("gpu", "x", 3)]}}
    assert proved(*TWO, 5, value) == 3
    fault = proved(*TWO, 6, value)
    assert isinstance(fault, Fault) and fault.where == "states"


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (None, "the proof"),
        ({"states": ["x"]}, "the proof"),
        ({"states": ["x", "x"], "flows": {}}, "states, item 1"),
        ({"states": ["gpu"], "flows": {}}, "states, item 0"),
        ({"states": ["x"], "flows": {}}, "states"),
        ({"states": ["x", "y"], "flows": {"x": 7}}, "the flow to x"),
        ({"states": ["x", "y"], "flows": {"x": [7]}}, "the flow to x, item 0"),
        ({"states": ["x", "y"], "flows": {"x": [("gpu", "x", 0)]}}, "the flow to x, item 0"),
        ({"states": ["x", "y"], "flows": {"x": [("gpu", "x")]}}, "the flow to x, item 0"),
        ({"states": ["x", "y"], "flows": {"x": [("gpu", "x", 3)]}}, "flows"),
        (proof(x=[("gpu", "x", 4)]), "the flow to x, item 0"),
        (proof(x=[("gpu", "x", 2), ("x", "gpu", 2)]), "the flow to x, item 1"),
        (proof(x=[("gpu", "y", 1)]), "the flow to x, item 0"),
        (proof(x=[("gpu", "x", True)]), "the flow to x, item 0"),
        (proof(y=[("x", "y", 2)]), "the flow to y, at x"),
        (proof(y=[("gpu", "x", 3), ("x", "y", 2)]), "the flow to y, at x"),
        (proof(x=[]), "the flow to x"),
        (proof(x=[("x", "gpu", 1)]), "the flow to x"),
    ],
)
def test_what_is_no_proof_is_told_with_its_place(value: Any, where: str) -> None:
    fault = proved(*TWO, 9, value)
    assert isinstance(fault, Fault) and fault.where == where


def test_edges_of_a_pair_have_their_room_together_and_both_ways() -> None:
    graph = ({"gpu": 0, "x": 1}, [("gpu", "x", 2), ("x", "gpu", 3), ("gpu", "x", 1)], ["gpu"])
    assert proved(*graph, 0, {"states": ["x"], "flows": {"x": [("gpu", "x", 6)]}}) == 6
    assert isinstance(
        proved(*graph, 0, {"states": ["x"], "flows": {"x": [("gpu", "x", 7)]}}), Fault
    )


def simulated(layers: Any, plan: Any) -> float:
    """The time of a pass, written out."""
    copies, ends = {None: 0.0}, {None: 0.0}
    read_end = copy_end = end = 0.0
    for at, ((_, read, copy, compute), entry) in enumerate(zip(layers, plan, strict=True)):
        if entry != "keep":
            read_end = max(read_end, copies[entry[0]]) + read
            copy_end = copies[at] = max(copy_end, read_end, ends[entry[1]]) + copy
            end = max(end, copy_end)
        end = ends[at] = end + compute
    return end


def test_every_plan_of_three_layers_takes_the_time_written_out() -> None:
    """(S50)"""
    choices: list[list[Any]] = []
    for at in range(3):
        earlier = [None, *range(at)]
        choices.append(["keep", *product(earlier, earlier)])
    ran = 0
    for plan in product(*choices):
        run = run_layers(LAYERS, 99, 99, list(plan))
        if isinstance(run, Fault):
            assert "not kept" in run.expected
            continue
        ran += 1
        assert run.makespan == simulated(LAYERS, plan)
        assert run.kept == sum(
            layer[0] for layer, entry in zip(LAYERS, plan, strict=True) if entry == "keep"
        )
    assert ran > 50


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (7, "the plan"),
        (["keep"], "the plan"),
        (["keep", "kept", "keep"], "layer 1"),
        ([(None, None), (1, None), "keep"], "layer 1"),
        (["keep", (0, None), "keep"], "layer 1"),
        ([(None, None), (None, True), "keep"], "layer 1"),
        (["keep", "keep", "keep"], "the layers to keep"),
        ([(None, None), (None, None), "keep"], "R1 at 3 s"),
        ([(None, None), (0, None), (1, None)], "C1 at 6 s"),
    ],
)
def test_a_plan_that_does_not_run_or_fit_is_told(value: Any, where: str) -> None:
    fault = run_layers(LAYERS, 3, 4, value)
    assert isinstance(fault, Fault) and fault.where == where


def test_what_ends_gives_its_memory_back_before_anything_starts() -> None:
    plan = [(None, None), (0, 0), (1, 1)]
    run = run_layers(LAYERS, 3, 3, plan)
    assert isinstance(run, Streamed)
    assert (run.host_peak, run.gpu_peak) == (3, 3)
