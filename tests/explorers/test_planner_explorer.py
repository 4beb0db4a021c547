"""The planner's explorer shows the planner's numbers (S71)."""

from xml.etree import ElementTree

import pytest

from shardbook.errors import InputError
from shardbook.explorers.planner import NVME
from shardbook.explorers.registry import get
from shardbook.numbers.units import format_bytes, format_seconds
from shardbook.planner.blocks import blocks_of
from shardbook.planner.layouts import Layout, Limits
from shardbook.planner.plan import judge, plan
from shardbook.planner.presets import cluster_named, model_named

PLANNER = get("planner")


def words(view):
    return [each.text for each in ElementTree.fromstring(view.figure).iter() if each.text]


def test_rows_and_reasons_are_the_plans():
    raw = {"model": "llama3-8b", "nodes": "2", "card": "a100-40", "host": "200GB", "row": "3"}
    view = PLANNER.view(raw)
    cluster = cluster_named("a100-40,nodes=2,between=50GB/s,host_memory=200GB")
    answer = plan(model_named("llama3-8b"), cluster, Limits(offload=("none", "host")))
    rows = [row for row in view.table.rows if row[0].startswith("row")]
    assert [row[1] for row in rows] == [str(each.layout) for each in answer.ranked]
    assert [row[3] for row in rows] == [format_seconds(each.seconds) for each in answer.ranked]
    fails = [row for row in view.table.rows if row[0].endswith("fail")]
    assert [row[0] for row in fails] == [f"{each.count:,} fail" for each in answer.rejected]
    third = answer.ranked[2]
    assert str(third.layout) in view.sentence
    assert format_bytes(third.peak.bytes, 3) in view.sentence
    held = {row[0]: row[2] for row in view.table.rows if "at the peak" in row[1]}
    assert held == {
        name.replace("_", " "): format_bytes(size, 3) for name, size in third.peak.pieces if size
    }


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_limits_reach_the_search(recompute):
    raw = {"model": "megatron-7.5b", "recompute": recompute, "offload": "none", "nodes": "4"}
    rows = [row for row in PLANNER.view(raw).table.rows if row[0].startswith("row")]
    assert rows
    for row in rows:
        assert "offload" not in row[1]
        assert ("recompute" in row[1]) == (recompute != "none")


def test_nvme_takes_what_the_host_has_no_room_for():
    """70B on four cards beside 512 GB of host memory (M15)."""
    raw = {"model": "llama3-70b", "nodes": "1", "cards": "4", "host": "512GB"}
    refused = PLANNER.view(raw | {"offload": "host"})
    assert "none fits" in refused.sentence and "do not fit the host" in refused.sentence
    found = PLANNER.view(raw | {"offload": "nvme"})
    assert "offload to NVMe" in found.sentence
    cluster = cluster_named(f"h100-80,cards=4,host_memory=512GB,nvme_memory={NVME}")
    layout = Layout(tensor=4, stage=3, recompute="full", offload="nvme")
    assert not isinstance(judge(model_named("llama3-70b"), cluster, layout), str)


def test_a_row_beyond_the_last_shows_the_last():
    raw = {"model": "llama3-70b", "nodes": "1", "card": "v100-32"}
    rows = [row for row in PLANNER.view(raw).table.rows if row[0].startswith("row")]
    assert 0 < len(rows) < 20
    last = PLANNER.view(raw | {"row": "20"})
    assert f"row {len(rows)}, " in last.sentence
    assert last == PLANNER.view(raw | {"row": str(len(rows))})


def test_a_pipelines_timeline_is_the_simulators():
    model, cluster = model_named("llama3-8b"), cluster_named("h100-80,nodes=2")
    layout = Layout(tensor=2, pipeline=4, data=2, schedule="1f1b", stage=1)
    made = blocks_of(model, cluster, layout)
    assert made.lanes == ("rank 0", "rank 1", "rank 2", "rank 3")
    assert made.shown == 8 and len(made.blocks) == 2 * 4 * 8
    for lane in range(4):
        ends = 0.0
        for block in (each for each in made.blocks if each.lane == lane):
            assert block.start >= ends
            ends = block.end
    assert made.seconds == max(block.end for block in made.blocks)


def test_without_a_pipeline_the_layers_and_their_exchange_are_shown():
    model, cluster = model_named("llama3-8b"), cluster_named("h100-80,nodes=2")
    count = {
        stage: [
            block.kind for block in blocks_of(model, cluster, Layout(data=16, stage=stage)).blocks
        ]
        for stage in (0, 3)
    }
    assert count[0].count("AG") == 0 and count[0].count("RS") == model.layers
    # the last layer stays gathered from its forward to its backward
    assert count[3].count("AG") == 2 * model.layers - 1 and count[3].count("RS") == model.layers


def test_numbers_in_the_figure_are_those_of_the_table():
    view = PLANNER.view({})
    text = " ".join(words(view))
    for row in view.table.rows[:5]:
        assert f"{row[3]}, {row[2]}" in text
    with pytest.raises(InputError) as caught:
        PLANNER.view({"row": "21"})
    assert caught.value.argument == "row"
