"""The references of lab offload against the engine, the paper's graph and trying everything."""

from itertools import chain, combinations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardgrade.checkout import reference
from shardgrade.checks.judging import assess

from shardbook.labs.checking import examine
from shardbook.labs.handed_graphs import crossing, proved, stored
from shardbook.labs.handed_layers import Streamed, run_layers
from shardbook.labs.registry import TASKS
from shardbook.labs.values import Fault
from shardbook.planner.bandwidth import efficiency, required_bandwidth
from shardbook.planner.placements import EDGES, FORWARD_BACKWARD, STATES, placements

Graph = tuple[dict[str, int], list[tuple[str, str, int]], list[str]]

NODES = {FORWARD_BACKWARD: 0, **STATES, "update": 0, "float2half": 0}
ZERO_OFFLOAD: Graph = (NODES, list(EDGES), [FORWARD_BACKWARD])


def subsets(items: Any) -> Any:
    return chain.from_iterable(combinations(items, count) for count in range(len(items) + 1))


def graph(seed: int, free: int = 5, pinned: int = 1) -> Graph:
    rng = Random(seed)
    names = [f"n{number}" for number in range(free + pinned)]
    nodes = {name: rng.randint(0, 6) for name in names}
    edges = []
    for at, name in enumerate(names[1:], start=1):
        edges.append((rng.choice(names[:at]), name, rng.randint(1, 9)))
    edges += [(*rng.sample(names, k=2), rng.randint(1, 9)) for _ in range(free)]
    return nodes, edges, names[:pinned]


def best_traffic(nodes: Any, edges: Any, pinned: Any, limit: int) -> int | None:
    free = [name for name in nodes if name not in pinned]
    placed = [frozenset((*chosen, *pinned)) for chosen in subsets(free)]
    fits = [sum(crossing(edges, here)) for here in placed if stored(nodes, here) <= limit]
    return min(fits, default=None)


def test_the_costs_are_the_engines() -> None:
    """(S44)"""
    for each in placements():
        cost = reference(TASKS["offload.1"])(*ZERO_OFFLOAD, list(each.gpu))
        assert (cost["down"] + cost["up"], cost["stored"]) == (each.traffic, each.gpu_bytes)


@pytest.mark.parametrize("limit", range(17))
def test_the_papers_graph_has_the_engines_best_placement(limit: int) -> None:
    """(S44)"""
    gpu = reference(TASKS["offload.2"])(*ZERO_OFFLOAD, limit)
    best = min(
        (each for each in placements() if each.gpu_bytes <= limit),
        key=lambda each: (each.traffic, each.gpu_bytes),
    )
    here = {*gpu, FORWARD_BACKWARD}
    assert (sum(crossing(EDGES, here)), stored(NODES, here)) == (best.traffic, best.gpu_bytes)


@pytest.mark.parametrize(
    "down", [float("nan"), float("inf"), True, "1", None, pytest.param(10**400, id="huge")]
)
def test_what_is_no_number_of_bytes_gets_a_verdict_and_no_points(down: Any) -> None:
    def answer(*graph: Any) -> dict[str, Any]:
        return {"down": down, "up": 1.5, "stored": 0}

    verdicts = {v.criterion.name: v.fault for v in assess("offload.1", answer).verdicts}
    assert verdicts["downward"] and verdicts["several edges"]


def test_the_papers_optimum_is_proved() -> None:
    """Below 16 B nothing crosses less than 4 B, and below 2 B nothing less than 6 B. (S44)"""
    for limit, bound in ((15, 4), (2, 4), (1, 6), (0, 6)):
        made = reference(TASKS["offload.3"])(*ZERO_OFFLOAD, limit)
        assert proved(*ZERO_OFFLOAD, limit, made) == bound == best_traffic(*ZERO_OFFLOAD, limit)
    assert reference(TASKS["offload.3"])(*ZERO_OFFLOAD, 16) is None


@pytest.mark.parametrize("seed", range(12))
def test_a_proof_is_the_strongest_of_its_kind_and_never_too_strong(seed: int) -> None:
    """The largest flow is the smallest cut: found here by trying all sets."""
    nodes, edges, pinned = graph(seed, pinned=1 + seed % 2)
    free = [name for name in nodes if name not in pinned]
    cut = {
        name: min(
            sum(crossing(edges, {*chosen, *pinned}))
            for chosen in subsets([other for other in free if other != name])
        )
        for name in free
    }
    for limit in range(sum(nodes.values())):
        made = reference(TASKS["offload.3"])(nodes, edges, pinned, limit)
        if stored(nodes, pinned) > limit:
            continue
        strongest = max(
            min(cut[name] for name in states)
            for states in subsets(free)
            if stored(nodes, {*states, *pinned}) > limit
        )
        bound = proved(nodes, edges, pinned, limit, made)
        assert bound == strongest
        best = best_traffic(nodes, edges, pinned, limit)
        assert best is not None and bound <= best


