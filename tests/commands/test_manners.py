"""What every command does with bad usage and with output that cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

from shardbook.schedules.fsdp import Policy, equal_units, fsdp_run

SHARDBOOK = [sys.executable, "-c", "from shardbook.cli import main; main()"]
PIPELINE = ["pipeline", "--schedule", "gpipe", "--stages", "4", "--micro-batches", "8"]


def run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHARDBOOK, *arguments], stderr=subprocess.PIPE, text=True, timeout=60, **more
    )


@pytest.mark.parametrize("arguments", [(), ("offload",), ("lab",)])
def test_a_missing_command_is_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr == "shardbook: give a command; --help lists them\n"


@pytest.mark.parametrize("group", ["offload", "lab"])
def test_the_help_lists_commands_in_whole_sentences(group: str) -> None:
    listed = run(group, "--help", stdout=subprocess.PIPE).stdout.partition("Commands:\n")[2]
    assert listed and all(line.endswith(".") for line in listed.splitlines())
    assert "..." not in listed


@pytest.mark.parametrize("arguments", [("foo",), ("ledger", "--no-such"), ("ledger",)])
def test_bad_usage_is_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("ledger", "--ranks", "4", "--stage", "1", "--ranks=8"), "--ranks"),
        (("collective", "all-reduce", "--ranks", "4", "--ranks", "8"), "--ranks"),
        (("lab", "list", "--json", "--json"), "--json"),
    ],
)
def test_an_option_given_twice_is_refused(arguments: tuple[str, ...], option: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr == f"shardbook: {option} is given 2 times\n"


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="the full disk is simulated by /dev/full"
)
@pytest.mark.parametrize("form", [[], ["--json"], ["--draw"]])
def test_a_full_disk_is_one_line(form: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = run(*PIPELINE, *form, stdout=full)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_silent() -> None:
    command = " ".join(f"'{word}'" for word in [*SHARDBOOK, *PIPELINE[:-1], "500"])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1"], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""


FSDP = "fsdp --units 4 --forward 2 --backward 4 --all-gather 1 --reduce-scatter 1"
COST = "cost --parameters 1e9 --tokens 1T"


@pytest.mark.parametrize(
    ("line", "option", "why"),
    [
        (f"{FSDP} --no-reshard --limit 2", "--limit", "with --no-reshard"),
        (f"{FSDP} --no-reshard --regather-last", "--regather-last", "with --no-reshard"),
        (f"{FSDP} --no-reshard --backward-prefetch", "--backward-prefetch", "with --no-reshard"),
        (f"{FSDP} --accumulate", "--accumulate", "with one micro-batch"),
        (f"{FSDP} --draw --json", "--draw", "with --json"),
        ("train --steps 1 --reduce-each", "--reduce-each", "with one micro-batch"),
        ("train --steps 1 --fault-rank 2", "--fault-rank", "without --fault"),
        ("train --steps 1 --fault-step 0", "--fault-step", "without --fault"),
        (f"{COST} --duty 0.4", "--duty", "without --purchase"),
        ("cost --reported --tokens 1T", "--tokens", "with --reported"),
    ],
)
def test_an_option_that_does_nothing_here_is_refused(line: str, option: str, why: str) -> None:
    done = run(*line.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"shardbook: {option} does nothing {why}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        f"{FSDP} --no-reshard --limit 2 --micro-batches 2 --accumulate --json",
        "train --steps 1 --micro-batches 2 --reduce-each --json",
        "train --steps 1 --fault bit-flip --fault-rank 2 --fault-step 0 --json",
        f"{COST} --purchase 30000 --duty 0.4",
    ],
)
def test_the_same_options_are_taken_where_they_matter(line: str) -> None:
    done = run(*line.split(), stdout=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_command_calls_idle_changes_nothing_in_the_engine() -> None:
    units = equal_units(4, forward=2, backward=4, all_gather=3, reduce_scatter=1.5, all_reduce=0)
    kept = fsdp_run(units, Policy(reshard=False, issue=0.1))
    for idle in ({"limit": 1}, {"limit": 2}, {"backward_prefetch": 1}, {"regather_last": True}):
        run_ = fsdp_run(units, Policy(reshard=False, issue=0.1, **idle))
        assert (run_.makespan, run_.peaks) == (kept.makespan, kept.peaks)
    once = fsdp_run(units, Policy(accumulate=True))
    plain = fsdp_run(units, Policy())
    assert (once.makespan, once.peaks) == (plain.makespan, plain.peaks)


def test_an_option_given_twice_is_refused_by_an_experiment_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labs.run", "--list", "--seed", "7", "--seed", "8"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "labs.run: --seed is given 2 times\n")


def test_a_folder_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    for line in (
        "lab start n44 --from /no/such",
        "lab pack n44 --to /no/such/x.zip",
    ):
        done = run(*line.split(), cwd=tmp_path)
        assert done.returncode == 2
        assert "/no/such" in done.stderr and done.stderr.count("\n") == 1
