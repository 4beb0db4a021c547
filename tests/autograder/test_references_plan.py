"""Lab plan: the references agree with the planner, and no layout that it finds is much faster."""

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shardgrade.blocking import blocked, lifted
from shardgrade.checkout import reference
from shardgrade.checks.judging import Case, assess, cases_of, hidden_check

from shardbook.collectives.layout import coordinates
from shardbook.errors import InputError
from shardbook.labs.checking import examine
from shardbook.labs.handed_layouts import (
    Measured,
    cluster_of,
    measure,
    model_of,
    read_layout,
    run_layout,
)
from shardbook.labs.registry import TASKS
from shardbook.labs.values import Fault
from shardbook.planner.layouts import Layout, Limits, refused
from shardbook.planner.memory import peak_memory
from shardbook.planner.plan import plan

MODEL = {
    "layers": 24, "hidden": 2048, "heads": 16, "vocabulary": 51200, "sequence": 2048, "batch": 64,
}  # fmt: skip
CLUSTER = {
    "nodes": 2, "cards": 4, "memory": 40 * 10**9, "flops": 150e12, "inside": 300e9,
    "inside_latency": 2e-6, "between": 25e9, "between_latency": 5e-6,
}  # fmt: skip
REPLICAS = {
    "tensor": 1, "pipeline": 1, "data": 8, "stage": 1, "recompute": "none", "micro_batch": 1,
}  # fmt: skip

degree = st.sampled_from((1, 2, 4))


def hidden_cases(task: str, *criteria: str) -> list[Case]:
    probes = {probe.criterion: probe for probe in hidden_check(TASKS[task]).probes}
    names = criteria or tuple(probes)
    return [case for name in names for case in cases_of(TASKS[task], probes[name])]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    tensor=degree, context=degree, pipeline=st.sampled_from((1, 2, 3, 6, 24)), data=degree,
    stage=st.integers(0, 3), recompute=st.sampled_from(("none", "selective", "full")),
    micro_batch=st.integers(1, 3), more=st.integers(1, 5),
)  # fmt: skip
def test_the_fullest_card_is_the_planners_peak(
    pipeline: int, data: int, micro_batch: int, more: int, **given_: Any
) -> None:
    layout = {"pipeline": pipeline, "data": data, "micro_batch": micro_batch, **given_}
    model = MODEL | {"batch": data * micro_batch * (pipeline + more)}
    solve = reference(TASKS["plan.1"])
    cards = [solve(model, layout, place) for place in range(pipeline)]
    peak = peak_memory(model_of(model), Layout(**layout))
    assert max(sum(card.values()) for card in cards) == peak.bytes
    pieces = dict(peak.pieces)
    assert {card["weights"] for card in (cards[0], cards[-1])} == {pieces["weights"]}
    assert cards[0]["gradients"] == pieces["gradients"]


def test_every_division_of_the_unseen_cards_comes_out_even() -> None:
    for model, layout, _ in hidden_cases("plan.1"):
        split = layout["tensor"] * layout["context"]
        group = layout["tensor"] * layout["context"] * layout["data"]
        assert model["hidden"] ** 2 % group == 0
        assert model["vocabulary"] * model["hidden"] % group == 0
        assert model["sequence"] * model["hidden"] % split == 0
        assert model["layers"] % layout["pipeline"] == 0


