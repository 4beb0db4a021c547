"""The tool matrix against the launch settings, and what its layers mean (S74)."""

import pytest

from shardbook.planner.launch import launch_settings
from shardbook.planner.layouts import Layout
from shardbook.planner.presets import cluster_named, model_named
from shardbook.planner.tools import FEATURES, ITSELF, NO, TOOLS, features_of, matrix, parts, who_can

MODEL = model_named("layers=8,hidden=512,heads=8,sequence=16384,experts=4,batch=1048576")
ALONE = {
    "replicas": {"data": 8},
    "stage 1": {"data": 8, "stage": 1},
    "stage 2": {"data": 8, "stage": 2},
    "stage 3": {"data": 8, "stage": 3},
    "tensor": {"tensor": 8},
    "pipeline": {"pipeline": 8},
    "context": {"context": 2, "data": 4},
    "expert": {"expert": 4, "data": 8},
    "recompute": {"data": 8, "recompute": "full"},
    "host": {"data": 8, "stage": 3, "offload": "host"},
    "nvme": {"data": 8, "stage": 3, "offload": "nvme"},
}


@pytest.mark.parametrize("feature", list(ALONE))
def test_the_matrix_does_not_contradict_the_launch_settings(feature):
    """A tool that does it itself has settings for it, and one that does not has none."""
    layout = Layout(**ALONE[feature])
    assert feature in features_of(layout)
    settings = launch_settings(MODEL, cluster_named("a100-80"), layout)
    for tool in TOOLS:
        if tool.name not in settings:
            continue
        possible = not settings[tool.name].startswith("not possible")
        needed = [tool.answer(each) for each in features_of(layout)]
        if set(needed) == {ITSELF}:
            assert possible, (tool.name, settings[tool.name])
        if NO in needed:
            assert not possible, (tool.name, settings[tool.name])
        if tool.name == "Megatron-LM" and "Megatron-FSDP" in needed and layout.offload == "none":
            assert possible and "--use-megatron-fsdp" in settings[tool.name]


def test_every_tool_with_settings_is_in_the_matrix():
    settings = launch_settings(MODEL, cluster_named("a100-80"), Layout(data=8))
    assert set(settings) < {tool.name for tool in TOOLS}
    assert all(tool.source and set(tool.does) <= set(FEATURES) for tool in TOOLS)


def test_nccl_is_no_substitute_for_anything():
    nccl = TOOLS[0]
    assert nccl.name == "NCCL" and all(nccl.answer(feature) == NO for feature in FEATURES)
    assert all("NCCL" not in who_can(Layout(**choice)) for choice in ALONE.values())


def test_accelerate_does_nothing_itself_and_what_it_says_its_parts_can():
    tools = {tool.name: tool for tool in TOOLS}
    for feature, part in tools["Accelerate"].does.items():
        assert part != ITSELF
        for name in part.split(" or "):
            assert tools[name].answer(feature) != NO, (feature, name)


def test_who_can_run_a_layout():
    plain = who_can(Layout(data=8))
    assert plain["DDP"] == () and "FSDP2" not in plain
    deep = who_can(Layout(tensor=8, pipeline=8, data=2, stage=1))
    assert deep["Megatron-LM"] == ()
    assert "DDP" not in deep
    assert set(who_can(Layout(data=8, stage=3, offload="nvme"))) == {"DeepSpeed", "Accelerate"}


def test_the_matrix_has_a_row_a_feature_and_a_column_a_tool():
    rows = matrix()
    assert [row[0] for row in rows] == list(FEATURES.values())
    assert {len(row) for row in rows} == {1 + len(TOOLS)}
    assert rows[3][3] == "yes" and rows[3][1] == "–" and rows[3][5] == "with"
    assert ("Megatron-LM", "Megatron-FSDP", "stage 2, stage 3, hybrid") in parts()
    assert sum(row.count("with") for row in rows) == sum(
        len(each[2].split(", ")) for each in parts()
    )
