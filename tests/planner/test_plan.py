"""The planner against public calculators, the ledger and the simulator (S71, S72, S74)."""

import json
import math

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.cli import main
from shardbook.commands.plan import command
from shardbook.ledger.activations import Shape
from shardbook.ledger.moments import moments
from shardbook.ledger.stages import bytes_per_rank
from shardbook.planner.launch import launch_settings
from shardbook.planner.layouts import Layout, Limits, layers_of, layouts, micro_batches, refused
from shardbook.planner.memory import in_flight, peak_memory
from shardbook.planner.plan import Candidate, judge, plan
from shardbook.planner.presets import cluster_named, model_named
from shardbook.planner.search import TIE
from shardbook.planner.steptime import gather_seconds, step_time, update_seconds
from shardbook.schedules.pipeline import make_order, run_order

SMALL = model_named("layers=12,hidden=1024,heads=16,sequence=1024,batch=131072,vocabulary=32000")


@pytest.mark.parametrize(
    ("recipe", "stage", "gigabytes"),
    [("mixed-adam", 0, 128.5), ("mixed-adam", 1, 44.2), ("mixed-adam", 2, 30.1),
     ("mixed-adam", 3, 16.1), ("mixed-adam-fp32-gradients", 0, 144.5),
     ("mixed-adam-fp32-gradients", 1, 60.2), ("mixed-adam-resident-fp32-gradients", 2, 34.1)],
)  # fmt: skip
def test_public_calculators_for_8b_on_8_ranks(recipe, stage, gigabytes):
    """Each in its own convention, reproduced by choosing the recipe."""
    held = bytes_per_rank(8_030_000_000, 8, stage, recipe).fullest_rank_bytes / 1e9
    assert held == pytest.approx(gigabytes, abs=0.06)
    # The planner's states are the ledger's, without norms.
    layout = Layout(data=8, stage=stage)
    pieces = dict(peak_memory(model_named("llama3-8b"), layout, recipe).pieces)
    states = ("weights", "gradients", "master_weights", "momentum", "variance")
    assert sum(pieces[name] for name in states) / 1e9 == pytest.approx(held, rel=1e-3)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(2, 64), st.sampled_from(["none", "selective", "full"]), st.integers(1, 4))
def test_the_peak_bounds_the_ledgers_four_moments(ranks, recompute, micro_batch):
    model = model_named("layers=6,hidden=512,heads=8,sequence=256,batch=256,vocabulary=1")
    layout = Layout(data=ranks, stage=3, recompute=recompute, micro_batch=micro_batch)
    shape = Shape(micro_batch, 256, 512, 6, 8)
    held = moments([model.layer_parameters] * 6, ranks, shape, recompute=recompute)
    peak = peak_memory(model, layout).bytes
    converted = 4 * model.layer_parameters / ranks
    # The ledger's recomputed attention keeps its matrix, the planner's is fused.
    matrix = 0 if recompute == "none" else 5 * 8 * 256**2 * micro_batch
    most = max(moment.bytes for moment in held) - matrix
    assert peak + converted >= most
    assert peak <= most + 2 * model.parameters / ranks + 2 * model.layer_parameters + 50_000


#: tensors that a layer keeps for a token, in widths: all of 2 B; a mask counts half
_ATTENTION = 1 + 1 + 1  # input, queries, heads' output
_NORMS = 2