@pytest.mark.parametrize("cards", [2, 3, 4])
def test_a_group_shares_all_coordinates_but_one(cards: int) -> None:
    """(S61)"""
    axes = {"data": 3, "tensor": 2, "pipeline": 4}
    everywhere = [coordinates(rank, axes) for rank in range(24)]
    for rank in range(24):
        found = reference(TASKS["plan.2"])(list(axes.items()), cards, rank)
        for name, (group, leaving) in found.items():
            others = {**everywhere[rank], name: None}
            assert group == [
                one for one, spot in enumerate(everywhere) if {**spot, name: None} == others
            ]
            nodes = len({one // cards for one in group})
            assert leaving == (nodes if nodes > 1 else 0)


REASONS = {
    "cards": "degrees do not multiply to the cards",
    "node": "tensor parallelism would leave the node",
    "heads": "tensor parallelism does not divide the heads",
    "sequence": "context parallelism does not divide the sequence",
    "layers": "stages do not divide the layers",
    "batch": "the batch does not divide",
    "micro-batches": "1F1B needs as many micro-batches as stages",
}


def test_the_first_limit_is_the_planners_reason() -> None:
    solve = reference(TASKS["plan.3"])
    seen = set()
    for model, cluster, layout, peak in hidden_cases("plan.3"):
        name = solve(model, cluster, layout, peak)
        seen.add(name)
        links = {"flops": 1, "inside": 1, "inside_latency": 0, "between": 1, "between_latency": 0}
        reason = refused(model_of(model), cluster_of(cluster | links), Layout(**layout))
        # The planner lets first and last stage have a layer less.
        if name != "layers":
            assert reason == REASONS.get(name)
    assert seen == {None, "memory", *REASONS}


def test_a_dealt_batch_is_the_batch() -> None:
    """(S62)"""
    for batch, layout, most in hidden_cases("plan.4"):
        dealt = reference(TASKS["plan.4"])(batch, layout, most)
        sizes = [
            size for size, count in product(range(1, most + 1), range(layout["pipeline"], 200))
            if size * count * layout["data"] == batch
        ]  # fmt: skip
        assert (dealt and dealt[0]) == max(sizes, default=None)
        assert dealt is None or dealt[0] * dealt[1] * layout["data"] == batch


@pytest.mark.parametrize(
    "criterion", [criterion.name for criterion in TASKS["plan.5"].criteria[1:]]
)
def test_the_planner_finds_no_faster_layout(criterion: str) -> None:
    limits = Limits(schedules=("1f1b",), offload=("none",), usable=1.0)
    for model, cluster in hidden_cases("plan.5", criterion):
        best = run_layout(model, cluster, reference(TASKS["plan.5"])(model, cluster))
        assert isinstance(best, Measured)
        answer = plan(model_of(model), cluster_of(cluster), limits)
        assert best.seconds <= 1.001 * min(each.time.seconds for each in answer.ranked)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(
    nodes=st.integers(1, 4), cards=st.sampled_from((1, 2, 3, 4, 6)),
    layers=st.sampled_from((4, 6, 8, 12)), batch=st.sampled_from((12, 24, 32)),
    memory=st.integers(4, 40), between=st.sampled_from((3e8, 1e9, 5e9, 25e9)),
)  # fmt: skip
def test_the_reference_chooses_the_fastest_layout_there_is(
    nodes: int, cards: int, layers: int, batch: int, memory: int, between: float
) -> None:
    model = MODEL | {"layers": layers, "batch": batch, "heads": 12, "hidden": 1536}
    cluster = CLUSTER | {
        "nodes": nodes, "cards": cards, "memory": memory * 10**9, "between": between,
    }  # fmt: skip
    size = nodes * cards
    degrees = [each for each in range(1, size + 1) if size % each == 0]
    found = [
        run_layout(
            model,
            cluster,
            {"tensor": tensor, "pipeline": pipeline, "data": size // tensor // pipeline,
             "stage": stage, "recompute": recompute, "micro_batch": micro_batch},
        )
        for tensor, pipeline in product(degrees, degrees) if size % (tensor * pipeline) == 0
        for stage, recompute, micro_batch in product(
            range(4), ("none", "selective", "full"), (1, 2, 4, 8)
        )
    ]  # fmt: skip
    times = [one.seconds for one in found if isinstance(one, Measured)]
    assume(times)
    best = run_layout(model, cluster, reference(TASKS["plan.5"])(model, cluster))
    assert isinstance(best, Measured) and best.seconds <= min(times) * (1 + 1e-9)


def test_the_unseen_clusters_ask_for_different_layouts() -> None:
    chosen = [reference(TASKS["plan.5"])(*case) for case in hidden_cases("plan.5")]
    for name, values in (
        ("stage", {0, 1, 2, 3}),
        ("recompute", {"none", "selective", "full"}),
    ):
        assert {layout[name] for layout in chosen} == values
    for name in ("tensor", "pipeline", "data", "micro_batch"):
        assert len({layout[name] for layout in chosen}) >= 3


def test_the_texts_example_takes_what_it_says() -> None:
    slow = CLUSTER | {"between": 1e9}
    pipeline = REPLICAS | {"pipeline": 2, "data": 4, "stage": 0}
    found = [
        run_layout(MODEL, cluster, layout)
        for cluster, layout in ((CLUSTER, REPLICAS), (slow, REPLICAS), (slow, pipeline))
    ]
    seconds = [round(one.seconds, 2) for one in found if isinstance(one, Measured)]
    assert seconds == [1.07, 5.48, 1.19]


def test_a_cheaper_card_is_not_always_a_cheaper_training() -> None:
    cases = hidden_cases("plan.6", "enough memory", "in time", "whole hours")
    chosen = [
        (offers, reference(TASKS["plan.6"])(job, offers, hours)) for job, offers, hours in cases
    ]
    dear = [found for offers, found in chosen
            if offers[found[0]]["price"] > min(offer["price"] for offer in offers)]  # fmt: skip
    assert dear and len({nodes for _, (_, nodes) in chosen}) >= 4


def test_the_texts_rents_cost_the_same_and_the_shorter_one_wins() -> None:
    job = {"steps": 3600, "batch": 16, "flop": 2.6e14, "states": 0, "kept": 0, "moved": 3e9}
    offer = {"cards": 8, "nodes": 2, "memory": 1, "flops": 1e14, "bandwidth": 1e10, "price": 2.0}
    assert reference(TASKS["plan.6"])(job, [offer], 9) == (0, 2)


@pytest.mark.parametrize(
    "size", [float("nan"), float("inf"), "1", pytest.param(10**400, id="huge")]
)
def test_what_is_no_number_of_bytes_is_told(size: Any) -> None:
    def answer(model: dict[str, int], layout: dict[str, Any], place: int) -> dict[str, Any]:
        return reference(TASKS["plan.1"])(model, layout, place) | {"activations": size}

    finding = examine("plan.1", answer).finding
    assert finding and finding.fault.where == "activations"


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (None, "the layout"),
        ({"tensor": 1}, "the layout"),
        (REPLICAS | {"context": 1}, "the layout"),
        (REPLICAS | {"tensor": 0}, "the layout's tensor"),
        (REPLICAS | {"data": 8.0}, "the layout's data"),
        (REPLICAS | {"micro_batch": True}, "the layout's micro_batch"),
        (REPLICAS | {"stage": 4}, "the layout's stage"),
        (REPLICAS | {"recompute": "some"}, "the layout's recompute"),
        (REPLICAS | {"recompute": [1]}, "the layout's recompute"),
    ],
)
def test_data_that_is_no_layout_is_told(value: Any, where: str) -> None:
    fault = read_layout(value)
    assert isinstance(fault, Fault) and fault.where == where


