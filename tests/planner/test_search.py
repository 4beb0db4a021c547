"""The search against the plain way: every layout made, weighed and timed one by one (S71)."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.planner.layouts import Layout, Limits, layers_of, layouts, micro_batches
from shardbook.planner.memory import peak_memory, too_large
from shardbook.planner.plan import judge, plan
from shardbook.planner.presets import cluster_named, model_named
from shardbook.planner.search import Found, rank, search
from shardbook.planner.simulated import pipeline_nodes, simulated_seconds
from shardbook.planner.steptime import (
    exchange,
    head_seconds,
    layer_time,
    one_pass,
    own_parameters,
    sharded,
    step_time,
    transfer_seconds,
    update_seconds,
    with_offload,
)
from shardbook.schedules.fsdp import Policy, Unit, fsdp_run
from shardbook.schedules.pipeline import StageTimes, make_order, run_order

SMALL = "layers=12,hidden=1024,heads=16,sequence=1024,batch=131072,vocabulary=32000"
RECIPE = "mixed-adam"
CASES = [
    ("llama3-8b", "h100-80,nvme_memory=2TB", Limits(most_micro_batch=2)),
    ("mixtral-8x7b", "a100-40,nodes=2,host_memory=200GB", Limits(most_micro_batch=4)),
    ("llama3-8b,sequence=32768", "h100-80,nodes=4", Limits((1, 3), ("full", "none"))),
    ("llama3-70b", "v100-32,host_memory=500GB", Limits(schedules=("gpipe",))),
    (SMALL, "v100-32,cards=1,memory=2GB,nvme_memory=1TB", Limits(offload=("host", "nvme"))),
]


@pytest.mark.parametrize(("model", "cluster", "limits"), CASES)
def test_the_search_judges_every_layout_as_one_by_one(model, cluster, limits):
    made, machines = model_named(model), cluster_named(cluster)
    plain = Found()
    for layout, reason in layouts(made, machines, limits):
        plain.considered += 1
        size = 0
        if reason is None:
            peak = peak_memory(made, layout, RECIPE)
            size, reason = peak.bytes, too_large(machines, peak, limits.usable)
        values = tuple(getattr(layout, name) for name in Layout.__slots__)
        if reason is None:
            seconds = step_time(made, machines, layout).seconds
            place = rank(seconds, layout.complexity, len(plain.fitting))
            plain.fitting.append((place, values))
        else:
            plain.reject(reason, values, size)
    assert search(made, machines, limits, RECIPE) == plain
    assert plain.fitting or plain.reasons
    best = [layout for layout, _ in zip(plain.best(5), range(5), strict=False)]
    ranked = [each.layout for each in plan(made, machines, limits, best=5).ranked]
    assert Counter(ranked) == Counter(best)


def test_ten_thousand_layouts_are_ranked_and_the_best_are_simulated():
    model, cluster = model_named("mixtral-8x7b"), cluster_named("h100-80,nodes=16")
    answer = plan(model, cluster)
    assert answer.considered > 10**4
    assert len(answer.ranked) == 20
    for each in answer.ranked:
        assert each.seconds == simulated_seconds(model, cluster, each.layout)
        assert each == judge(model, cluster, each.layout)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.sampled_from([("gpipe", 1), ("1f1b", 1), ("interleaved-1f1b", 2), ("interleaved-1f1b", 3)]),
    st.integers(2, 6),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.01, 0.7]),
    st.lists(st.floats(0.1, 4.0), min_size=36, max_size=36),
)
def test_a_pipeline_without_names_takes_as_long_as_the_simulators(
    choice, ranks, rounds, transfer, times
):
    schedule, chunks = choice
    stages, count = ranks * chunks, ranks * rounds
    forward, backward = times[:stages], times[-stages:]
    run = run_order(
        make_order(schedule, ranks, count, chunks), StageTimes(forward, backward, 0.0, transfer)
    )
    nodes = pipeline_nodes(schedule, ranks, count, chunks)
    assert nodes.makespan([transfer, 0.0, *forward, *backward]) == run.makespan


def whole_step(model, cluster, layout):
    """All micro-batches of a step by the schedule simulator, none left out."""
    layer, moved = layer_time(model, cluster, layout), exchange(model, cluster, layout)
    count, own = micro_batches(model, layout), own_parameters(model, layout)
    at = layout.stage, layout.offload, layout.replicas
    head = head_seconds(model, cluster, layout)
    if layout.pipeline > 1:
        layers = layers_of(model, layout)
        forward = [n * layer.forward_seconds for n in layers]
        backward = [n * layer.backward_seconds for n in layers]
        forward[-1] += head
        backward[-1] += 2 * head
        order = make_order(layout.schedule, layout.pipeline, count, layout.chunks)
        transfer = transfer_seconds(model, cluster, layout)
        run = run_order(order, StageTimes(forward, backward, 0.0, transfer))
        waits = sharded(cluster, moved, own, one_pass(model, cluster, layout), *at)
        return run.makespan + sum(waits)
    done = one_pass(model, cluster, layout)
    moved = with_offload(cluster, moved, own, done.checkpoints, *at)
    gather = moved.all_gather / model.layers if layout.stage == 3 else 0.0
    scatter = moved.reduce_scatter / model.layers * (1 if layout.stage else 2)
    unit = Unit(layer.forward_seconds, layer.backward_seconds, gather, scatter)
    policy = Policy(
        backward_prefetch=1, forward_prefetch=1, micro_batches=count, accumulate=layout.stage < 2
    )
    after = 0.0
    if layout.stage in (1, 2):
        own_gather = moved.all_gather / model.layers
        hidden = (model.layers - 1) * layer.forward_seconds
        after = max(own_gather, model.layers * own_gather - hidden)
    step = fsdp_run((unit,) * model.layers, policy).makespan + after + 3 * count * head
    return step + update_seconds(cluster, own, *at)


@pytest.mark.parametrize("text", ["a100-80,nodes=2,between=200MB/s", "h100-80,nvme_memory=2TB"])
def test_a_shortened_simulation_takes_as_long_as_the_whole_step(text):
    model, cluster = model_named(SMALL), cluster_named(text)
    fits = [layout for layout, reason in layouts(model, cluster) if reason is None]
    chosen = [each for each in fits[:: len(fits) // 60] if each.replicas > 1]
    assert {each.offload for each in chosen} >= {"none", "host"}
    for layout in chosen:
        made = simulated_seconds(model, cluster, layout)
        assert made == pytest.approx(whole_step(model, cluster, layout), rel=1e-9), str(layout)