@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("gpt3-175b", _ATTENTION + 2 + 0.5 + _NORMS + 1 + 4 + 4 + 0.5),
        # keys and values of 8 heads; gate, value and product of 14,336, 28,672 and 53,248
        ("llama3-8b", _ATTENTION + 2 * 8 / 32 + _NORMS + 1 + 3 * 14336 / 4096),
        ("llama3-70b", _ATTENTION + 2 * 8 / 64 + _NORMS + 1 + 3 * 28672 / 8192),
        ("llama3-405b", _ATTENTION + 2 * 8 / 128 + _NORMS + 1 + 3 * 53248 / 16384),
        ("mixtral-8x7b", _ATTENTION + 2 * 8 / 32 + _NORMS + 2 * (1 + 3 * 14336 / 4096)),
    ],
)
def test_a_layer_keeps_the_tensors_of_its_own_shape(name, tensors):
    """Korthikanti et al., MLSys 2023, §4.1, counted tensor by tensor (S71)."""
    model = model_named(name)
    layout = Layout(data=model.batch // model.sequence, recompute="selective")
    kept = dict(peak_memory(model, layout).pieces)["activations"]
    assert kept == 2 * tensors * model.sequence * model.hidden * model.layers


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.integers(2, 8), st.integers(1, 4), st.sampled_from([("1f1b", 1), ("gpipe", 1),
       ("interleaved-1f1b", 2), ("interleaved-1f1b", 3)]))  # fmt: skip
def test_micro_batches_in_flight_are_the_simulators(ranks, rounds, choice):
    schedule, chunks = choice
    layout = Layout(pipeline=ranks, schedule=schedule, chunks=chunks)
    run = run_order(make_order(schedule, ranks, ranks * rounds, chunks))
    assert in_flight(layout, ranks * rounds) == run.peak_live[0] == max(run.peak_live)


