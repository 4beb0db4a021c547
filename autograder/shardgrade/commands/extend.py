"""`shardgrade extend`: give one student more time."""

from datetime import timedelta
from pathlib import Path

import click

from shardbook.commands.options import print_json
from shardbook.errors import real
from shardgrade import late
from shardgrade.commands.target import (
    check_assignment,
    course_options,
    open_course,
    warn_of_stranger,
)
from shardgrade.gradebook.backup import backup
from shardgrade.gradebook.tables import writing
from shardgrade.safely import alone


@click.command()
@click.argument("assignment")
@click.argument("student")
@click.option("--hours", type=float, required=True, help="Beyond the due date; 0 takes it back.")
@click.option("--reason", default="", help="Kept in the gradebook; students don't see it.")
@course_options
def command(
    assignment: str,
    student: str,
    hours: float,
    reason: str,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
) -> None:
    """Give STUDENT more time for ASSIGNMENT, in place of what they had; penalties follow."""
    time = timedelta(hours=real("hours", hours, 0.0, 10_000.0))
    layout = open_course(course, db_url)
    check_assignment(layout, assignment)
    warn_of_stranger(layout, assignment, student)
    with alone(layout):
        backup(layout, f"extend-{assignment}")
        with writing(layout) as connection:
            late.extend(connection, assignment, student, time, reason)
            late.apply(connection, assignment)
    if as_json:
        print_json({"assignment": assignment, "student": student, "seconds": time.total_seconds()})
        return
    click.echo(f"{student} has {hours:g} h more for {assignment}.")
