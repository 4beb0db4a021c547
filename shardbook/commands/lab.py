"""`shardbook lab`: list, start, check and pack the graded labs, and look at what they need."""

import importlib.metadata
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from shardbook.commands.options import json_option, print_json, print_table
from shardbook.errors import InputError
from shardbook.labs import workspace
from shardbook.labs.checking import Report
from shardbook.labs.registry import LABS, lab_named
from shardbook.labs.tasks import Lab

_notebook_option = click.option(
    "--notebook",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The lab's notebook; by default the one in the current folder.",
)


#: what a student needs → what for
_NEEDED: Final = {
    "shardbook": "the labs and their checks",
    "numpy": "the labs import it",
    "jupyterlab": "to edit a notebook",
    "ipykernel": "to run a notebook",
}
_PYTHON: Final = (3, 11)


@click.group()
def command() -> None:
    """List, start, check and pack the graded labs."""


@command.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Tell whether all is there that a lab needs.

    Exit code 1 if something is amiss.
    """
    packages = {name: _version(name) for name in _NEEDED}
    troubles = [
        f"{name} is not installed ({_NEEDED[name]}): {sys.executable} -m pip install {name}"
        for name, version in packages.items()
        if not version
    ]
    if sys.version_info < _PYTHON:
        troubles.append(f"Python {'.'.join(map(str, _PYTHON))} or newer is needed")
    if not os.access(".", os.W_OK):
        troubles.append("the current folder can't be written: go to another one")
    notebooks = [lab.notebook for lab in LABS.values() if Path(lab.notebook).is_file()]
    if as_json:
        told = {"python": platform.python_version(), "packages": packages}
        print_json({**told, "notebooks": notebooks, "troubles": troubles})
    else:
        click.echo(f"Python {platform.python_version()} at {sys.executable}")
        click.echo(", ".join(f"{name} {version}" for name, version in packages.items() if version))
        click.echo(f"labs in this folder: {', '.join(notebooks) or 'none yet'}")
        for trouble in troubles:
            click.echo(f"! {trouble}")
        if not troubles:
            click.echo("All that a lab needs is there.")
    ctx.exit(1 if troubles else 0)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


@command.command("list")
@json_option
def list_labs(as_json: bool) -> None:
    """Show the labs and their tasks."""
    if as_json:
        print_json([_described(lab) for lab in LABS.values()])
        return
    rows = [[lab.id, lab.title, f"{lab.minutes} min", f"{lab.points:g}"] for lab in LABS.values()]
    for lab in LABS.values():
        rows += [[t.id, t.title, f"{t.minutes} min", f"{t.points:g}"] for t in lab.tasks]
    print_table(["id", "title", "time", "points"], sorted(rows))


def _described(lab: Lab) -> dict[str, Any]:
    tasks = [
        {
            "id": task.id,
            "title": task.title,
            "function": task.function,
            "minutes": task.minutes,
            "points": task.points,
            "criteria": [asdict(criterion) for criterion in task.criteria],
        }
        for task in lab.tasks
    ]
    return {
        "id": lab.id,
        "title": lab.title,
        "notebook": lab.notebook,
        "minutes": lab.minutes,
        "points": lab.points,
        "tasks": tasks,
    }


@command.command()
@click.argument("lab")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("."))
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True),
    help="The student package (zip or unpacked); by default what is in the folder.",
)
@click.option("--force", is_flag=True, help="Overwrite the notebook if it is there.")
@json_option
def start(lab: str, folder: Path, source: Path | None, force: bool, as_json: bool) -> None:
    """Write the blank notebook of LAB into a folder."""
    path = workspace.start(lab_named(lab), folder, source, force=force)
    if as_json:
        print_json({"lab": lab, "notebook": str(path)})
        return
    click.echo(f"{path} is ready. Open it with: jupyter lab {path}")


@command.command()
@click.argument("lab")
@_notebook_option
@json_option
@click.pass_context
def check(ctx: click.Context, lab: str, notebook: Path | None, as_json: bool) -> None:
    """Check the answers of LAB on the visible examples.

    Exit code 1 unless all pass.
    """
    which = lab_named(lab)
    reports, failed = workspace.check_notebook(which, notebook or Path(which.notebook))
    if as_json:
        print_json({"lab": lab, "failed_cells": failed, "tasks": [_reported(r) for r in reports]})
    else:
        for line in [*(f"cell {cell}" for cell in failed), *reports]:
            click.echo(str(line))
    ctx.exit(0 if all(report.status == "passed" for report in reports) else 1)


def _reported(report: Report) -> dict[str, Any]:
    finding = None
    if report.finding:
        found = report.finding
        finding = {
            "rule": found.rule,
            "call": found.call,
            "hint": found.hint,
            **asdict(found.fault),
        }
    return {
        "task": report.task.id,
        "status": report.status,
        "kept": report.kept,
        "finding": finding,
    }


@command.command()
@click.argument("lab")
@_notebook_option
@click.option("--to", "target", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def pack(lab: str, notebook: Path | None, target: Path | None, as_json: bool) -> None:
    """Make the file to hand in; warns about unanswered tasks."""
    which = lab_named(lab)
    target = target or Path(f"{which.id}-submission.zip")
    if not target.parent.is_dir():
        raise InputError("--to", str(target), "the folder is not there")
    missing = workspace.pack(which, notebook or Path(which.notebook), target)
    if as_json:
        print_json({"lab": lab, "file": str(target), "unanswered": missing})
        return
    click.echo(f"{target} is ready to hand in.")
    if missing:
        click.echo(f"Warning: unanswered: {', '.join(missing)}.", err=True)