@pytest.mark.parametrize(
    "text",
    ["a100-80,nodes=2", "h100-80,nodes=4", "v100-32", "a100-80,nodes=2,between=1GB/s",
     "a100-80,nodes=2,inside=2GB/s,between=2GB/s"],
)  # fmt: skip
def test_closed_form_and_simulator_hold_together(text):
    cluster = cluster_named(text)
    fits = [layout for layout, reason in layouts(SMALL, cluster) if reason is None]
    assert len(fits) > 50
    for layout in fits[:: len(fits) // 50]:
        made = judge(SMALL, cluster, layout, Limits(usable=1))
        if isinstance(made, Candidate):
            assert made.seconds == pytest.approx(made.time.seconds, rel=0.1), str(layout)


def test_a_pipeline_without_transfers_is_the_textbooks():
    """Makespan (m + p − 1)(f + b), over the chunks when interleaved: SC 2021, §2.2."""
    model = model_named("layers=8,hidden=512,heads=8,sequence=128,batch=4096,vocabulary=1")
    cluster = cluster_named("a100-80,cards=4,inside_latency=0,inside=1e18,fraction=0.5")
    for schedule, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved-1f1b", 2)):
        layout = Layout(pipeline=4, schedule=schedule, chunks=chunks)
        made = judge(model, cluster, layout)
        assert isinstance(made, Candidate)
        one = 3 * 128 * 2 * model.layer_flops / (312e12 / 2)
        expected = (32 + 3 / chunks) * one
        assert made.seconds == pytest.approx(expected, rel=1e-3)
        assert made.time.seconds == pytest.approx(expected, rel=1e-3)


def test_collectives_are_rings_on_the_right_link():
    cluster = cluster_named("a100-80,nodes=2,inside=1e9,between=1e8")
    assert gather_seconds(cluster, 8e8, 8, 8) == pytest.approx(7 * (2e-6 + 1e8 / 1e9))
    assert gather_seconds(cluster, 8e8, 2, 16) == pytest.approx(5e-6 + 4e8 / 1e8)
    assert gather_seconds(cluster, 8e8, 1, 1) == 0
    tight = step_time(SMALL, cluster, Layout(tensor=8, data=2))
    assert tight.tensor == pytest.approx(
        # 8 collectives a layer and micro-batch: two all-reduces forward, two backward
        64 * 12 * 8 * gather_seconds(cluster, 2 * 1024 * 1024, 8, 8)
    )


def test_stage_3_waits_for_its_first_gather_and_its_last_scatter():
    """Nothing is computed beside them, however well the rest hides (FSDP, VLDB 2023, §3.3)."""
    cluster = cluster_named("a100-80")
    model = model_named("layers=4,hidden=8192,heads=64,sequence=4096,batch=262144,vocabulary=1")
    time = step_time(model, cluster, Layout(data=8, stage=3))
    one = gather_seconds(cluster, 2 * model.parameters / 4, 8, 8)
    assert time.data == pytest.approx(2 * one)  # of eight micro-batches: the others follow at once
    assert time.compute > 10 * time.data


@pytest.mark.parametrize(("stage", "copies"), [(1, 2), (2, 1), (3, 0)])
def test_the_cards_of_a_node_share_its_cpus(stage, copies):
    """10B in 2.57 s as reported, and what the step has not moved yet (S46)."""
    cluster = cluster_named("a100-80,host_bandwidth=10GB/s")
    took = update_seconds(cluster, 10e9 / 8, stage, "host", 8)
    assert took == pytest.approx(2.57 + copies * 2 * 10e9 / 8 / 10e9)


def test_experts_wait_for_four_all_to_alls():
    """Two forward, two backward; to each of the others a rank sends an equal part (S58)."""
    model = model_named(
        "layers=2,hidden=1024,heads=16,sequence=1024,batch=8192,experts=8,active=2,vocabulary=1"
    )
    cluster = cluster_named("a100-80,inside=1GB/s,inside_latency=1us")
    time = step_time(model, cluster, Layout(expert=4, data=8))
    rows = 2 * 1024 * 1024 * 2  # B: two choices a token
    assert time.expert == pytest.approx(2 * 4 * 3 * (1e-6 + rows / 4 / 1e9))


@pytest.mark.parametrize("bandwidth", ["1MB/s", "1TB/s"])
def test_context_waits_for_what_attention_does_not_hide(bandwidth):
    """Keys and values go round while the other blocks are computed; backward as in two rings (S63)."""
    model = model_named(
        "layers=3,hidden=1024,heads=16,kv_heads=4,sequence=16384,batch=16384,vocabulary=1"
    )
    cluster = cluster_named(f"a100-80,cards=4,inside={bandwidth},inside_latency=0,fraction=0.5")
    keys = 2 * 2 * (16384 // 4) * 1024 // 4
    attention = 4 * 16384 * 16384 * 1024 / 4 / (312e12 / 2)
    rate = {"1MB/s": 1e6, "1TB/s": 1e12}[bandwidth]
    exposed = max(0, 3 * keys / rate - attention * 3 / 4)
    assert (exposed > 0) is (bandwidth == "1MB/s")
    time = step_time(model, cluster, Layout(context=4))
    assert time.context == pytest.approx(3 * 3 * exposed)


def test_a_further_kind_of_splitting_is_less_simple_than_any_stage():
    """Kinds first, then stage and recomputation (S72)."""
    most = Layout(data=16, stage=3).complexity
    for split in ({"tensor": 2}, {"context": 2}, {"pipeline": 2}):
        assert Layout(data=8, **split).complexity > most
    assert Layout(data=16, expert=2).complexity > most
    assert Layout(tensor=2, pipeline=2, data=4).complexity > Layout(tensor=2, data=8).complexity


def test_the_selection_tree_comes_out():
    """(S72) Fits: DDP. Optimizer is the limit: ZeRO-1. Weights do not fit: stage 3."""
    limits = Limits(offload=("none",), recompute=("full",), most_micro_batch=1)

    def first(layers, memory):
        model = model_named(f"layers={layers},hidden=4096,heads=32,batch=1048576,vocabulary=1")
        text = f"a100-80,cards=8,memory={memory}GB,inside=600GB/s"
        return plan(model, cluster_named(text), limits, best=5).ranked[0].layout

    for layers, stage in ((4, 0), (12, 1), (48, 3)):
        layout = first(layers, 24)
        assert (layout.data, layout.stage) == (8, stage), str(layout)


def test_a_token_costs_what_all_cards_cost_while_it_is_trained():
    cluster = cluster_named("a100-80,nodes=2,price=3")
    answer = plan(SMALL, cluster, best=1)
    (best,) = answer.ranked
    tokens_an_hour = SMALL.batch / best.seconds * 3600
    dollars = answer.dollars_per_million_tokens(best)
    assert dollars == pytest.approx(16 * 3 / tokens_an_hour * 1e6)
    # 6 FLOP a parameter and token, and attention's own 12 · s · h a layer
    flop = 6 * SMALL.parameters + 12 * SMALL.layers * SMALL.sequence * SMALL.hidden
    assert answer.model_flops(best) == pytest.approx(flop * SMALL.batch / best.seconds / 16)


def test_ties_go_to_the_simplest():
    answer = plan(SMALL, cluster_named("h100-80"))
    best = min(each.seconds for each in answer.ranked)
    assert answer.ranked[0].seconds <= best * (1 + TIE) ** 2
    assert answer.ranked[0].layout.complexity == min(
        each.layout.complexity for each in answer.ranked if each.seconds <= answer.ranked[0].seconds
    )


def test_every_answer_can_be_set_up_and_counts_add_up():
    model, cluster = model_named("mixtral-8x7b,batch=524288"), cluster_named("h100-80,nodes=4")
    answer = plan(model, cluster, Limits(most_micro_batch=2), best=30)
    assert answer.considered == answer.fitting + sum(each.count for each in answer.rejected)
    for each in answer.ranked:
        layout = each.layout
        assert refused(model, cluster, layout) is None
        assert layout.cards == 32 and sum(layers_of(model, layout)) == 32
        assert layout.data * layout.micro_batch * micro_batches(model, layout) == 128
        assert each.peak.bytes <= 0.92 * 80 * 2**30
        assert math.isclose(
            sum(getattr(each.time, n) for n in each.time.__slots__), each.time.seconds
        )


def test_reasons_name_what_is_too_large():
    answer = plan(model_named("llama3-70b"), cluster_named("v100-32,host_memory=500GB"))
    assert answer.ranked == ()
    reasons = [each.reason for each in answer.rejected]
    assert any("does not fit the card" in reason for reason in reasons)
    assert "offloaded states do not fit the host" in reasons
    assert all(each.nearest_bytes > 0.92 * 32 * 2**30 for each in answer.rejected
               if "the card" in each.reason)  # fmt: skip


def test_launch_settings_of_the_four_tools():
    """(S74)"""
    cluster = cluster_named("h100-80,nodes=2")
    plain = launch_settings(SMALL, cluster, Layout(data=16, micro_batch=4))
    assert plain["DDP"].startswith("torchrun --nnodes 2 --nproc-per-node 8")
    assert plain["FSDP2"].startswith("not possible")
    assert json.loads(plain["DeepSpeed"])["gradient_accumulation_steps"] == 2
    deep = launch_settings(SMALL, cluster, Layout(tensor=4, pipeline=2, data=2, stage=1))
    assert deep["DDP"].startswith("not possible")
    for flag in ("--tensor-model-parallel-size 4", "--pipeline-model-parallel-size 2",
                 "--global-batch-size 128", "--use-distributed-optimizer"):  # fmt: skip
        assert flag in deep["Megatron-LM"]
    full = launch_settings(SMALL, cluster, Layout(data=16, stage=3))
    assert "reshard_after_forward=True" in full["FSDP2"]
    assert "--data-parallel-sharding-strategy optim_grads_params" in full["Megatron-LM"]
    second = launch_settings(SMALL, cluster, Layout(tensor=2, data=8, stage=2))["Megatron-LM"]
    for flag in ("--use-megatron-fsdp", "--data-parallel-sharding-strategy optim_grads ",
                 "--use-distributed-optimizer", "--tensor-model-parallel-size 2"):  # fmt: skip
        assert flag in second
    piped = launch_settings(SMALL, cluster, Layout(pipeline=2, data=8, stage=3))
    assert piped["Megatron-LM"].startswith("not possible")


def test_the_command_prints_rows_reasons_and_settings():
    arguments = ["llama3-8b,batch=262144", "h100-80,nodes=1", "--most-micro-batch", "2"]
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["ranked"][0]["data"] * answer["ranked"][0]["micro_batches"] > 0
    assert answer["ranked"][0]["launch"].keys() == {"DDP", "FSDP2", "DeepSpeed", "Megatron-LM"}
    table = CliRunner().invoke(command, arguments)
    assert "why the others fail" in table.output and "launch settings" in table.output
    assert answer["sources"]["model"].startswith("Llama Team")
    assert all(f"{name}: {source}" in table.output for name, source in answer["sources"].items())


@pytest.mark.parametrize(
    "arguments",
    [["gpt5", "h100-80"], ["llama3-8b", "h200"], ["llama3-8b", "h100-80", "--stages", "4"],
     ["llama3-8b", "h100-80", "--recompute", "some"], ["llama3-8b", "h100-80", "--recipe", "x"],
     ["llama3-8b", "h100-80", "--best", "0"], ["llama3-8b", "h100-80", "--offload", "tape"],
     ["llama3-8b", "h100-80", "--offload", "nvme"], ["llama3-8b", "h100-80,nvme_memory=much"]],
)  # fmt: skip
def test_bad_input_to_plan_is_one_line_and_exit_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["plan", *arguments])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_launch_settings_of_offloaded_states():
    """Each tool moves what it moves, or says that it can't (S74)."""
    cluster = cluster_named("h100-80,nodes=2,nvme_memory=2TB")

    def settings(**choices):
        return launch_settings(SMALL, cluster, Layout(**choices))

    def zero(**choices):
        return json.loads(settings(**choices)["DeepSpeed"])["zero_optimization"]

    cpu = {"device": "cpu", "pin_memory": True}
    first = settings(data=16, stage=1, offload="host")
    assert "--optimizer-cpu-offload" in first["Megatron-LM"]
    assert first["DDP"].startswith("not possible") and first["FSDP2"].startswith("not possible")
    assert zero(data=16, stage=2, offload="host") == {"stage": 2, "offload_optimizer": cpu}
    assert settings(data=16, stage=2, offload="host")["Megatron-LM"].startswith("not possible")
    both = {"offload_optimizer": cpu, "offload_param": cpu}
    assert zero(data=16, stage=3, offload="host") == {"stage": 3, **both}
    third = settings(data=16, stage=3, offload="host")
    assert "CPUOffloadPolicy()" in third["FSDP2"]
    drives = zero(data=16, stage=3, offload="nvme")
    assert drives["offload_param"]["device"] == drives["offload_optimizer"]["device"] == "nvme"
    nvme = settings(data=16, stage=3, offload="nvme", recompute="full")
    assert json.loads(nvme["DeepSpeed"])["activation_checkpointing"] == {"cpu_checkpointing": True}
    assert all(nvme[tool].startswith("not possible") for tool in ("DDP", "FSDP2", "Megatron-LM"))
    # On one card DeepSpeed's stage 2 is what moves the gradients.
    one = launch_settings(SMALL, cluster_named("v100-32,cards=1"), Layout(offload="host"))
    assert json.loads(one["DeepSpeed"])["zero_optimization"]["stage"] == 2
    assert one["Megatron-LM"].startswith("not possible")


def test_the_command_plans_with_nvme():
    arguments = ["llama3-70b", "h100-80,cards=4,host_memory=512GB,nvme_memory=2TB"]
    result = CliRunner().invoke(command, [*arguments, "--most-micro-batch", "1", "--json"])
    answer = json.loads(result.output)
    best = answer["ranked"][0]
    assert best["offload"] == "nvme" and best["nvme_bytes"] > 0
    result = CliRunner().invoke(command, [*arguments, "--offload", "none,host", "--json"])
    answer = json.loads(result.output)
    assert answer["ranked"] == []
    assert "offloaded states do not fit the host" in [each["reason"] for each in answer["rejected"]]
