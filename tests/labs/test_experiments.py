"""Experiments beside the budget one: faults, messages, all simulations, refused configurations."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from labs import config
from labs.messages import run_messages
from labs.run import EXPERIMENTS, command
from shardbook.cli import run
from shardbook.explorers.registry import get
from shardbook.training.settings import LAYERS

LABS = Path(__file__).parents[2] / "labs"
FAULTS = ("slow-link", "slow-rank", "whole-model-gather", "save-peak", "hang")
OTHERS = [name for name in EXPERIMENTS if name != "systems"]
SLOW = {
    "strategy": "zero3", "ranks": 4, "layers": [4, 6, 2], "rows": 2,
    "seconds": {"load": "100us", "forward": "50us", "backward": "100us", "update": "20us"},
    "latency": "5us", "bandwidth": "1GB/s", "spread": 0.02, "healthy_runs": 3, "probe": "1MiB",
}  # fmt: skip
NETWORK = {"layers": [4, 8, 4], "rows": 2}
SMALL = {
    "slow-link": SLOW | {"place": 1, "times": 10},
    "slow-rank": SLOW | {"rank": 1, "times": 5},
    "whole-model-gather": NETWORK | {"ranks": 2},
    "save-peak": NETWORK | {"ranks": 2, "strategy": "zero2", "rank": 1},
    "hang": NETWORK | {"ranks": 3, "strategy": "dp", "rank": 2, "faults": ["skipped-collective"]},
    "messages": NETWORK | {"nodes": 2, "cards_per_node": 2, "element_bytes": 2},
    "demos": {"controls": {"ledger-of-one-rank": {"stage": "3"}}},
}


def made(name, out, path, *, seed=7):
    arguments = [
        "--experiment",
        name,
        "--config",
        str(path),
        "--seed",
        str(seed),
        "--out",
        str(out),
    ]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return json.loads((out / "results.json").read_text()), result.output


def written(tmp_path, name, **changes):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SMALL[name] | changes))
    return path


def refused(name, path, tmp_path, capsys):
    arguments = ["--experiment", name, "--config", str(path), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stop:
        run(command, "labs.run", arguments)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1 and "Traceback" not in error
    assert not (tmp_path / "out").exists()
    return error


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_the_published_configuration_gives_the_same_bytes_twice(name, tmp_path):
    """(S67, S70, S76)"""
    path = LABS / "configs" / f"{name}.json"
    for out in ("one", "two"):
        results, said = made(name, tmp_path / out, path)
    files = sorted(each.name for each in (tmp_path / "one").iterdir())
    assert files == sorted(each.name for each in (tmp_path / "two").iterdir())
    for each in files:
        assert (tmp_path / "one" / each).read_bytes() == (tmp_path / "two" / each).read_bytes()
    tables = {key: rows for key, rows in results.items() if isinstance(rows, list)}
    assert {f"{table}.csv" for table in tables} < set(files) and said
    for table, rows in tables.items():
        with (tmp_path / "one" / f"{table}.csv").open(newline="") as file:
            assert len(list(csv.DictReader(file))) == len(rows) > 0
    if name in FAULTS:
        for trials in zip(*[iter(tables["trials"])] * 2, strict=True):
            assert all(trial["alarms"] for trial in trials)
            assert [trial["refuted"] for trial in trials] == [False, True]
        for fault in tables["suspicions"]:
            ours = [row for row in tables["metrics"] if row["fault"] == fault["fault"]]
            (shown,) = [row for row in ours if row["shows"]]
            assert shown["metric"] == fault["metric"]
            assert shown["faulty"] > fault["threshold"] >= shown["healthy_high"]
            assert any(row["moved"] == "no" for row in ours)


def test_the_seed_draws_the_healthy_runs_and_so_the_threshold(tmp_path):
    path = written(tmp_path, "slow-rank")
    one, other = (made("slow-rank", tmp_path / str(seed), path, seed=seed)[0] for seed in (1, 2))
    assert one["suspicions"][0]["threshold"] != other["suspicions"][0]["threshold"]


def test_messages_on_two_nodes_of_four_cards_are_those_by_hand():
    """2·3/4 of 16 × 96 × 2 B; half of a quarter, or seven eighths, of 32,656 × 2 B (S70)."""
    tables = run_messages(config.Messages(LAYERS, 16, 2, 4, 2), 0)
    wide = next(row for row in tables["messages"] if row["message"] == "activation")
    assert (wide["bytes"], wide["sent_counted"], wide["between_nodes_bytes"]) == (3072, 4608, 0)
    sums = {row["axis"]: row for row in tables["a_step"] if row["message"] == "gradient"}
    assert sums["DP"]["sent_counted"] == 65_312 // 4 // 2
    assert sums["DP over all"]["sent_counted"] == 65_312 * 7 // 8
    for row in tables["messages"]:
        assert row["sent_by_hand"] == row["sent_counted"]
    groups = [(row["axis"], row["ranks"], row["leaves_the_node"]) for row in tables["groups"]]
    assert groups[:4] == [
        ("TP", "0 1 2 3", False), ("TP", "4 5 6 7", False), ("DP", "0 4", True), ("DP", "1 5", True)
    ]  # fmt: skip


def test_all_simulations_are_listed_drawn_and_moved_by_controls(tmp_path):
    """(S76)"""
    path = written(tmp_path, "demos")
    results, said = made("demos", tmp_path / "out", path)
    for each in results["simulations"]:
        assert results[each["simulation"]] and each["engine"] and each["shows"] in said
    assert results["zero-table-1"][-1]["computed_bytes"] == 16 * 10**12 // 1024
    sent = {row["strategy"]: row["sent_bytes"] for row in results["five-strategies"]}
    assert sent == {
        "dp": 97_968, "zero1-all-reduce": 146_952, "zero1": 97_968, "zero2": 97_968, "zero3": 146_952
    }  # fmt: skip
    default, given = (get("ledger-of-one-rank").view(raw) for raw in ({}, {"stage": "3"}))
    cells = [tuple(row.values()) for row in results["ledger-of-one-rank"]]
    assert cells == list(given.table.rows) != list(default.table.rows)
    drawn = (tmp_path / "out" / "ledger-of-one-rank.svg").read_text()
    assert drawn == given.figure != default.figure


@pytest.mark.parametrize("name", OTHERS)
def test_a_missing_or_an_unknown_field_is_named(name, tmp_path, capsys):
    for field in SMALL[name]:
        path = tmp_path / "config.json"
        path.write_text(json.dumps({k: v for k, v in SMALL[name].items() if k != field}))
        assert f"'{field}': is missing" in refused(name, path, tmp_path, capsys)
    path = written(tmp_path, name, colour="red")
    assert "colour" in refused(name, path, tmp_path, capsys)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("slow-link", {"place": 4}),
        ("slow-link", {"place": -1}),
        ("slow-link", {"place": "0"}),
        ("slow-link", {"times": 0.5}),
        ("slow-link", {"ranks": 3}),
        ("slow-link", {"ranks": 65}),
        ("slow-link", {"seconds": 1}),
        ("slow-link", {"seconds": {"sleep": "1s"}}),
        ("slow-link", {"seconds": {"load": 1}}),
        ("slow-link", {"latency": "-1us"}),
        ("slow-link", {"bandwidth": 5}),
        ("slow-link", {"bandwidth": "fast"}),
        ("slow-link", {"spread": None}),
        ("slow-link", {"healthy_runs": 0}),
        ("slow-link", {"probe": "0B"}),
        ("slow-link", {"strategy": "zero4"}),
        ("slow-link", {"strategy": 3}),
        ("slow-rank", {"rank": 4}),
        ("slow-rank", {"times": "five"}),
        ("slow-rank", {"seconds": {"load": "1s"}}),
        ("whole-model-gather", {"ranks": 1}),
        ("whole-model-gather", {"layers": [4, 4]}),
        ("whole-model-gather", {"layers": []}),
        ("whole-model-gather", {"layers": 4}),
        ("whole-model-gather", {"rows": 0}),
        ("save-peak", {"rank": 2}),
        ("save-peak", {"rank": True}),
        ("hang", {"faults": []}),
        ("hang", {"faults": ["bit-flip"]}),
        ("hang", {"faults": ["skipped-collective"] * 2}),
        ("hang", {"ranks": 2, "rank": 1}),
        ("hang", {"layers": [2, 2, 2], "faults": ["swapped-collectives"]}),
        ("messages", {"nodes": 1}),
        ("messages", {"cards_per_node": 3}),
        ("messages", {"layers": [4]}),
        ("messages", {"element_bytes": 0}),
        ("demos", {"controls": []}),
        ("demos", {"controls": {"nothing": {}}}),
        ("demos", {"controls": {"ledger-of-one-rank": {"ranks": 8}}}),
        ("demos", {"controls": {"ledger-of-one-rank": {"ranks": "none"}}}),
        ("demos", {"controls": {"ledger-of-one-rank": {"cards": "8"}}}),
    ],
)
def test_a_field_that_is_not_allowed_is_one_line_and_exit_2(name, changes, tmp_path, capsys):
    refused(name, written(tmp_path, name, **changes), tmp_path, capsys)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"a": NaN}', "[" * 100_000, "\x00"])
def test_a_file_that_is_no_configuration_is_one_line_and_exit_2(text, tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(text)
    refused("hang", path, tmp_path, capsys)


def test_a_file_that_is_not_text_is_one_line_and_exit_2(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe\x00")
    refused("hang", path, tmp_path, capsys)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_list_the_configuration_and_the_readme_name_each_experiment(name):
    """(S67)"""
    assert f"{name}: " in CliRunner().invoke(command, ["--list"]).output
    given = json.loads((LABS / "configs" / f"{name}.json").read_text())
    text = (LABS / "README.md").read_text()
    assert f"`{name}`" in text or f"--experiment {name}" in text
    assert [field for field in given if f"`{field}`" not in text] == []
