"""`shardbook ledger`: the JSON contract, the readable table, and one line for bad input."""

import json
from typing import Any

import pytest

from shardbook.cli import main


def ledger(capsys: Any, *arguments: str) -> Any:
    with pytest.raises(SystemExit) as caught:
        main(["ledger", *arguments, "--json"])
    assert caught.value.code == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("stage", "size"), [(0, 120), (1, 31.40625), (2, 16.640625), (3, 1.875)])
def test_the_json_keys_are_the_contract(capsys: Any, stage: int, size: float) -> None:
    found = ledger(capsys, "--parameters", "7.5e9", "--ranks", "64", "--stage", str(stage))
    assert list(found["bytes_per_rank"]) == [
        "weights",
        "gradients",
        "master_weights",
        "momentum",
        "variance",
    ]
    assert found["total_bytes_per_rank"] == sum(found["bytes_per_rank"].values()) == size * 10**9
    assert found["bytes_per_parameter"] == 16
    assert all(type(each) is int for each in found["bytes_per_rank"].values())


def test_padding_counts_on_the_fullest_rank(capsys: Any) -> None:
    found = ledger(capsys, "--units", "3168,9312,9312,9312,1552", "--ranks", "3", "--stage", "3")
    assert found["total_bytes_per_rank"] == 16 * 32_658 // 3
    assert (found["parameters"], found["padded_parameters"]) == (32_656, 32_658)


def test_a_user_recipe_and_written_units(capsys: Any) -> None:
    recipe = "weights=2,gradients=2,momentum=4"
    found = ledger(capsys, "--parameters", "8B", "--ranks", "4", "--stage", "1", "--recipe", recipe)
    assert found["total_bytes_per_rank"] == 40 * 10**9
    assert found["bytes_per_parameter"] == 8
    half = ledger(capsys, "--parameters", "2048", "--recipe", "mixed-adam-8bit")
    assert half["bytes_per_parameter"] == 10.00390625


def test_explain_lists_every_line(capsys: Any) -> None:
    found = ledger(capsys, "--parameters", "10", "--ranks", "4", "--stage", "2", "--explain")
    assert len(found["lines"]) == 10
    assert found["lines"][-1] == {
        "first_rank": 3,
        "last_rank": 3,
        "category": "variance",
        "what": "FP32",
        "bytes": 12,
        "owned_bytes": 4,
        "padding_bytes": 8,
        "replicated_bytes": 0,
        "since": "start",
        "until": "end of training",
    }


def test_without_json_a_table_can_be_read(capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["ledger", "--parameters", "7.5e9", "--ranks", "64", "--stage", "1", "--explain"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "7.5B parameters, stage 1 on 64 ranks, Mixed precision, Adam (mixed-adam)" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["weights", "2", "15,000,000,000", "15", "GB", "replicated"] in lines
    assert ["momentum", "4", "468,750,000", "468.8", "MB", "owned"] in lines
    assert ["total", "16", "31,406,250,000", "31.41", "GB"] in lines
    assert "ranks 0–63: variance (FP32) 468,750,000 B, 468,750,000 owned" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--parameters 0", ["parameters is 0", "1,000,000,000,000,000"]),
        ("--parameters -8", ["parameters is -8"]),
        ("--parameters 1.5", ["parameters is 1.5", "whole"]),
        ("--parameters 1e16", ["parameters is 10000000000000000"]),
        ("--parameters 1e999", ["parameters is 1000"]),
        ("--parameters nan", ["--parameters is 'nan'"]),
        ("--parameters inf", ["--parameters is 'inf'"]),
        ("--parameters many", ["--parameters is 'many'", "7.5e9"]),
        ("--parameters 8 --ranks 1.5", ["ranks is 1.5", "1,000,000"]),
        ("--parameters 8 --ranks 0", ["ranks is 0"]),
        ("--parameters 8 --ranks nan", ["--ranks is 'nan'", "1 to 1,000,000"]),
        ("--parameters 8 --ranks 1000001", ["ranks is 1000001"]),
        ("--parameters 8 --stage 4", ["stage is 4", "0 to 3"]),
        ("--parameters 8 --stage zero", ["--stage is 'zero'", "0 to 3"]),
        ("--parameters 8 --recipe adam", ["recipe is 'adam'", "mixed-adam"]),
        ("--parameters 8 --recipe weights=two", ["recipe is 'weights=two'"]),
        ("--parameters 8 --recipe bias=2", ["recipe category is 'bias'", "weights"]),
        ("--units 8,x", ["--units is 'x'"]),
        ("--units 8,", ["--units is ''"]),
        ("--units 8,0", ["units is 0"]),
        ("--units 8 --parameters 8", ["either --parameters or --units"]),
        ("", ["either --parameters or --units"]),
        ("--parameters 8 --nonsense", ["--nonsense"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: Any, arguments: str, words: list[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["ledger", *arguments.split()])
    streams = capsys.readouterr()
    assert caught.value.code == 2
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    assert all(word in streams.err for word in words)
