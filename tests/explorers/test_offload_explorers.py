"""The explorers of offload: their numbers against the paper's, closed forms and the engine."""

import re
from itertools import product
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.explorers.registry import get
from shardbook.planner.placements import placement, placements
from shardbook.schedules.offload import OffloadStep, step_seconds

SVG = "{http://www.w3.org/2000/svg}"
NODES = ("p16", "g16", "p32", "m32", "v32", "update", "float2half")
#: nothing is hidden, then one switch each
SWITCHES = ("download", "upload", "delayed")


def on_gpu(*names: str) -> dict[str, str]:
    return {node: "on" if node in names else "off" for node in NODES}


def test_the_default_placement_is_the_papers_optimum() -> None:
    """(S44)"""
    sentence = get("offload-placements").view({}).sentence
    assert sentence.startswith("With only p16 ")
    assert "4 B a parameter cross in a step and 2 B stay there" in sentence
    assert "4 placements cross no more, and none of them stores less" in sentence


def test_edges_counted_once_make_two_more_cheap_placements() -> None:
    """(M26)"""
    explorer = get("offload-placements")
    assert "6 placements cross no more" in explorer.view({"edges": "one-way"}).sentence
    for state in ("m32", "v32"):
        without = on_gpu(*(node for node in NODES if node != state))
        assert explorer.view(without).table.rows[-1][3] == "8"
        assert explorer.view({**without, "edges": "one-way"}).table.rows[-1][3] == "4"


@pytest.mark.parametrize("edges", ["two-way", "one-way"])
def test_every_placements_crossing_edges_add_up_to_its_traffic(edges: str) -> None:
    explorer = get("offload-placements")
    for choice in product((False, True), repeat=len(NODES)):
        gpu = [node for node, on in zip(NODES, choice, strict=True) if on]
        view = explorer.view({**on_gpu(*gpu), "edges": edges})
        *rows, total = view.table.rows
        assert sum(int(row[3]) for row in rows) == int(total[3])
        assert all((row[3] == "0") == (row[1] in ("GPU to GPU", "CPU to CPU")) for row in rows)
        chosen = placement(frozenset(gpu))
        if edges == "two-way":
            assert int(total[3]) == chosen.traffic
        assert f"and {chosen.gpu_bytes} B stay there" in view.sentence


def test_only_the_three_best_trade_offs_are_told_as_such() -> None:
    """(S44)"""
    explorer = get("offload-placements")
    unbeaten = [
        each.gpu
        for each in placements()
        if "in the other, such as" not in explorer.view(on_gpu(*each.gpu)).sentence
    ]
    assert sorted(map(len, unbeaten)) == [0, 1, 7]
    assert "1 of 128 placements is better" in explorer.view(on_gpu("p16", "g16")).sentence


def test_labels_of_crossing_edges_are_apart() -> None:
    explorer = get("offload-placements")
    for choice in product((False, True), repeat=len(NODES)):
        gpu = [node for node, on in zip(NODES, choice, strict=True) if on]
        figure = ElementTree.fromstring(explorer.view(on_gpu(*gpu)).figure)
        pills = [
            tuple(float(pill.get(key, "0")) for key in ("x", "y", "width", "height"))
            for pill in figure.iter(f"{SVG}rect")
            if pill.get("class") == "sb-paper"
        ]
        for at, (x, y, wide, high) in enumerate(pills):
            for left, top, width, height in pills[:at]:
                beside = x + wide <= left or left + width <= x
                assert beside or y + high <= top or top + height <= y, gpu


@pytest.mark.parametrize(
    ("state", "row", "efficiency"),
    [
        ({}, 0, "50.6%"),
        ({"what": "optimizer-states", "batch": "2", "bandwidth": "1.5TB/s"}, 1, "91.6%"),
        ({"what": "activation-checkpoints", "bandwidth": "2GB/s"}, 2, "58.4%"),
    ],
)
def test_efficiencies_are_the_papers(state: dict[str, str], row: int, efficiency: str) -> None:
    """(S48)"""
    view = get("offload-bandwidth").view(state)
    assert view.table.rows[row][2] == efficiency
    assert f"computes {efficiency} of the time" in view.sentence


def test_what_two_sequences_need_for_90_per_cent() -> None:
    """(S48)"""
    rows = get("offload-bandwidth").view({"batch": "2"}).table.rows
    assert [row[4] for row in rows[:2]] == ["308 GB/s", "1.23 TB/s"]


