"""`shardbook pipeline`: the keys of its contract, the drawing, the trace, refusals."""

import json

import pytest

from shardbook.cli import main
from shardbook.schedules.pipeline import SCHEDULES


def pipeline(capsys, *arguments: str):
    with pytest.raises(SystemExit) as done:
        main(["pipeline", *arguments])
    out, err = capsys.readouterr()
    return done.value.code, out, err


def sized(schedule: str, *extra: str):
    return ["--schedule", schedule, "--stages", "4", "--micro-batches", "8", *extra]


@pytest.mark.parametrize(
    ("schedule", "makespan", "bubble", "live"),
    [
        ("gpipe", 33, 3 / 11, [8, 8, 8, 8]),
        ("1f1b", 33, 3 / 11, [4, 3, 2, 1]),
        ("interleaved-1f1b", 57, 3 / 19, [11, 9, 7, 5]),
        ("looped-bfs", 57, 3 / 19, [16, 16, 16, 16]),
        ("interleaved-zero-bubble", 51, 1 / 17, [8, 8, 8, 8]),
        ("zbv", 51, 1 / 17, [8, 8, 8, 8]),
        ("dualpipev", 54, 1 / 9, [9, 9, 9, 9]),
    ],
)
def test_four_stages_and_eight_micro_batches_as_json(capsys, schedule, makespan, bubble, live):
    code, out, _ = pipeline(capsys, *sized(schedule, "--json"))
    result = json.loads(out)
    assert code == 0
    assert result["makespan"] == makespan
    assert result["bubble_fraction"] == pytest.approx(bubble)
    assert result["bubble_over_ideal"] == pytest.approx(bubble / (1 - bubble))
    assert result["peak_live"] == live
    assert len(result["actions"]) == 4
    assert result["actions"][0][0] == "0F0"


def test_every_schedule_is_offered(capsys):
    code, out, _ = pipeline(capsys, "--help")
    assert code == 0
    assert all(name in " ".join(out.split()) for name in SCHEDULES)


def test_a_full_backward_takes_both_parts(capsys):
    times = ["--forward", "2", "--backward-input", "3", "--backward-weight", "5", "--json"]
    _, out, _ = pipeline(capsys, *sized("gpipe", *times))
    assert json.loads(out)["makespan"] == 11 * (2 + 3 + 5)


def test_table_and_drawing(capsys):
    code, out, _ = pipeline(capsys, *sized("1f1b"))
    assert code == 0
    assert "rank 3: 3F0 3B0 3F1" in out and "makespan 33 s; bubble 27.3%" in out
    code, out, _ = pipeline(capsys, *sized("1f1b", "--draw"))
    assert out.splitlines()[3].startswith("rank 3 .........3F03B0===3F13B1===")


def test_the_trace_has_every_action(capsys, tmp_path):
    path = tmp_path / "trace.json"
    code, _, _ = pipeline(capsys, *sized("1f1b", "--trace", str(path)))
    assert code == 0
    events = json.loads(path.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 4 * 8 * 2
    assert max(event["args"]["rank 0"] for event in events if event["name"] == "rank 0") == 4


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (sized("none"), "schedule"),
        (sized("gpipe", "--chunks", "2"), "chunks"),
        (sized("zbv", "--chunks", "3"), "chunks"),
        (sized("1f1b", "--micro-batches", "3"), "micro-batches"),
        (sized("interleaved-1f1b", "--micro-batches", "9"), "micro-batches"),
        (sized("dualpipev", "--micro-batches", "7"), "micro-batches"),
        (sized("gpipe", "--stages", "0"), "stages"),
        (sized("gpipe", "--forward", "-1"), "forward"),
        (sized("gpipe", "--limit", "5"), "0F5"),
        (sized("gpipe", "--draw", "--json"), "--draw does nothing with --json"),
        (["--schedule", "gpipe"], "stages"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, arguments, word):
    code, out, err = pipeline(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1 and word in err
