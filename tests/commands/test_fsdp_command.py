"""`shardbook fsdp`: the keys of its contract, the drawing, the trace, refusals."""

import json

import pytest

from shardbook.cli import main

FOUR = [
    "--units",
    "4",
    "--forward",
    "2",
    "--backward",
    "4",
    "--all-gather",
    "1.5",
    "--reduce-scatter",
    "1.5",
]


def fsdp(capsys, *extra: str):
    with pytest.raises(SystemExit) as done:
        main(["fsdp", *FOUR, *extra])
    out, err = capsys.readouterr()
    return done.value.code, out, err


@pytest.mark.parametrize(
    ("extra", "makespan", "peak"),
    [
        (["--no-overlap"], 40.5, 7),
        ([], 36.0, 7),
        (["--backward-prefetch"], 27.0, 7),
        (["--backward-prefetch", "--limit", "2"], 27.0, 2),
        (["--backward-prefetch", "--limit", "2", "--issue", "0.1"], 27.5, 2),
        (["--no-overlap", "--regather-last"], 42.0, 8),
        (["--backward-prefetch", "--all-reduce", "1"], 28.0, 7),
        (["--no-overlap", "--no-reshard"], 36.0, 4),
        (["--no-overlap", "--micro-batches", "2", "--accumulate"], 75.0, 14),
    ],
)
def test_the_lectures_times_come_out_as_json(capsys, extra, makespan, peak):
    code, out, _ = fsdp(capsys, *extra, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["makespan"] == pytest.approx(makespan)
    assert result["compute"] == (48.0 if "--accumulate" in extra else 24.0)
    assert result["exposed_communication"] <= result["makespan"] - result["compute"] + 1e-9
    assert result["peak_unsharded_units"] == peak
    first = result["spans"][0]
    assert first == {
        "name": "m0:AG0" if "--accumulate" in extra else "AG0",
        "stream": "compute" if "--no-overlap" in extra else "communication",
        "kind": "communication",
        "start": pytest.approx(0.1 if "--issue" in extra else 0.0),
        "end": pytest.approx(1.6 if "--issue" in extra else 1.5),
    }


def test_the_table_says_the_same(capsys):
    code, out, _ = fsdp(capsys)
    assert code == 0
    assert "makespan, s" in out and "36" in out


def test_the_drawing_has_a_line_for_each_stream(capsys):
    code, out, _ = fsdp(capsys, "--backward-prefetch", "--limit", "2", "--draw")
    assert code == 0
    assert out.splitlines() == [
        "communication AG0AG1.AG2.AG3.AG2.........RS3AG1..RS2AG0..RS1.....RS0",
        "compute       ...F0==F1==F2==F3==B3======B2======B1======B0======...",
        "              0 to 27 s, 0.5 s a column",
    ]


def test_the_drawing_is_the_same_in_milliseconds_and_fills_communication(capsys):
    """A column is a third of the 1.5 ms that a reduce-scatter takes, with room for its name."""
    times = "--forward 2ms --backward 4ms --all-gather 3ms --reduce-scatter 1.5ms"
    with pytest.raises(SystemExit):
        main(["fsdp", "--units", "2", *times.split(), "--draw"])
    out, _ = capsys.readouterr()
    assert out.splitlines() == [
        "communication AG0---AG1---............RS1AG0---........RS0",
        "compute       ......F0==..F1==B1======.........B0======...",
        "              0 to 0.022 s, 0.0005 s a column",
    ]


def test_the_trace_opens_as_trace_events(capsys, tmp_path):
    path = tmp_path / "trace.json"
    code, _, _ = fsdp(capsys, "--trace", str(path))
    assert code == 0
    events = json.loads(path.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == 4 * 4 + 3
    assert max(event["ts"] + event["dur"] for event in spans) == 36.0e6
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} >= {"compute"}


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        (["--units", "0"], "units"),
        (["--units", "2.5"], "units"),
        (["--forward", "-1"], "forward"),
        (["--forward", "1e300"], "forward"),
        (["--limit", "0"], "limit"),
        (["--limit", "x"], "limit"),
        (["--issue", "nan"], "issue"),
        (["--trace", "/nowhere/trace.json"], "trace"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, extra, word):
    code, out, err = fsdp(capsys, *extra)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1 and word in err
