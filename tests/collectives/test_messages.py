"""Sizes of a step's messages, against the planner's traffic and against sums written out here."""

import pytest

from shardbook.collectives.layout import layout_loads
from shardbook.collectives.messages import step_messages
from shardbook.collectives.network import flat
from shardbook.errors import InputError
from shardbook.planner.layouts import Layout
from shardbook.planner.presets import model_named
from shardbook.planner.traffic import sent_bytes

TOKENS, WIDTH, LAYERS = 8192, 4096, 32


def test_two_nodes_of_four():
    """A layer all-reduces t·h four times; its 12h² gradients are cut by four (S61)."""
    messages = step_messages({"TP": 4, "DP": 2}, TOKENS, WIDTH, LAYERS)
    activation = TOKENS * WIDTH * 2
    assert messages == {"TP": 4 * activation * LAYERS, "DP": 12 * WIDTH**2 * 2 * LAYERS // 4}


@pytest.mark.parametrize(
    ("axes", "kinds"),
    [
        ({"TP": 4, "DP": 2}, {"tensor": "TP", "data": "DP"}),
        ({"PP": 4, "TP": 2}, {"tensor": "TP", "pipeline": "PP"}),
        ({"PP": 4, "DP": 2, "TP": 2}, {"tensor": "TP", "pipeline": "PP", "data": "DP"}),
        ({"TP": 2, "CP": 2, "DP": 2}, {"tensor": "TP", "context": "CP", "data": "DP+CP"}),
        ({"TP": 2, "CP": 4}, {"tensor": "TP", "context": "CP", "data": "DP+CP"}),
        ({"FSDP": 8}, {"data": "FSDP"}),
        ({"FSDP": 4, "CP": 2, "TP": 2}, {"tensor": "TP", "context": "CP", "data": "FSDP+CP"}),
    ],
)
def test_against_the_planners_traffic(axes, kinds):
    """Another way to count the same step: a middle rank of a one-batch step (S61)."""
    degree = {name: axes.get(name, 1) for name in ("TP", "CP", "PP", "DP", "FSDP")}
    replicas = degree["DP"] * degree["FSDP"]
    batch = replicas * TOKENS
    model = model_named(
        f"layers={LAYERS},hidden={WIDTH},heads=32,vocabulary=1,sequence={TOKENS},batch={batch}"
    )
    layout = Layout(
        tensor=degree["TP"], context=degree["CP"], pipeline=degree["PP"], data=replicas,
        stage=3 if degree["FSDP"] > 1 else 0,
    )  # fmt: skip
    planned = sent_bytes(model, layout)
    messages = step_messages(axes, TOKENS, WIDTH, LAYERS)
    loads = {load.axis: load for load in layout_loads(axes, messages, flat(0.0, 1.0))}
    for kind, axis in kinds.items():
        assert float(loads[axis].port_bytes) == pytest.approx(planned[kind], rel=1e-4)
    assert [name for name, size in planned.items() if size and name not in kinds] == []


def test_recomputing_moves_keys_and_values_once_more():
    """Forward, again, backward: N - 1 moves each, and N of the gradients (S63)."""
    model = model_named(
        f"layers={LAYERS},hidden={WIDTH},heads=32,kv_heads=8,vocabulary=1,"
        f"sequence={TOKENS},batch={TOKENS}"
    )
    pairs = LAYERS * 2 * 2 * (TOKENS // 4) * (WIDTH // 4)
    for recompute, moves in (("selective", 10), ("full", 13)):
        sent = sent_bytes(model, Layout(context=4, recompute=recompute))
        assert sent["context"] == moves * pairs


def test_experts_against_the_planners_traffic():
    """One expert a rank and layer, two chosen; their gradients are summed among copies only (S61)."""
    model = model_named(
        f"layers={LAYERS},hidden={WIDTH},heads=32,vocabulary=1,experts=4,active=2,"
        f"sequence={TOKENS},batch={8 * TOKENS}"
    )
    planned = sent_bytes(model, Layout(expert=4, data=8))
    axes = {"EP": 4, "DP": 2}
    messages = step_messages(axes, TOKENS, WIDTH, LAYERS)
    loads = {load.axis: load for load in layout_loads(axes, messages, flat(0.0, 1.0))}
    assert float(loads["EP"].port_bytes) == pytest.approx(planned["expert"], rel=1e-9)
    gradients = float(loads["DP"].port_bytes + loads["DP+EP"].port_bytes)
    assert gradients == pytest.approx(planned["data"], rel=1e-4)


def test_hybrid_sharding_sums_a_shard_among_its_copies():
    """All weights among F ranks, an F-th of the gradients among the copies (S34, S61)."""
    messages = step_messages({"FSDP": 8, "DP": 8}, TOKENS, WIDTH, LAYERS)
    weights = 12 * WIDTH**2 * 2 * LAYERS
    assert messages == {"FSDP": weights, "DP": weights // 8}


def test_contexts_share_the_gradient_and_shard_it_too():
    messages = step_messages({"CP": 2, "FSDP": 4, "DP": 2, "EP": 1}, TOKENS, WIDTH, LAYERS)
    weights = 12 * WIDTH**2 * 2 * LAYERS
    assert messages["FSDP+CP"] == weights
    assert messages["DP"] == weights // 8
    # 3N - 2 moves of a rank's keys and values, N = 2
    assert messages["CP"] == LAYERS * 4 * 2 * (TOKENS // 2) * WIDTH * 2


def test_one_rank_sends_nothing():
    assert step_messages({"TP": 1, "DP": 1}, TOKENS, WIDTH, LAYERS) == {}


@pytest.mark.parametrize(
    ("axes", "numbers", "argument"),
    [
        ({"XP": 2}, (8, 8, 8), "axes"),
        ({"TP": 0}, (8, 8, 8), "TP"),
        ({"CP": 3}, (8, 8, 8), "tokens"),
        ({"TP": 3}, (8, 8, 8), "width"),
        ({"PP": 3}, (8, 8, 8), "layers"),
        ({"TP": 2}, (8, 0, 8), "width"),
    ],
)
def test_bad_input_is_refused(axes, numbers, argument):
    with pytest.raises(InputError) as caught:
        step_messages(axes, *numbers)
    assert caught.value.argument == argument
