"""What every command does with bad usage and with output that cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

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
