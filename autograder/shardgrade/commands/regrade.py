"""`shardgrade regrade`: what a changed check or lab would change, and its application."""

import dataclasses
from pathlib import Path
from typing import Any

import click

from shardbook.commands.options import print_json
from shardgrade import regrade, run
from shardgrade.commands.grade import Teller, apply_late, executor, grading_options, wanted
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.safely import alone


@click.command()
@assignment_options
@grading_options
@click.option("--apply", "applied", is_flag=True, help="Record the changes.")
def command(
    lab: str | None,
    assignment: str | None,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
    applied: bool,
    **how: Any,
) -> None:
    """Grade LAB again where lab, check or conditions changed, and list the grades that change.

    Nothing is recorded without --apply. People's scores and comments are kept either way.
    """
    layout, name = open_assignment(lab, assignment, course, db_url)
    with alone(layout):
        kept = regrade.kept_at(layout, name)
        execute = regrade.remembering(kept, executor(how))
        planned = run.plan(layout, name, wanted(how))
        if applied:
            progress = run.grade(layout, name, planned, execute, Teller())
            apply_late(layout, name, set())
            kept.unlink(missing_ok=True)
        else:
            progress = regrade.preview(layout, name, planned, execute, Teller())
    changes = sorted(progress.changes, key=lambda one: (one.student, one.grade_id))
    if as_json:
        told = [dataclasses.asdict(change) for change in changes]
        print_json({"graded": progress.done, "applied": applied, "changes": told})
        return
    for change in changes:
        click.echo(str(change))
    click.echo(
        f"{progress.done} graded again, {planned.unchanged} unchanged, {len(changes)} changed grades"
        + (", recorded." if applied else "; --apply records them.")
    )
