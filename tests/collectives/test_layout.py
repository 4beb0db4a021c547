"""Loads of a layout's links, against plans that are measured transfer by transfer."""

from fractions import Fraction
from itertools import permutations

import pytest

from shardbook.collectives.exchange import direct
from shardbook.collectives.groups import axis_traffic, process_groups
from shardbook.collectives.layout import AXES, coordinates, joined_groups, layout_loads
from shardbook.collectives.measure import measure
from shardbook.collectives.network import Link, flat, two_level
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from shardbook.errors import InputError

FAST, SLOW = Link(0.0, 400.0), Link(0.0, 50.0)


@pytest.mark.parametrize("order", list(permutations(["TP", "DP", "PP"])))
def test_all_reduces_against_measured_rings(order):
    """(S61)"""
    degrees = {"TP": 4, "DP": 2, "PP": 2}
    axes = {name: degrees[name] for name in order}
    sizes = {"TP": 800, "DP": 80}
    expected = {one.axis: one for one in axis_traffic(axes, sizes, 4)}
    for load in layout_loads(axes, {**sizes, "PP": 0}, two_level(FAST, SLOW, 4)):
        assert load.inside_bytes == expected[load.axis].inside_bytes
        assert load.between_bytes == expected[load.axis].between_bytes


@pytest.mark.parametrize("order", list(permutations(["EP", "DP"])))
def test_all_to_all_against_measured_plans(order):
    """(S58, S61)"""
    degrees = {"EP": 4, "DP": 3}
    axes = {name: degrees[name] for name in order}
    network = two_level(FAST, SLOW, 3)
    groups = process_groups(axes)["EP"]
    counted = [measure(direct("all-to-all", group, 100), network) for group in groups]
    load = next(x for x in layout_loads(axes, {"EP": 100}, network) if x.axis == "EP")
    assert load.inside_bytes == sum(one.inside_bytes for one in counted)
    assert load.between_bytes == sum(one.between_bytes for one in counted)


def test_a_wrong_order_puts_tensor_parallelism_on_the_slow_link():
    """Two nodes of four; each rank with a network card of its own (S61)."""
    network = two_level(FAST, SLOW, 4)
    sizes = {"TP": 1000, "DP": 100}
    right = {x.axis: x for x in layout_loads({"TP": 4, "DP": 2}, sizes, network)}
    wrong = {x.axis: x for x in layout_loads({"DP": 2, "TP": 4}, sizes, network)}
    assert right["TP"].groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert (right["TP"].within, right["DP"].within) == (2, 0)
    assert (wrong["TP"].within, wrong["DP"].within) == (0, 4)
    assert right["TP"].seconds == 1500 / 400
    assert wrong["TP"].seconds == 1500 / 50
    assert right["DP"].card_bytes == 100


def test_one_card_for_the_node_is_shared():
    loads = layout_loads({"TP": 4, "DP": 2}, {"DP": 100}, two_level(FAST, SLOW, 4, cards=1))
    assert loads[1].card_bytes == 400
    assert loads[1].seconds == 400 / 50


def test_a_chain_has_no_way_from_its_last_stage_to_its_first():
    (load,) = layout_loads({"PP": 4}, {"PP": 10}, two_level(FAST, SLOW, 2))
    assert (load.inside_bytes, load.between_bytes) == (2 * 2 * 10, 2 * 10)
    (ring,) = layout_loads({"CP": 4}, {"CP": 10}, two_level(FAST, SLOW, 2))
    assert (ring.inside_bytes, ring.between_bytes) == (2 * 10, 2 * 10)


def test_16384_ranks():
    """Document D's layout: 8 × 16 × 128; a tensor group is a node (S60)."""
    axes = {"TP": 8, "PP": 16, "DP": 128}
    tensor, pipeline, data = layout_loads(axes, {"TP": 8, "DP": 128}, two_level(FAST, SLOW, 8))
    assert sum(map(len, data.groups)) == 16_384
    assert (len(tensor.groups), tensor.within, tensor.between_bytes) == (2048, 2048, 0)
    assert (len(pipeline.groups), pipeline.within) == (1024, 0)
    assert data.card_bytes == Fraction(2 * 127)


@pytest.mark.parametrize("order", list(permutations(["TP", "CP", "EP", "DP", "PP"])))
def test_ranks_of_a_group_differ_in_its_axis_only(order):
    """(S61)"""
    axes = dict(zip(order, (2, 3, 1, 2, 2), strict=True))
    for load in layout_loads(axes, dict.fromkeys(axes, 1), flat(0.0, 1.0)):
        for group in load.groups:
            places = [coordinates(rank, axes) for rank in group]
            assert [place.pop(load.axis) for place in places] == list(range(axes[load.axis]))
            assert all(place == places[0] for place in places)


def test_what_sharded_data_parallelism_sends_against_measured_rings():
    """Two all-gathers of the weights and a reduce-scatter of the gradients (S61, S63)."""
    network = two_level(FAST, SLOW, 2)
    counted = [
        measure(ring_all_gather(4, 400), network),
        measure(ring_reduce_scatter(4, 400), network),
    ]
    (load,) = layout_loads({"FSDP": 4}, {"FSDP": 400}, network)
    assert load.inside_bytes == 2 * counted[0].inside_bytes + counted[1].inside_bytes
    assert load.between_bytes == 2 * counted[0].between_bytes + counted[1].between_bytes
    assert (load.port_bytes, load.card_bytes) == (3 * 300, 3 * 300)


@pytest.mark.parametrize("order", list(permutations(["TP", "CP", "DP"])))
def test_joined_axes_are_one_ring(order):
    """Data and context ranks hold the same weights: their sum runs among both (S61)."""
    axes = dict(zip(order, (2, 3, 2), strict=True))
    groups = joined_groups(axes, ["DP", "CP"])
    assert sorted(rank for group in groups for rank in group) == list(range(12))
    for group in groups:
        places = [coordinates(rank, axes) for rank in group]
        assert len({place["TP"] for place in places}) == 1
        assert len({(place["DP"], place["CP"]) for place in places}) == axes["DP"] * axes["CP"]
    network = two_level(FAST, SLOW, 3)
    counted = [measure(ring_all_reduce(group, 600), network) for group in groups]
    load = layout_loads(axes, {"DP+CP": 600}, network)[-1]
    assert load.axis == "DP+CP"
    assert load.inside_bytes == sum(one.inside_bytes for one in counted)
    assert load.between_bytes == sum(one.between_bytes for one in counted)


def test_six_axes_say_what_they_cut_send_and_where_they_belong():
    """(S63)"""
    assert list(AXES) == ["TP", "CP", "EP", "FSDP", "PP", "DP"]
    assert {name for name, axis in AXES.items() if axis.cuts.startswith("the batch")} == {
        "FSDP",
        "DP",
    }
    assert [name for name, axis in AXES.items() if axis.place == "between nodes"] == ["PP", "DP"]


def test_one_rank_sends_nothing():
    for load in layout_loads(dict.fromkeys(AXES, 1), dict.fromkeys(AXES, 100), flat(0.0, 1.0)):
        assert (load.inside_bytes, load.between_bytes, load.seconds) == (0, 0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: layout_loads({"XP": 2}, {}, flat(0.0, 1.0)),
        lambda: layout_loads({"TP": 2}, {"XP": 1}, flat(0.0, 1.0)),
        lambda: layout_loads({"TP": 2}, {"TP+XP": 1}, flat(0.0, 1.0)),
        lambda: layout_loads({"TP": 2}, {"TP": -1}, flat(0.0, 1.0)),
        lambda: coordinates(8, {"TP": 4, "DP": 2}),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()