@given(
    st.lists(st.floats(0.01, 9), min_size=1, max_size=3),
    st.floats(0.1, 9),
    st.booleans(),
    st.sampled_from([0.5, 0.9]),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_the_bandwidth_needed_gives_the_efficiency_wanted(
    times: list[float], compute: float, overlapped: bool, wanted: float
) -> None:
    """(S48)"""
    solve = reference(TASKS["offload.4"])
    links = [(f"link {at}", seconds * 1e9, 1e9) for at, seconds in enumerate(times)]
    answer = solve(compute * 1e12, 1e12, links, overlapped, wanted)
    for at, (name, size, _) in enumerate(links):
        need = answer["needed"][name]
        if need is None:
            faster = [*links[:at], (name, size, 1e30), *links[at + 1 :]]
            reached = solve(compute * 1e12, 1e12, faster, overlapped, wanted)["efficiency"]
            assert reached < wanted * (1 + 1e-9)
            continue
        changed = [*links[:at], (name, size, need), *links[at + 1 :]]
        reached = solve(compute * 1e12, 1e12, changed, overlapped, wanted)["efficiency"]
        assert reached == pytest.approx(wanted)
    if len(links) == 1 and not overlapped:
        ((_, size, bandwidth),) = links
        per_byte = compute * 1e12 / size
        assert answer["efficiency"] == pytest.approx(efficiency(per_byte, bandwidth, 1e12))
        needed = required_bandwidth(per_byte, wanted, 1e12)
        assert answer["needed"]["link 0"] == pytest.approx(needed)


def every_plan(count: int) -> Any:
    """All plans: what is kept, and every earlier layer that each read and copy may wait for."""
    rows: list[list[Any]] = []
    for at in range(count):
        earlier = [None, *range(at)]
        rows.append(["keep", *product(earlier, earlier)])
    return product(*rows)


@pytest.mark.parametrize("seed", range(6))
def test_no_plan_of_three_layers_is_shorter_than_the_references(seed: int) -> None:
    """(S50)"""
    rng = Random(seed)
    layers = [(rng.randint(1, 5), *(float(rng.randint(1, 6)) for _ in range(3))) for _ in range(3)]
    most = max(layer[0] for layer in layers)
    for host, gpu in ((most, most), (most + 2, most + 1), (2 * most, 2 * most)):
        times = [
            run.makespan
            for plan in every_plan(3)
            if isinstance(run := run_layers(layers, host, gpu, list(plan)), Streamed)
        ]
        own = run_layers(layers, host, gpu, reference(TASKS["offload.5"])(layers, host, gpu))
        assert isinstance(own, Streamed) and own.makespan == min(times)


@pytest.mark.parametrize("seed", range(5))
def test_of_many_layers_the_reference_keeps_nearly_the_best(seed: int) -> None:
    """Ten layers can just be tried; the reference tries sets near to a few."""
    rng = Random(seed)
    layers = [
        (rng.randint(4, 13), *(float(rng.randint(1, 9)) for _ in range(3))) for _ in range(10)
    ]
    sizes = [layer[0] for layer in layers]
    host, gpu = 2 * max(sizes), max(sizes) + sum(sizes) // 4
    times = []
    for keep in subsets(range(10)):
        room, plan, streamed = gpu - sum(sizes[n] for n in keep), [], []
        for n in range(10):
            if n in keep:
                plan.append("keep")
                continue
            gone = []
            for limit in (host, room):
                inside = next(
                    (k for k in range(len(streamed) + 1)
                     if sizes[n] + sum(sizes[m] for m in streamed[k:]) <= limit),
                    0,
                )  # fmt: skip
                gone.append(streamed[inside - 1] if inside else None)
            streamed.append(n)
            plan.append(tuple(gone))
        run = run_layers(layers, host, gpu, plan)
        if isinstance(run, Streamed):
            times.append(run.makespan)
    own = run_layers(layers, host, gpu, reference(TASKS["offload.5"])(layers, host, gpu))
    assert isinstance(own, Streamed) and min(times) <= own.makespan <= 1.03 * min(times)


def test_the_labs_worked_examples_are_right() -> None:
    one, two, three, four = (reference(TASKS[f"offload.{number}"]) for number in range(1, 5))
    pair: Graph = (
        {"gpu": 0, "x": 4},
        [("gpu", "x", 3), ("x", "gpu", 5), ("gpu", "x", 1)],
        ["gpu"],
    )
    assert one(*pair, []) == {"down": 4, "up": 5, "stored": 0}
    assert one(*pair, ["x"]) == {"down": 0, "up": 0, "stored": 4}
    star = ({"gpu": 0, "x": 4, "y": 2}, [("gpu", "x", 5), ("gpu", "y", 4)], ["gpu"])
    assert two(*star, 5) == ["x"]
    row: Graph = ({"gpu": 2, "x": 4, "y": 4}, [("gpu", "x", 3), ("x", "y", 2)], ["gpu"])
    assert proved(*row, 9, three(*row, 9)) == 2 == best_traffic(*row, 9)
    assert proved(*row, 5, three(*row, 5)) == 3
    second = (1e12, 1e12, [("pcie", 1e9, 1e9)])
    assert four(*second, False, 0.9)["efficiency"] == 0.5
    assert four(*second, False, 0.9)["needed"]["pcie"] == pytest.approx(9e9)
    assert four(*second, True, 0.9)["needed"]["pcie"] == pytest.approx(0.9e9)


def test_a_flow_that_keeps_bytes_is_told_with_its_node() -> None:
    def leaks(nodes: Any, edges: Any, pinned: Any, limit: int) -> Any:
        made = reference(TASKS["offload.3"])(nodes, edges, pinned, limit)
        return {**made, "flows": {name: flow[:-1] for name, flow in made["flows"].items()}}

    finding = examine("offload.3", leaks).finding
    assert finding and finding.fault.where.startswith("the flow to ")


def test_the_memory_that_is_too_small_is_told_with_action_and_time() -> None:
    finding = examine("offload.5", lambda layers, *limits: [(None, None)] * len(layers)).finding
    assert finding and finding.fault.where == "R1 at 3 s"
    assert isinstance(finding.fault, Fault) and "host memory" in finding.fault.expected
