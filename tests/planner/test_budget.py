"""Strategies on the same cards: tokens for the money, and what does not run (S67)."""

from dataclasses import replace

import pytest

from shardbook.errors import InputError
from shardbook.planner.budget import Strategy, budget
from shardbook.planner.layouts import Layout
from shardbook.planner.memory import peak_memory
from shardbook.planner.presets import cluster_named, model_named
from shardbook.planner.steptime import step_time

MODEL = model_named("layers=4,hidden=256,heads=4,sequence=128,batch=2048,vocabulary=1000")
CLUSTER = cluster_named("a100-80,price=2,nodes=2")
FSDP, TP = Strategy("FSDP", 3, 1), Strategy("TP", 1, 0)


def test_a_token_costs_card_hours_over_tokens():
    found = budget(MODEL, CLUSTER, FSDP)
    assert found.run is not None
    assert found.tokens_per_second * found.run.seconds == pytest.approx(MODEL.batch)
    hours = CLUSTER.size * found.run.seconds / 3600
    assert found.dollars_per_million_tokens == pytest.approx(hours * 2 / MODEL.batch * 1e6)
    assert found.peak == peak_memory(MODEL, Layout(data=16, stage=3))


def test_four_times_the_cards_are_faster_and_a_token_is_no_cheaper():
    model = model_named("llama3-8b,batch=1048576")
    one, two = (
        budget(model, cluster_named(f"h100-80,price=2,nodes={n}"), FSDP, recompute="full")
        for n in (2, 8)
    )
    assert one.tokens_per_second < two.tokens_per_second < 4 * one.tokens_per_second
    assert one.dollars_per_million_tokens < two.dollars_per_million_tokens


def test_tensor_degree_zero_is_a_node():
    assert budget(MODEL, replace(CLUSTER, cards=4), TP).layout == Layout(tensor=4, data=2, stage=1)


@pytest.mark.parametrize("pace", [1, 1.5, 3])
def test_all_wait_for_the_slowest_card(pace):
    found = budget(MODEL, CLUSTER, FSDP, pace=pace)
    usual = step_time(MODEL, CLUSTER, found.layout).compute
    slowest = step_time(MODEL, replace(CLUSTER, fraction=CLUSTER.fraction / pace), found.layout)
    assert found.run.time == slowest
    assert usual <= slowest.compute <= pace * usual * (1 + 1e-12)


def test_what_does_not_run_has_a_reason_and_no_price():
    large = budget(model_named("llama3-70b"), CLUSTER, Strategy("DP", 0, 1))
    assert (
        large.peak is not None and large.run is None and "activations are the most" in large.reason
    )
    odd = budget(MODEL, replace(CLUSTER, cards=3), TP)
    assert odd.peak is None and odd.reason
    for found in (large, odd):
        assert (found.tokens_per_second, found.dollars_per_million_tokens) == (0, None)


@pytest.mark.parametrize("pace", [0.5, float("nan"), "slow"])
def test_a_card_faster_than_planned_is_refused(pace):
    with pytest.raises(InputError, match="pace"):
        budget(MODEL, CLUSTER, FSDP, pace=pace)