def test_pipeline_ranks_have_equally_many_layers() -> None:
    uneven = REPLICAS | {"pipeline": 4, "data": 2}
    assert isinstance(run_layout(MODEL | {"layers": 26}, CLUSTER, uneven), Fault)
    assert isinstance(run_layout(MODEL | {"layers": 28}, CLUSTER, uneven), Measured)


def test_measure_tells_the_step_or_why_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    for cluster, layout, said in (
        (CLUSTER, REPLICAS, "1.07 s a step"),
        (CLUSTER, REPLICAS | {"data": 4}, "degrees do not multiply"),
        (CLUSTER | {"memory": 10**9}, REPLICAS, "does not fit the card"),
    ):
        measure(MODEL, cluster, layout)
        assert said in capsys.readouterr().out
    with pytest.raises(InputError, match="between"):
        measure(MODEL, {k: v for k, v in CLUSTER.items() if k != "between"}, REPLICAS)


def test_the_diagnosis_names_the_ratio_and_no_better_layout() -> None:
    def slow(model: dict[str, int], cluster: dict[str, Any]) -> dict[str, Any]:
        return REPLICAS | {"micro_batch": 1, "recompute": "full"}

    fault = next(v.fault for v in assess("plan.5", slow).verdicts if v.fault)
    assert fault and "tensor" not in fault.expected
    finding = examine("plan.5", lambda model, cluster: REPLICAS).finding
    assert finding and "the batch does not divide" in finding.fault.got


def test_what_is_switched_off_comes_back_for_judging_only() -> None:
    check = hidden_check(TASKS["plan.5"])
    layout = Layout(data=8, stage=1)
    with blocked(check.blocked, "plan.5"):
        with pytest.raises(RuntimeError, match=r"plan\.5"):
            run_layout(MODEL, CLUSTER, REPLICAS)
        with lifted():
            found = run_layout(MODEL, CLUSTER, REPLICAS)
        with pytest.raises(RuntimeError, match=r"plan\.5"):
            peak_memory(model_of(MODEL), layout)
    assert isinstance(found, Measured)
    assert found == run_layout(MODEL, CLUSTER, REPLICAS)
