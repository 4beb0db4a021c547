"""`shardbook train`: the contract's keys and values, and bad input."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from shardbook.commands.train import command
from shardbook.errors import InputError
from shardbook.training.faults import FAULTS, HANGS
from shardbook.training.settings import Settings
from shardbook.training.trainer import Trainer

CONTRACT = [
    "parameters",
    "padded_parameters",
    "weights_sha256",
    "loss",
    "bytes_after_backward",
    "peak_bytes",
    "peak_at",
    "sent_bytes_per_rank",
    "rounds",
]
QUICK = ["--layers", "6,9,4", "--steps", "3", "--samples", "4"]


def train(*arguments):
    result = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize(
    ("strategy", "values"),
    [
        ("dp", (522_496, 559_744, "update, unit 1", 97_968, 30)),
        ("zero1-all-reduce", (228_592, 237_904, "update, unit 1", 146_952, 45)),
        ("zero1", (228_592, 237_904, "update, unit 1", 97_968, 30)),
        ("zero2", (179_608, 191_992, "backward, unit 1", 97_968, 30)),
        ("zero3", (130_624, 161_632, "backward, unit 1", 146_952, 45)),
    ],
)
def test_the_contracts_keys_hold_the_lectures_numbers(strategy, values):
    result = train("--strategy", strategy, "--ranks", "4", "--steps", "2", "--seed", "0")
    assert set(CONTRACT) <= set(result)
    assert (result["parameters"], result["padded_parameters"]) == (32_656, 32_656)
    assert tuple(result[key] for key in CONTRACT[4:]) == values
    assert sum(result["alive_at_peak"].values()) == result["peak_bytes"]


def test_weights_and_loss_are_the_trainers():
    result = train(*QUICK, "--strategy", "zero2", "--ranks", "3", "--seed", "7")
    trainer = Trainer(Settings("dp", 3, seed=7, layers=(6, 9, 4), samples=4))
    assert result["loss"] == trainer.run(3)[-1].loss
    assert result["weights_sha256"] == trainer.weights_sha256()
    assert result["padded_parameters"] == 63 + 42


def test_the_seed_decides_the_weights():
    seeds = {train(*QUICK, "--seed", str(s))["weights_sha256"] for s in (0, 1, 0)}
    assert len(seeds) == 2


def test_options_reach_the_run():
    result = train(*QUICK, "--shard", "2", "--micro-batches", "2", "--reduce-each")
    plain = train(*QUICK)
    assert result["rounds"] != plain["rounds"]
    assert train(*QUICK, "--tokens", "4,1,0,2")["loss"] != plain["loss"]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_reported_with_what_is_seen_and_what_finds_it(fault):
    result = train(*QUICK, "--strategy", "zero2", "--fault", fault)
    assert set(CONTRACT) <= set(result)
    report = result["fault"]
    assert report["name"] == fault
    assert report["silent"] == (fault not in HANGS)
    assert report["found_by"] == report["findings"][0]["check"]
    assert report["seen"]
    assert report["healthy"]["loss"] is not None
    assert (result["loss"] is None) == (fault in HANGS)


def test_without_json_there_is_a_table_and_the_picture_of_a_hang():
    result = CliRunner().invoke(
        command, [*QUICK, "--fault", "skipped-collective", "--fault-step", "1"]
    )
    assert result.exit_code == 0
    for text in ("sent bytes per rank", "wait in", "✗", "found by"):
        assert text in result.output


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--ranks", "0"], "ranks"),
        (["--ranks", "1e3"], "ranks"),
        (["--ranks", "2.5"], "ranks"),
        (["--ranks", "four"], "ranks"),
        (["--steps", "0"], "steps"),
        (["--steps", "1e9"], "steps"),
        (["--seed", "-1"], "seed"),
        (["--layers", "32"], "layers"),
        (["--layers", "32,x"], "layers"),
        (["--layers", "32,0,1"], "layers"),
        (["--layers", ""], "layers"),
        (["--strategy", "zero4"], "strategy"),
        (["--fault", "unplugged"], "fault"),
        (["--fault", "bit-flip", "--ranks", "1"], "ranks"),
        (["--fault", "bit-flip", "--fault-rank", "4"], "fault rank"),
        (["--fault", "missing-parameter-all-gather", "--strategy", "dp"], "fault"),
        (["--shard", "3"], "shard"),
        (["--tokens", "1,2"], "tokens"),
        (["--samples", "0"], "samples"),
    ],
)
def test_bad_input_names_its_argument(arguments, names):
    result = CliRunner().invoke(command, arguments)
    error = result.exception
    if isinstance(error, InputError):
        assert error.argument.lstrip("-") == names
    else:
        assert result.exit_code == 2
        assert names in result.output


def test_bad_input_is_one_line_on_stderr_and_exit_code_2():
    done = subprocess.run(
        [sys.executable, "-c", "from shardbook.cli import main; main()", "train", "--ranks", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "shardbook: ranks is 0: give a whole number from 1 to 64\n"
