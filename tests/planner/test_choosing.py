"""The selection tree against the planner's own search and the ledger (S72)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.hybrid import node_egress
from shardbook.ledger.recipes import DEFAULT_RECIPE
from shardbook.ledger.stages import bytes_per_rank
from shardbook.planner.choosing import (
    QUESTIONS,
    cards_for_states,
    choose,
    effort,
    grid,
)
from shardbook.planner.layouts import Layout, Limits
from shardbook.planner.plan import Candidate, judge
from shardbook.planner.presets import cluster_named, model_named
from shardbook.planner.search import search
from shardbook.planner.steptime import step_time
from shardbook.planner.waiting import hybrid_seconds, remedies


def every_layout_that_fits(model, cluster):
    found = search(model, cluster, Limits(), DEFAULT_RECIPE)
    return [Layout(*choices) for _, choices in found.fitting]


@settings(derandomize=True, deadline=None, max_examples=80)
@given(
    st.sampled_from([4, 6, 16, 40]),
    st.sampled_from([(512, 8), (2048, 16), (8192, 64)]),
    st.sampled_from([512, 4096, 32768]),
    st.sampled_from([1, 4]),
    st.sampled_from([1, 2, 4, 16]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([4, 16, 80]),
    st.sampled_from([1, 8]),
    st.sampled_from([0, 1000]),
)
def test_what_the_tree_chooses_fits_and_nothing_of_less_effort_does(
    layers, shape, sequence, experts, nodes, cards, memory, host, nvme
):
    hidden, heads = shape
    model = model_named(
        f"layers={layers},hidden={hidden},heads={heads},sequence={sequence},experts={experts},"
        f"batch={sequence * 16},vocabulary=32000"
    )
    cluster = cluster_named(
        f"a100-80,nodes={nodes},cards={cards},memory={memory}GB,host_memory={host * memory}GB,"
        f"nvme_memory={nvme}GB"
    )
    choice = choose(model, cluster)
    fitting = every_layout_that_fits(model, cluster)
    if choice.layout is None:
        assert not fitting
        return
    assert isinstance(judge(model, cluster, choice.layout), Candidate)
    assert choice.steps[-1].peak.bytes <= choice.budget
    assert not [str(each) for each in fitting if effort(each) < effort(choice.layout)]


def test_effort_agrees_with_the_planners_complexity():
    """Between layouts with the same kinds of splitting, less complexity is less effort."""
    model, cluster = model_named("llama3-8b,sequence=2048"), cluster_named("h100-80,nodes=2")
    by_kinds = {}
    for layout in every_layout_that_fits(model, cluster):
        if layout.chunks == 1:
            by_kinds.setdefault((effort(layout)[:4], layout.expert > 1), []).append(layout)
    assert len(by_kinds) > 4
    for alike in by_kinds.values():
        ordered = [each.complexity for each in sorted(alike, key=effort)]
        assert ordered == sorted(ordered)


@pytest.mark.parametrize(
    ("layers", "memory", "stage", "limit"),
    [
        (4, 24, 0, "nothing"),
        (12, 24, 1, "optimizer states"),
        (20, 24, 2, "optimizer states and gradients"),
        (30, 24, 3, "optimizer states, gradients and weights"),
    ],
)
def test_states_are_cut_no_further_than_needed(layers, memory, stage, limit):
    """C's figure: it fits, the optimizer is the limit, the parameters do not fit."""
    model = model_named(f"layers={layers},hidden=4096,heads=32,sequence=512,batch=524288")
    choice = choose(model, cluster_named(f"a100-80,cards=8,memory={memory}GB,inside=600GB/s"))
    assert (choice.layout.stage, choice.layout.data) == (stage, 8)
    assert choice.layout.recompute == "none"
    assert choice.limit == limit


def test_activations_are_computed_again_where_they_are_the_limit():
    model = model_named("layers=8,hidden=1024,heads=16,sequence=32768,batch=1048576")
    choice = choose(model, cluster_named("a100-80,nodes=1,memory=24GB"))
    assert choice.limit == "activations"
    assert (choice.layout.stage, choice.layout.recompute) == (0, "selective")


def test_one_layer_too_large_is_cut_not_dealt_out():
    """(M25): a pipeline never shrinks a layer."""
    model = model_named("layers=8,hidden=16384,heads=128,sequence=2048,batch=131072")
    choice = choose(model, cluster_named("a100-80,nodes=8,memory=16GB"))
    assert [step.question for step in choice.steps] == ["replica", "states", "layer"]
    assert choice.layout.tensor > 1 == choice.layout.pipeline
    assert choice.limit == "gathered layers"


