"""The process-groups explorer: what it says is the engine's, and the order is what it changes."""

from itertools import product

import pytest

from shardbook.collectives.groups import process_groups
from shardbook.collectives.layout import layout_loads
from shardbook.collectives.messages import step_messages
from shardbook.collectives.network import Link, two_level
from shardbook.errors import InputError
from shardbook.explorers.registry import get
from shardbook.numbers.units import format_bytes, format_seconds

NETWORK = two_level(Link(0.0, 450e9), Link(0.0, 50e9), 4)


def view(**state: str):
    """Two nodes of four: TP 4 and DP 2 unless told otherwise."""
    return get("process-groups").view({"tp": "4", "degree": "1", **state})


def test_two_nodes_of_four_in_the_right_order():
    """(S61)"""
    rows = {row[0]: row[1:] for row in view().table.rows}
    activations, gradients = 1.5 * 4 * 8192 * 4096 * 2 * 32, 12 * 4096**2 * 2 * 32 / 4
    assert rows == {
        "TP": (
            "2 of 4 ranks",
            "2",
            format_bytes(activations, 3),
            "0 B",
            f"{activations / 450e6:.3g} ms",
        ),
        "DP": (
            "4 of 2 ranks",
            "0",
            "0 B",
            format_bytes(gradients, 3),
            f"{gradients / 50e6:.3g} ms",
        ),
    }
    assert view().sentence.startswith("All groups of TP lie inside a node; ")
    assert view().sentence.endswith("no other order is faster.")


def test_the_wrong_order_sends_activations_between_nodes():
    """(S61)"""
    wrong = view(order="DP other TP")
    activations, gradients = 1.5 * 4 * 8192 * 4096 * 2 * 32, 12 * 4096**2 * 2 * 32 / 4
    total = activations / 50e9 + gradients / 450e9
    assert f"messages take {format_seconds(total, 3)}, most of it TP" in wrong.sentence
    best = activations / 450e9 + gradients / 50e9
    end = f"numbered TP 4, then DP 2 they take {format_seconds(best, 3)}."
    assert wrong.sentence.endswith(end)


@pytest.mark.parametrize(
    ("other", "order"),
    list(product(("PP", "CP", "EP", "FSDP"), ("TP other DP", "DP TP other"))),
)
def test_rows_are_the_loads_of_the_layout(other, order):
    """(S61)"""
    state = {"nodes": "4", "tp": "2", "degree": "2", "other": other, "order": order}
    names = order.replace("other", other).split()
    axes = {name: 4 if name == "DP" else 2 for name in names}
    messages = step_messages(axes, 8192, 4096, 32)
    loads = [load for load in layout_loads(axes, messages, NETWORK) if load.axis in messages]
    rows = view(**state).table.rows
    assert [row[0] for row in rows] == [load.axis.replace("+", " with ") for load in loads]
    for row, load in zip(rows, loads, strict=True):
        assert row[1:3] == (f"{len(load.groups)} of {len(load.groups[0])} ranks", str(load.within))
        assert row[3] == format_bytes(float(load.port_bytes), 3)
        assert row[4] == format_bytes(float(load.card_bytes), 3)
        assert row[5] == format_seconds(load.seconds, 3)


def test_the_figure_names_each_ranks_group():
    """(S61)"""
    figure = view(look="DP").figure
    groups = process_groups({"TP": 4, "DP": 2})["DP"]
    for number, group in enumerate(groups):
        assert figure.count(f">group {number}<") == len(group)


def test_gradients_of_contexts_are_summed_with_them():
    shown = view(other="CP", degree="2", nodes="4", look="DP")
    assert ">Groups of DP with CP; rank 0's is filled<" in shown.figure


def test_an_axis_of_one_rank_sends_nothing():
    assert view(look="other").sentence.startswith("PP has one rank a group and sends nothing;")


@pytest.mark.parametrize(
    ("state", "argument"),
    [
        ({"tp": "8", "nodes": "1"}, "tp"),
        ({"degree": "8"}, "degree"),
        ({"tokens": "9", "other": "CP", "degree": "2"}, "tokens"),
        ({"width": "4098"}, "width"),
    ],
)
def test_what_does_not_divide_is_refused(state, argument):
    with pytest.raises(InputError) as caught:
        view(**state)
    assert caught.value.argument == argument
