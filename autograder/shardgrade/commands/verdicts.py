"""`shardgrade verdicts`: how sure the hidden checks are, for the staff."""

import importlib
import sys
from dataclasses import asdict
from typing import Any

import click

from shardbook.commands.options import json_option, print_json
from shardbook.errors import InputError
from shardbook.labs.registry import lab_named
from shardgrade import checkout


@click.command()
@click.argument("lab")
@json_option
def command(lab: str, as_json: bool) -> None:
    """Show what the hidden checks of LAB make of answers that are known to be wrong or right.

    Each wrong answer has one typical mistake. Its name tells what the checks look for: for staff
    only. The exit code is one if a wrong answer passes or a right one is stopped.
    """
    rows = _rows(lab_named(lab).id)
    mistaken = [row for row in rows if (row.verdict == "passed") != row.right]
    if as_json:
        print_json([{**asdict(row), "verdict": row.verdict} for row in rows])
    else:
        for task in dict.fromkeys(row.task for row in rows):
            click.echo(task)
            for row in rows:
                if row.task == task:
                    click.echo(_line(row))
        click.echo(f"{len(rows)} answers, {len(mistaken)} judged wrongly.")
    if mistaken:
        sys.exit(1)


def _line(row: Any) -> str:
    kind = "right" if row.right else "wrong"
    by = f" by {', '.join(row.missed)}" if row.missed else ""
    return f"  {kind}  {row.points:>4g} of {row.of:g}  {row.answer}: {row.verdict}{by}"


def _rows(lab: str) -> list[Any]:
    folder = checkout.root() / "tests" / "autograder"
    if not (folder / f"killtable_{lab}.py").is_file():
        raise InputError("folder", str(folder), "the answers are with the tests of the checkout")
    sys.path.insert(0, str(folder))
    rows: list[Any] = importlib.import_module("killtable").verdicts([lab])
    return rows
