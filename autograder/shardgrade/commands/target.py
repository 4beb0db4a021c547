"""Which course and which assignment a command is about: the options that all share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from shardbook.commands.options import json_option
from shardbook.errors import one_of
from shardbook.labs.registry import LABS, lab_named
from shardgrade import checkout
from shardgrade.gradebook import scores
from shardgrade.gradebook.tables import reading
from shardgrade.grading import repair
from shardgrade.layout import Layout, open_layout

Command = Callable[..., Any]


def course_options(command: Command) -> Command:
    """Add ``--course``, ``--db-url`` and ``--json``."""
    for option in (
        json_option,
        click.option(
            "--db-url",
            metavar="URL",
            help="The gradebook's database, such as postgresql+psycopg://…; by default the course's.",
        ),
        click.option(
            "--course",
            type=click.Path(path_type=Path, file_okay=False),
            help="The course folder; by default `course` in the checkout.",
        ),
    ):
        command = option(command)
    return command


def assignment_options(command: Command) -> Command:
    """Add LAB, ``--assignment`` and the options of the course."""
    named = click.option(
        "--assignment",
        metavar="NAME",
        help="An assignment of any nbgrader course, in place of LAB.",
    )
    return click.argument("lab", required=False)(named(course_options(command)))


def open_course(course: Path | None, db_url: str | None) -> Layout:
    """The course that is meant."""
    return open_layout(course or checkout.root() / "course", db_url)


def open_assignment(
    lab: str | None, assignment: str | None, course: Path | None, db_url: str | None
) -> tuple[Layout, str]:
    """The course and the assignment that are meant.

    Raises:
        click.UsageError: none is named, or two are.
        InputError: there is no such lab or course.
    """
    if (lab is None) == (assignment is None):
        raise click.UsageError(f"name a lab ({', '.join(LABS)}) or give --assignment NAME")
    name = lab_named(lab).id if lab else assignment
    assert name
    return open_course(course, db_url), name


def warn_of_stranger(layout: Layout, assignment: str, student: str) -> None:
    """Say so on the error stream if nobody of this id is known or has handed in."""
    with reading(layout) as connection:
        known = scores.students(connection)
    if student not in known and student not in layout.submissions(assignment):
        click.echo(f"Warning: {student} is in no roster and has handed in nothing.", err=True)


def check_assignment(layout: Layout, name: str) -> None:
    """Refuse the name of an assignment that the course doesn't have.

    Raises:
        InputError: there is no such assignment.
    """
    one_of("assignment", name, layout.assignments())


def check_cell(layout: Layout, assignment: str, name: str) -> None:
    """Refuse the name of a graded cell that the assignment doesn't have.

    Where the assignment has several notebooks, a cell is named ``notebook/cell``.

    Raises:
        InputError: there is no such cell.
    """
    paths = layout.notebooks(assignment)
    names = [
        f"{path.stem}/{cell['metadata']['nbgrader']['grade_id']}"
        for path in paths
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if repair.is_graded(cell)
    ]
    one_of("task", name, names if len(paths) > 1 else [n.partition("/")[2] for n in names])
