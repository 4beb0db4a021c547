"""The explorers of schedules: their numbers against closed forms, their pictures against the run."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.explorers.controls import Text
from shardbook.explorers.html import page_html
from shardbook.explorers.pipeline_timeline import spoken
from shardbook.explorers.registry import get
from shardbook.numbers.units import format_seconds
from shardbook.schedules.pipeline import StageTimes, format_order, make_order, run_order

SVG = "{http://www.w3.org/2000/svg}"


@given(st.integers(2, 8), st.integers(1, 64), st.sampled_from(["gpipe", "looped-bfs"]))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_the_pipelines_bubble_is_the_formulas(stages: int, m: int, schedule: str) -> None:
    chunks = 1 if schedule == "gpipe" else 2
    state = {"schedule": schedule, "stages": str(stages), "micro_batches": str(m), "chunks": "2"}
    sentence = get("pipeline").view(state).sentence
    lost = (stages - 1) / chunks
    assert f"of which {lost / (m + lost):.1%} are idle" in sentence
    assert f"or {lost / m:.1%} on top" in sentence
    assert f"at most {m}." in sentence


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_live_micro_batches_of_1f1b_fall_by_rank(stages: int) -> None:
    state = {"schedule": "1f1b", "stages": str(stages), "micro_batches": "16", "step": "100"}
    rows = get("pipeline").view(state).table.rows
    assert [row[3] for row in rows] == [str(stages - rank) for rank in range(stages)]
    assert {row[2] for row in rows} == {"0"}, "nothing is held after the last moment"
    assert {row[1] for row in rows} == {"idle"}


def test_a_moment_says_what_runs() -> None:
    view = get("pipeline").view({"schedule": "gpipe", "step": "2"})
    assert [row[1] for row in view.table.rows] == ["0F2", "1F1", "2F0", "idle"]
    assert [row[2] for row in view.table.rows] == ["3", "2", "1", "0"]


def test_the_last_moment_is_the_end_however_many_there_are() -> None:
    state = {"schedule": "gpipe", "stages": "8", "micro_batches": "64", "step": "100"}
    assert f"at {(64 + 7) * 3} s" in get("pipeline").view(state).table.caption


def test_blocks_say_their_micro_batch_and_if_they_are_a_later_chunk() -> None:
    figure = ElementTree.fromstring(get("pipeline").view({"schedule": "gpipe"}).figure)
    texts = [text.text for text in figure.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert all(texts.count(str(number)) == 4 * 2 for number in range(8))
    figure = ElementTree.fromstring(get("pipeline").view({}).figure)
    marks = next(path for path in figure.iter(f"{SVG}path") if path.get("fill-opacity") == "0.8")
    drawn = marks.get("d", "")
    assert drawn.count("M") == 8 * 2 * 4, "half of all blocks"
    assert "M58.0 " not in drawn, "the first is of the first chunk"


@pytest.mark.parametrize(("micro_batches", "drawn"), [("9", True), ("12", False), ("16", False)])
def test_blocks_go_without_numbers_where_the_widest_does_not_fit(
    micro_batches: str, drawn: bool
) -> None:
    """448 units for m + 3 turns of 3 s: a digit takes 7.4, and a block 2 beside."""
    figure = get("pipeline").view({"schedule": "gpipe", "micro_batches": micro_batches}).figure
    texts = ElementTree.fromstring(figure).iter(f"{SVG}text")
    numbers = [text.text for text in texts if text.get("text-anchor") == "middle"]
    assert ("0" in numbers) == drawn


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("zbv", 2)])
def test_blocks_and_the_moment_lie_where_the_run_has_them(schedule: str, chunks: int) -> None:
    state = {"schedule": schedule, "forward": "2", "transfer": "0.5", "step": "7"}
    figure = ElementTree.fromstring(get("pipeline").view(state).figure)
    times = StageTimes(2 / chunks, 1 / chunks, 1 / chunks, 0.5)
    done = run_order(make_order(schedule, 4, 8), times)
    scale = 448 / done.makespan
    shades = {"F": "0.08", "B": "0.3", "I": "0.3", "W": "0.55"}
    starts, ends = done.run.starts, done.run.ends
    wanted = [
        (shades[part.kind], 52 * rank, 58 + start * scale, (end - start) * scale)
        for part, rank, start, end in zip(
            done.program.parts, done.program.ranks, starts, ends, strict=True
        )
        if part.kind in shades
    ]
    drawn = [
        (path.get("fill-opacity"), int(y), float(x), float(wide))
        for path in figure.iter(f"{SVG}path")
        for x, y, wide in re.findall(r"M([\d.]+) (\d+)h([\d.]+)v24h", path.get("d", ""))
    ]
    assert len(drawn) == len(wanted)
    for ours, theirs in zip(sorted(drawn), sorted(wanted), strict=True):
        assert ours[:2] == theirs[:2]
        assert ours[2:] == pytest.approx(theirs[2:], abs=0.06)
    mark = next(line for line in figure.iter(f"{SVG}line") if "sb-limit" in line.get("class", ""))
    assert float(mark.get("x1", "")) == pytest.approx(58 + sorted({*starts})[7] * scale, abs=0.01)


def test_the_fullest_rank_fills_its_band() -> None:
    for micro_batches in ("4", "8", "48"):
        state = {"schedule": "gpipe", "micro_batches": micro_batches}
        figure = ElementTree.fromstring(get("pipeline").view(state).figure)
        bands = [
            path for path in figure.iter(f"{SVG}path") if path.get("class") == "sb-activations"
        ]
        assert len(bands) == 4
        for band in bands:
            drawn = band.get("d", "")
            foot = float(drawn.removeprefix("M58 ").split("H")[0])
            assert foot - min(map(float, re.findall(r"V([\d.]+)", drawn))) == 14


def test_every_rank_says_what_it_holds_computes_and_waits() -> None:
    """28.5 s: eight turns of 3 s, and three of half a turn (two chunks) to fill and drain."""
    view = get("pipeline").view({"schedule": "interleaved-1f1b", "step": "2"})
    most = ["5½", "4½", "3½", "2½"]
    assert [row[3] for row in view.table.rows] == most
    assert {row[4:] for row in view.table.rows} == {("24 s", "4.5 s")}
    assert view.sentence.endswith(f"at most {', '.join(most)} by rank.")
    texts = ElementTree.fromstring(view.figure).iter(f"{SVG}text")
    strong = [text.text for text in texts if text.get("text-anchor") == "end"]
    assert strong == ["holds now", "most", "1½", most[0], "1", most[1], "½", most[2], "0", most[3]]


def test_every_computation_is_drawn_once() -> None:
    for schedule, kinds in (("1f1b", 2), ("zbv", 6)):
        view = get("pipeline").view({"schedule": schedule})
        paths = ElementTree.fromstring(view.figure).iter(f"{SVG}path")
        drawn = sum(path.get("d", "").count(f"v{24}h") for path in paths)
        assert drawn == 4 * 8 * kinds


def test_the_key_fits_the_canvas_with_every_kind() -> None:
    figure = ElementTree.fromstring(get("pipeline").view({"schedule": "dualpipev"}).figure)
    texts = [(float(text.get("x", "0")), text.text or "") for text in figure.iter(f"{SVG}text")]
    assert all(x + 6.5 * len(text) <= 648 for x, text in texts if text == "what it holds")


def test_eight_stages_and_64_micro_batches_stay_a_small_picture() -> None:
    for schedule in ("1f1b", "gpipe", "zbv"):
        state = {"schedule": schedule, "stages": "8", "micro_batches": "64"}
        assert get("pipeline").view(state).figure.count("<") < 120


def test_what_a_schedule_refuses_names_the_control() -> None:
    with pytest.raises(InputError) as caught:
        get("pipeline").view({"schedule": "1f1b", "micro_batches": "2"})
    assert caught.value.argument == "micro_batches"


def test_chunks_are_said_as_parts_of_a_rank() -> None:
    assert [spoken(count, 2) for count in (0, 1, 2, 11)] == ["0", "½", "1", "5½"]
    assert (spoken(7, 4), spoken(4, 3)) == ("1¾", "1.33")


def test_a_typed_order_gives_its_fault_or_its_time() -> None:
    editor = get("action-list")
    done = editor.view({"actions": format_order(make_order("1f1b", 4, 8))})
    assert "in 33 s: 27.3% of the time is idle, which is 37.5% on top" in done.sentence
    assert "4, 3, 2, 1 by rank" in done.sentence
    assert [row[2:] for row in done.table.rows] == [("24 s", "9 s", str(4 - at)) for at in range(4)]
    fault = editor.view({"actions": "0F0 0B0 0F1 0B1\n1F0 1B0 1B1 1F1"})
    assert "Rank 1, step 2, 1B1: deadlock" in fault.sentence
    texts = [text.text or "" for text in ElementTree.fromstring(fault.figure).iter(f"{SVG}text")]
    assert [text for text in texts if text.startswith("✗")] == ["✗ 1B1"]
    assert fault.table.rows[1][3] == "1B1 ✗"


def test_a_fault_far_along_is_in_the_picture() -> None:
    order = format_order(make_order("gpipe", 2, 12)) + " 1B6"
    view = get("action-list").view({"actions": order})
    assert view.sentence == "This can't run. Rank 1, step 24, 1B6: it runs a second time."
    assert "✗ 1B6" in view.figure
    assert ">24<" in view.figure and ">16<" in view.figure and ">15<" not in view.figure


@pytest.mark.parametrize(
    ("actions", "marked", "steps"),
    [
        ("0F0 0SEND_F0 0B0 0F1 0B1 0F2 0B2 0REDUCE_GRAD", "✗ 0SEND_F0", 5),
        ("0F0 (0F10;0B10)OVERLAP_F_B 0B0 0F1 0B1 0F2 0B2 0F3 0B3", "✗ 0F10;0B10", 5),
        ("0F0 0B1 0B0 0F2 0B2 0F3 0B3 0F4 0B4 0F5 0B5", "✗ 0B1", 9),
    ],
)
def test_the_grid_of_a_fault_has_room_for_every_name(actions: str, marked: str, steps: int) -> None:
    figure = ElementTree.fromstring(get("action-list").view({"actions": actions}).figure)
    boxes = {
        (float(box.get("x", "")), float(box.get("y", ""))): float(box.get("width", ""))
        for box in figure.iter(f"{SVG}rect")
    }
    texts = [text for text in figure.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert marked in [text.text for text in texts]
    named = [text for text in texts if not (text.text or "").isdigit()]
    assert len(named) == len(texts) - len(named) == steps, "a number above each"
    for text in named:
        middle = float(text.get("x", ""))
        wide = [width for (x, _), width in boxes.items() if x < middle < x + width]
        assert wide and min(wide) >= 7.4 * len(text.text or "")
        assert middle + min(wide) / 2 <= 648


@pytest.mark.parametrize("text", ["hello", "-", "0F0 0X1", "0F0\n" * 9, "0F0 " * 97])
def test_what_is_no_order_is_refused_beside_the_text(text: str) -> None:
    with pytest.raises(InputError) as caught:
        get("action-list").view({"actions": text})
    assert caught.value.argument == "actions"


def test_the_menu_fills_the_text_and_the_page_holds_both() -> None:
    editor = get("action-list")
    control = editor.controls[0]
    assert isinstance(control, Text)
    html = page_html(editor, {"actions": control.presets[2][1]})
    chosen = re.search(r"<option[^>]* selected>([^<]*)", html)
    assert chosen and chosen[1] == control.presets[2][0]
    area = re.search(r"<textarea[^>]*>([^<]*)</textarea>", html)
    assert area and area[1] == control.presets[2][1]


def test_a_step_is_what_the_two_streams_make_of_it() -> None:
    takes = 14 * 10e-6 + 14 / 8 * 576 * 2**20 / 50e9
    rows = {row[0]: row[1:] for row in get("bucket-size").view({"bucket": "600MiB"}).table.rows}
    assert rows["600 MiB (chosen)"][0] == "1"
    assert rows["600 MiB (chosen)"][3] == f"{1e3 * (37.5e-3 + takes):.3g} ms"
    assert rows["600 MiB (chosen)"][1] == rows["600 MiB (chosen)"][2]


def test_every_bar_stands_for_a_row() -> None:
    view = get("bucket-size").view({"bucket": "30MiB", "slow": "1.25", "contention": "0.25"})
    texts = [text.text for text in ElementTree.fromstring(view.figure).iter(f"{SVG}text")]
    for row in view.table.rows:
        assert row[0].split()[0] in texts
        assert row[4].split()[0] in texts
    assert "slow rank" in texts


def test_a_slow_rank_lengthens_computing_for_all() -> None:
    at = {
        slow: get("bucket-size").view({"bucket": "600MiB", "slow": slow}) for slow in ("1", "1.5")
    }
    last = {slow: float(view.table.rows[-1][4].split()[0]) for slow, view in at.items()}
    assert last["1.5"] - last["1"] == pytest.approx(0.5 * 37.5, abs=0.11)


def test_the_control_refuses_a_long_text() -> None:
    control = Text("lines", "Lines", (("one", "1"),), most=5)
    assert control.parse("12\n45") == "12\n45"
    for text in (" \n", "123456"):
        with pytest.raises(InputError, match="lines"):
            control.parse(text)


@pytest.mark.parametrize("transfer", ["0", "0.5"])
def test_a_pipeline_shows_the_same_whatever_was_shown_before(transfer: str) -> None:
    """Schedules are kept compiled; nothing of an earlier state may be seen. (S57)"""
    explorer = get("pipeline")
    state = {"schedule": "zbv", "stages": "4", "forward": "2", "transfer": transfer}
    before = explorer.view(state)
    explorer.view({**state, "forward": "0.5", "stages": "1"})
    explorer.view({**state, "forward": "0.5"})
    cached = explorer.view({**state, "backward_weight": "3"})
    assert cached.sentence != before.sentence
    assert explorer.view(state) == before
    times = StageTimes(1.0, 0.5, 0.5, float(transfer))
    makespan = run_order(make_order("zbv", 4, 8), times).makespan
    assert f": {format_seconds(makespan, 4)}, of which" in before.sentence