@given(
    st.sampled_from(["128", "1024", "131072"]),
    st.sampled_from(["1", "8"]),
    st.sampled_from(["20", "140"]),
)
@settings(derandomize=True, deadline=None, max_examples=20)
def test_at_the_bandwidth_it_asks_for_half_of_the_time_is_computed(
    sequence: str, batch: str, peak: str
) -> None:
    explorer = get("offload-bandwidth")
    state = {"sequence": sequence, "batch": batch, "peak": peak}
    need = float(peak) * 1e12 / (int(sequence) * int(batch))
    rows = explorer.view({**state, "bandwidth": f"{need:.12g}"}).table.rows
    assert rows[0][2] == "50.0%"
    point = explorer.view({**state, "bandwidth": f"{9 * need:.12g}"})
    assert "computes 90.0% of the time" in point.sentence


def test_10b_in_fine_pieces_takes_the_lectures_times() -> None:
    """64 pieces leave 1/64 of a copy open at each end; the lecture's leave nothing. (S45, S47)"""
    open_ = 2 * 10 * 2 / 12 / 64
    explorer = get("offload-timeline")
    for state, lecture in (
        ({}, 13.06),
        ({"upload": "off"}, 14.72),
        ({"delayed": "on"}, 10.49),
    ):
        sentence = explorer.view({"pieces": "64", **state}).sentence
        seconds = float(re.findall(r"takes ([\d.]+) s", sentence)[0])
        assert lecture - 0.005 <= seconds <= lecture + open_ + 0.005
    assert "46.9 useful TFLOP/s" in explorer.view({"delayed": "on"}).sentence


@given(
    st.sampled_from(["1", "4", "16"]),
    st.sampled_from(["512", "8192"]),
    st.sampled_from(["3GB/s", "50GB/s"]),
    st.lists(st.sampled_from(SWITCHES), unique=True),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_steps_are_the_engines(pieces: str, tokens: str, link: str, on: list[str]) -> None:
    """(S45, S47)"""
    state = {name: "on" if name in on else "off" for name in SWITCHES}
    view = get("offload-timeline").view(
        {**state, "pieces": pieces, "tokens": tokens, "bandwidth": link}
    )
    work, copy = 10e9 * int(tokens) / 62.5e12, 20e9 / (float(link[:-4]) * 1e9)
    layers = int(pieces) if "download" in on else 1
    step = OffloadStep(
        2 * work, 6 * work, copy, 2.57, copy, layers, int(pieces), pipelined="upload" in on
    )
    text = view.table.rows[-1][3]
    shown = float(text.split()[0]) * (1e-3 if text.endswith(" ms") else 1)
    assert shown == pytest.approx(step_seconds(step, delayed="delayed" in on), rel=1e-3)


def test_a_delayed_update_is_told_with_its_price() -> None:
    """(S47)"""
    explorer = get("offload-timeline")
    assert "one update behind" in explorer.view({"delayed": "on"}).sentence
    assert "one update behind" not in explorer.view({}).sentence
    nothing = explorer.view({"download": "off", "upload": "off"}).sentence
    assert nothing.endswith("nothing is hidden.")


@given(
    st.sampled_from(["2", "8", "24"]),
    st.tuples(*[st.sampled_from([1, 4, 10, 20])] * 4),
)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_reading_ahead_goes_from_the_sum_of_the_stages_to_the_slowest(
    layers: str, stages: tuple[int, int, int, int]
) -> None:
    """(S50)"""
    names = ("nvme", "copy", "all_gather", "compute")
    state = {name: f"{ms}ms" for name, ms in zip(names, stages, strict=True)}
    rows = get("offload-prefetch").view({"layers": layers, **state}).table.rows
    shown = [float(row[1].split()[0]) * (1e3 if row[1].endswith(" s") else 1) for row in rows]
    count = int(layers)
    assert shown[0] == pytest.approx(count * sum(stages), rel=1e-3)
    assert shown[-1] == pytest.approx(sum(stages) + (count - 1) * max(stages), rel=1e-3)
    assert shown == sorted(shown, reverse=True)
    assert [rows[0][3], rows[0][4]] == ["1", "1"]


def test_the_depth_that_is_enough_is_the_one_it_names() -> None:
    """(S50)"""
    explorer = get("offload-prefetch")
    assert "2 ahead would take 94 ms" in explorer.view({"depth": "1"}).sentence
    assert explorer.view({"depth": "2"}).sentence.endswith("more does not help.")
    assert explorer.view({"depth": "4"}).sentence.endswith("more does not help, 2 would do.")