def test_the_host_is_asked_last():
    """70B on eight cards: all states are 16 · 70.6 ÷ 8 GB a card, more than it has."""
    model, cluster = model_named("llama3-70b"), cluster_named("h100-80")
    choice = choose(model, cluster)
    assert [step.question for step in choice.steps] == list(QUESTIONS)
    assert choice.layout.offload == "host"
    poor = choose(model, cluster_named("h100-80,host_memory=500GB"))
    assert poor.layout is None and poor.time is None and poor.waiting == 0
    assert poor.limit.startswith("memory")
    # 16 B a parameter over 0.92 · 80 GiB
    assert cards_for_states(model, cluster) == -(-16 * model.parameters // int(0.92 * 80 * 2**30))


def test_drives_are_asked_after_the_hosts_memory():
    """M15's case: 70B on four cards, 512 GB of host memory, 2 TB of NVMe a node."""
    model, text = model_named("llama3-70b"), "h100-80,cards=4,host_memory=512GB"
    assert choose(model, cluster_named(text)).layout is None
    choice = choose(model, cluster_named(text + ",nvme_memory=2TB"))
    assert choice.layout.offload == "nvme" and choice.layout.stage == 3
    assert choice.steps[-1].question == "host"


def test_fewer_sequences_than_cards_is_a_limit_of_its_own():
    choice = choose(model_named("llama3-405b"), cluster_named("h100-80,nodes=2048"))
    assert choice.limit == "the batch"
    assert choice.steps[0].peak is None
    assert choice.layout.tensor == 8


def test_the_grid_is_the_ledgers():
    model, cluster = model_named("megatron-7.5b"), cluster_named("a100-80,nodes=8")
    cells = grid(model, cluster)
    assert len(cells) == 12
    for (stage, _), peak in cells.items():
        sizes = dict(peak.pieces)
        names = ("weights", "gradients", "master_weights", "momentum", "variance")
        held = bytes_per_rank(model.parameters, 64, stage).fullest_rank_bytes
        assert sum(sizes[name] for name in names) == pytest.approx(held, rel=1e-6)


def test_a_slow_network_is_the_limit_and_experts_apart_lift_it():
    choice = choose(model_named("mixtral-8x7b"), cluster_named("h100-80,nodes=8"))
    assert choice.network_is_limit and choice.waiting > 0.5
    assert choice.limit == "optimizer states, gradients, weights and activations"
    assert "experts" in choice.remedies[0].name
    assert choice.remedies[0].seconds < choice.time.seconds / 2
    assert [r.seconds for r in choice.remedies] == sorted(r.seconds for r in choice.remedies)
    for each in choice.remedies:
        assert isinstance(judge(choice.model, choice.cluster, each.layout), Candidate)


def test_a_replica_that_fits_may_still_wait():
    model = model_named("megatron-1.7b")
    assert choose(model, cluster_named("a100-80,nodes=4")).limit == "nothing"
    slow = choose(model, cluster_named("a100-80,nodes=4,between=100MB/s"))
    assert slow.limit == "the network" and slow.remedies[0].seconds < slow.time.seconds


def test_hybrid_sharding_sends_what_the_collectives_count():
    """On very slow wires between nodes a step is what leaves a node, over its cards."""
    model = model_named("layers=8,hidden=2048,heads=16,sequence=512,batch=32768,vocabulary=1")
    text = "a100-80,nodes=4,cards=4,between=1MB/s,between_latency=0,inside=1e18,inside_latency=0"
    cluster, layout = cluster_named(text), Layout(data=16, stage=3)
    seconds = hybrid_seconds(model, cluster, layout)
    egress = float(node_egress(2 * model.parameters, 16, 4, 4).replicas)
    assert seconds == pytest.approx(egress / 4 / 1e6, rel=0.01)
    assert step_time(model, cluster, layout).seconds > 5 * seconds
    names = [each.name for each in remedies(model, cluster, layout)]
    assert "hybrid" in " ".join(names)


def test_hybrid_sharding_needs_nodes_and_room():
    model, layout = model_named("megatron-7.5b"), Layout(data=64, stage=3, recompute="full")
    assert hybrid_seconds(model, cluster_named("a100-80,nodes=8"), layout) is not None
    assert hybrid_seconds(model, cluster_named("a100-80,nodes=8,memory=14GB"), layout) is None
    assert hybrid_seconds(model, cluster_named("a100-80,nodes=1"), Layout(data=8, stage=3)) is None
