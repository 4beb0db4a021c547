"""The `shardgrade` command."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardbook import cli as shell
from shardbook.commands.options import json_option, print_json, print_table
from shardbook.labs.registry import lab_named
from shardbook.labs.tasks import Lab
from shardgrade import __version__, checkout

if TYPE_CHECKING:
    from shardgrade.execution import Record

course_option = click.option(
    "--course",
    type=click.Path(path_type=Path, file_okay=False),
    help="The course folder; by default `course` in the checkout.",
)


@click.group()
@click.version_option(__version__)
def cli() -> None:
    """Release labs, grade submissions, write feedback."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    shell.run(cli, "shardgrade", arguments)


def _folder(course: Path | None) -> Path:
    return course or checkout.root() / "course"


@cli.command()
@click.argument("lab")
@course_option
@json_option
def release(lab: str, course: Path | None, as_json: bool) -> None:
    """Write LAB's student version and the package to hand out."""
    which = lab_named(lab)
    from shardgrade.release import release as make

    made = make(which, _folder(course))
    if as_json:
        files = {name: str(path) for name, path in asdict(made).items()}
        print_json({"lab": lab, "points": which.points, **files})
        return
    click.echo(f"Hand out {made.package}")


@cli.command()
@click.argument("lab")
@course_option
@json_option
def grade(lab: str, course: Path | None, as_json: bool) -> None:
    """Grade every submission of LAB; prints a row for each."""
    which = lab_named(lab)
    from shardgrade import execution

    def progress(record: execution.Record) -> None:
        click.echo(f"{record.student}: {record.score:g} of {record.max_score:g}", err=True)

    records = execution.stock(_folder(course), which.id, progress)
    if as_json:
        print_json([asdict(record) for record in records])
        return
    show_records(records, which)


def show_records(records: "list[Record]", lab: Lab) -> None:
    """Print the table of scores, then what was put right or went wrong."""
    rows = [
        [r.student, f"{r.score:g}", *(f"{r.scores.get(task.grade_id, 0):g}" for task in lab.tasks)]
        for r in records
    ]
    print_table(["student", "score", *(task.id for task in lab.tasks)], rows)
    for record in records:
        for notice in record.notices:
            click.echo(f"{record.student}: {notice}")


@cli.command()
@click.argument("lab")
@course_option
@json_option
def feedback(lab: str, course: Path | None, as_json: bool) -> None:
    """Write a feedback page for every graded submission of LAB."""
    which = lab_named(lab)
    from shardgrade import execution

    pages = execution.write_feedback(_folder(course), which.id)
    if as_json:
        print_json([{"student": s, "files": [str(f) for f in files]} for s, files in pages.items()])
        return
    for student, files in pages.items():
        click.echo(f"{student}: {', '.join(map(str, files))}")
