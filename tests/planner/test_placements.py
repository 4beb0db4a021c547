"""All 128 placements of ZeRO-Offload's graph, and the bandwidth that hides a tier (S44, S48)."""

import json
from collections import Counter

import pytest
from click.testing import CliRunner

from shardbook.commands.offload import command
from shardbook.errors import InputError
from shardbook.planner.bandwidth import efficiency, intensity, required_bandwidth
from shardbook.planner.placements import (
    EDGES,
    ONE_WAY_EDGES,
    at_least_as_good,
    best,
    placement,
    placements,
)

ALL_ON_GPU = ("p16", "g16", "p32", "m32", "v32", "update", "float2half")


def test_exactly_four_placements_cross_at_most_four_bytes() -> None:
    cheap = [(each.traffic, each.gpu_bytes, each.gpu) for each in placements() if each.traffic <= 4]
    assert cheap == [
        (0, 16, ALL_ON_GPU),
        (4, 2, ("p16",)),
        (4, 4, ("p16", "g16")),
        (4, 14, ("p16", "p32", "m32", "v32", "update", "float2half")),
    ]


def test_the_optimum_keeps_only_the_working_weights() -> None:
    assert best().gpu == ("p16",)
    assert [each.gpu_bytes for each in placements() if each.traffic <= 4].count(2) == 1


def test_six_placements_cross_six_bytes_and_one_of_them_stores_nothing_on_the_gpu() -> None:
    at_six = [each for each in placements() if each.traffic == 6]
    assert len(at_six) == 6
    assert [each.gpu for each in at_six if each.gpu_bytes == 0] == [()]


def test_all_128_are_there_once() -> None:
    assert len({each.gpu for each in placements()}) == 128
    assert all(count == 1 for count in Counter(placements()).values())


def test_counting_the_updates_edges_one_way_would_make_six_cheap_ones() -> None:
    """(M26)"""
    two_more = [edge for edge in EDGES if not (edge[0] == "update" and edge[1] in ("m32", "v32"))]
    for one_way in (ONE_WAY_EDGES, tuple(two_more)):
        assert sum(each.traffic <= 4 for each in placements(one_way)) == 6


def test_three_placements_have_none_that_is_as_good_in_both() -> None:
    """(S44)"""
    every = placements()
    front = [each for each in every if not at_least_as_good(each, every)]
    assert [(each.traffic, each.gpu_bytes) for each in front] == [(0, 16), (4, 2), (6, 0)]


def test_moving_everything_back_is_the_whole_cut() -> None:
    assert placement(frozenset(ALL_ON_GPU)).traffic == 0
    assert placement(frozenset()).gpu_bytes == 0


@pytest.mark.parametrize(
    ("kind", "batch", "wanted", "gigabytes"),
    [("weights-and-gradients", 2, 0.9, 307.6), ("optimizer-states", 2, 0.9, 1230.5)],
)
def test_the_papers_exercise_comes_out(
    kind: str, batch: int, wanted: float, gigabytes: float
) -> None:
    works = intensity(kind, sequence=1024, batch=batch, hidden=2048)
    assert required_bandwidth(works, wanted, 70e12) / 1e9 == pytest.approx(gigabytes, abs=0.05)


@pytest.mark.parametrize(
    ("kind", "batch", "hidden", "rate", "share"),
    [
        ("weights-and-gradients", 1, 2048, 70e9, 0.506),
        ("optimizer-states", 2, 2048, 1.5e12, 0.916),
        ("activation-checkpoints", 1, 2048, 2e9, 0.584),
    ],
)
def test_the_papers_bandwidths_reach_different_efficiencies(
    kind: str, batch: int, hidden: int, rate: float, share: float
) -> None:
    works = intensity(kind, sequence=1024, batch=batch, hidden=hidden)
    assert efficiency(works, rate, 70e12) == pytest.approx(share, abs=5e-4)


def test_efficiency_and_bandwidth_are_inverses() -> None:
    for wanted in (0.01, 0.5, 0.9, 0.999):
        assert efficiency(2048, required_bandwidth(2048, wanted, 7e13), 7e13) == pytest.approx(
            wanted
        )


def test_partitions_as_json_keep_the_contract() -> None:
    rows = json.loads(CliRunner().invoke(command, ["partitions", "--json"]).output)
    assert len(rows) == 128
    assert set(rows[0]) == {"gpu", "traffic_bytes_per_parameter", "gpu_bytes_per_parameter"}
    assert sum(row["traffic_bytes_per_parameter"] <= 4 for row in rows) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ["--efficiency", "1"],
        ["--efficiency", "0.5", "--bandwidth", "1GB/s"],
        ["--batch", "0.5"],
        ["--peak", "0"],
        ["--bandwidth", "0"],
    ],
)
def test_bad_bandwidths_are_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, ["bandwidth", *arguments])
    assert isinstance(result.exception, InputError)
