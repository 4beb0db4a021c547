"""`shardgrade request`: record and answer a student's regrade request."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from shardbook.commands.options import print_json
from shardgrade import disputes
from shardgrade.commands.target import (
    check_assignment,
    check_cell,
    course_options,
    open_course,
    warn_of_stranger,
)
from shardgrade.disputes import Request
from shardgrade.gradebook.backup import backup
from shardgrade.gradebook.tables import reading, writing
from shardgrade.safely import alone


@click.group()
def command() -> None:
    """Record and answer a student's regrade request."""


@command.command()
@click.argument("assignment")
@click.argument("student")
@click.option("--task", "grade_id", default="", help="The graded cell it is about.")
@click.option("--text", required=True, help="What the student says.")
@course_options
def add(
    assignment: str,
    student: str,
    grade_id: str,
    text: str,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
) -> None:
    """Record a request of STUDENT about ASSIGNMENT."""
    layout = open_course(course, db_url)
    check_assignment(layout, assignment)
    if grade_id:
        check_cell(layout, assignment, grade_id)
    warn_of_stranger(layout, assignment, student)
    with alone(layout):
        backup(layout, "request")
        with writing(layout) as connection:
            made = disputes.record(connection, student, assignment, grade_id, text)
    _show([made], as_json)


@command.command()
@click.argument("number", type=int)
@click.option("--text", required=True, help="What you answer.")
@course_options
def answer(number: int, text: str, course: Path | None, db_url: str | None, as_json: bool) -> None:
    """Answer request NUMBER. A changed grade is entered in formgrader and survives regrading."""
    layout = open_course(course, db_url)
    with alone(layout):
        backup(layout, "request")
        with writing(layout) as connection:
            answered = disputes.answer(connection, number, text)
    _show([answered], as_json)


@command.command("list")
@click.argument("assignment")
@course_options
def list_requests(assignment: str, course: Path | None, db_url: str | None, as_json: bool) -> None:
    """Show the requests about ASSIGNMENT, the open ones first."""
    with reading(open_course(course, db_url)) as connection:
        found = disputes.requests(connection, assignment)
    _show(found, as_json)


def _show(found: list[Request], as_json: bool) -> None:
    if as_json:
        print_json([_plain(one) for one in found])
        return
    for one in found:
        about = " ".join(filter(None, [one.assignment, one.grade_id]))
        click.echo(f"{one.id}. {one.made:%Y-%m-%d} {one.student}, {about}: {one.text}")
        click.echo(f"   answer: {one.answer}" if one.answer else "   open")


def _plain(one: Request) -> dict[str, Any]:
    times = {"made": one.made.isoformat(), "answered": one.answered and one.answered.isoformat()}
    return {**asdict(one), **times}
