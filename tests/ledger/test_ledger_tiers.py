"""What each tier holds, against the byte counts of the papers' recipes and a search by hand."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.commands.offload import command
from shardbook.errors import InputError
from shardbook.ledger.tiers import (
    CPU,
    DGX2,
    FOUR_CARDS,
    GPU,
    NVME,
    ONE_V100,
    SCHEMES,
    Node,
    held,
    largest_by_tier,
)

B = 10**9


@pytest.mark.parametrize(
    ("scheme", "node", "parallel", "billions", "full"),
    [
        ("data-parallel", DGX2, 1, 28 / 16, GPU),
        ("zero-offload", ONE_V100, 1, 28 / 2, GPU),
        ("zero-2", DGX2, 1, 28 / (2 + 14 / 16), GPU),
        ("zero-3", DGX2, 1, 28 * 16 / 16, GPU),
        ("infinity-cpu", DGX2, 1, 1500 / 20, CPU),
        ("infinity-nvme", DGX2, 1, 28_000 / 20, NVME),
        ("zero-offload", DGX2, 16, 1500 / 14, CPU),
    ],
)
def test_largest_models_are_room_over_bytes_a_parameter(scheme, node, parallel, billions, full):
    """DP 1.75B, Offload 14B, ZeRO-2 9.7B, ZeRO-3 28B, Infinity 75B and 1.4T (S51)."""
    found = largest_by_tier(scheme, node, model_parallel=parallel)
    assert found.parameters / B == pytest.approx(billions, abs=1e-7)
    assert found.full == (full,)


def test_the_papers_sizes_fit_the_machines_they_ran_on():
    """(S51)"""
    assert held("zero-offload", 13 * B, ONE_V100).fits
    assert held("zero-offload", 70 * B, DGX2, model_parallel=16).fits
    assert held("infinity-nvme", 10**12, DGX2).fits
    assert held("infinity-nvme", 32 * 10**12, DGX2, nodes=32).fits
    assert not held("infinity-cpu", 10**12, DGX2).fits


@pytest.mark.parametrize(
    ("scheme", "recipe", "gpu", "cpu", "nvme", "too_full"),
    [
        ("zero-offload", "mixed-adam", 140, 980, 0, (GPU, CPU)),
        ("zero-offload", "bf16-adam", 140, 700, 0, (GPU, CPU)),
        ("zero-3-optimizer-cpu", "mixed-adam", 70, 840, 0, (CPU,)),
        ("zero-3-optimizer-cpu", "bf16-adam", 70, 560, 0, (CPU,)),
        ("zero-3-offload", "mixed-adam", 35, 980, 0, (CPU,)),
        ("zero-3-nvme", "mixed-adam", 35, 140, 840, ()),
        ("infinity-nvme", None, 0, 0, 1400, ()),
    ],
)
def test_70b_on_four_cards_needs_stage_3_and_nvme(scheme, recipe, gpu, cpu, nvme, too_full):
    """(S15)"""
    found = held(scheme, 70 * B, FOUR_CARDS, recipe=recipe)
    assert (found.gpu, found.cpu, found.nvme) == (gpu * B, cpu * B, nvme * B)
    assert found.too_full == too_full
    assert found.fits == (not too_full)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.sampled_from(sorted(SCHEMES)),
    st.integers(1, 8),
    st.integers(1, 4),
    st.tuples(*[st.integers(1, 5000)] * 3),
)
def test_one_parameter_more_than_the_largest_does_not_fit(scheme, cards, nodes, sizes):
    node = Node(cards, sizes[0], sizes[1], sizes[2])
    found = largest_by_tier(scheme, node, nodes=nodes)
    assert not held(scheme, found.parameters + 1, node, nodes=nodes).fits
    if found.parameters:
        assert held(scheme, found.parameters, node, nodes=nodes).fits


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.sampled_from(sorted(SCHEMES)), st.integers(1, 16), st.integers(1, 100))
def test_moving_states_between_tiers_loses_none(scheme, cards, thousands):
    """With nothing replicated the tiers of a node together hold the recipe's bytes."""
    parameters = thousands * 720_720  # every number of cards to 16 divides it
    found = held(scheme, parameters, Node(cards, B, B, B))
    total = cards * found.of(GPU) + found.of(CPU) + found.of(NVME)
    a_parameter = 20 if scheme.startswith("infinity") else 16
    copies = {"data-parallel": 16, "zero-2": 2, "zero-offload": 2}.get(scheme, 0)
    assert total == parameters * (a_parameter + copies * (cards - 1))


def test_a_reserve_is_not_for_states():
    full = Node(1, 16 * B, 0)
    assert held("data-parallel", B, full).fits
    assert held("data-parallel", B, replace(full, reserve_bytes=1)).too_full == (GPU,)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"scheme": "zero-4"}, "scheme"),
        ({"parameters": 0}, "parameters"),
        ({"nodes": 0}, "nodes"),
        ({"model_parallel": 3}, "model parallel"),
        ({"recipe": "none"}, "recipe"),
    ],
)
def test_what_cannot_be_held_is_refused(arguments, named):
    given_ = {"scheme": "zero-3", "parameters": B, "node": DGX2} | arguments
    with pytest.raises(InputError) as error:
        held(**given_)
    assert error.value.argument == named


def test_impossible_nodes_are_refused():
    with pytest.raises(InputError, match="reserve"):
        Node(1, 10, 0, reserve_bytes=10)
    with pytest.raises(InputError, match="NVMe"):
        Node(1, 10, 0, -1)


FOUR = ["tiers", "70B", "--cards", "4", "--cpu", "512GB", "--nvme", "2TB"]


def test_the_command_says_where_70b_fits_on_four_cards():
    """(S15)"""
    rows = json.loads(CliRunner().invoke(command, [*FOUR, "--json"]).output)
    assert {row["scheme"] for row in rows if row["fits"]} == {"zero-3-nvme", "infinity-nvme"}
    nvme = next(row for row in rows if row["scheme"] == "zero-3-nvme")
    assert nvme["bytes"] == {"GPU": 35 * B, "CPU": 140 * B, "NVMe": 840 * B}
    assert nvme["largest_parameters"] == 4 * 80 * B // 2  # the cards are full before the NVMe


def test_the_commands_table_has_a_line_for_each_system():
    lines = CliRunner().invoke(command, FOUR).output.splitlines()
    assert len(lines) == 1 + len(SCHEMES)
    assert "140 GB" in lines[4] and "GPU, CPU" in lines[4]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--cards", "0"], "cards"),
        (["--cards", "1.5"], "cards"),
        (["--reserve", "80GB"], "reserve"),
        (["--recipe", "none"], "recipe"),
        (["--cpu", "many"], "--cpu"),
    ],
)
def test_bad_tiers_are_refused(more, named):
    error = CliRunner().invoke(command, [*FOUR, *more]).exception
    assert isinstance(error, InputError)
    assert error.argument == named
