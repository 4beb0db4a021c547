"""The instructors' page names commands and options that exist, and all of them."""

import re
from pathlib import Path

import click
import pytest
from shardgrade import cli

PAGE = Path(__file__).parents[3] / "chapters" / "reference" / "instructors.md"
#: every call of shardgrade on the page, in a block or within a sentence
CALLS = re.findall(r"(?m)(?:^|`)shardgrade ([a-z][^`#\n]*)", PAGE.read_text())


def _command(words: list[str]) -> click.Command:
    command: click.Command = cli.cli
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize("call", sorted(set(CALLS)))
def test_each_command_and_option_exists(call: str) -> None:
    words = re.sub(r'"[^"]*"', "TEXT", call).split()
    command = _command(words)
    known = {name for option in command.params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_each_command_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert not [
        name
        for name in cli.COMMANDS
        if f"shardgrade {name}" not in page and f"`{name}`" not in page
    ]


def test_each_export_format_and_rung_is_on_the_page() -> None:
    from shardgrade.export import FORMATS
    from shardgrade.sandbox.ladder import RUNGS

    page = PAGE.read_text()
    assert all(f"| `{name}` |" in page for name in (*FORMATS, *RUNGS))
