"""`shardgrade late`: due date and late policy of a lab."""

from dataclasses import asdict
from pathlib import Path

import click

from shardbook.commands.options import print_json, refuse_idle
from shardgrade import late
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.gradebook import scores
from shardgrade.gradebook.backup import backup
from shardgrade.gradebook.tables import reading, writing
from shardgrade.layout import Layout
from shardgrade.safely import alone


@click.command()
@assignment_options
@click.option("--due", metavar="TIME", help="Such as 2026-10-01T23:59+02:00; a zone is needed.")
@click.option("--per-day", type=float, help="The part of the points that each day begun costs: 0.1")
@click.option("--grace-minutes", type=float, default=0.0, help="Lateness that costs nothing.")
@click.option("--at-most", type=float, default=1.0, help="The part that is lost at most.")
def command(
    lab: str | None,
    assignment: str | None,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
    due: str | None,
    per_day: float | None,
    grace_minutes: float,
    at_most: float,
) -> None:
    """Show or set when LAB is due and what lateness costs; penalties are worked out anew."""
    layout, name = open_assignment(lab, assignment, course, db_url)
    policy = None if per_day is None else late.Policy(per_day, 60 * grace_minutes, at_most)
    if per_day is None:
        refuse_idle(["grace_minutes", "at_most"], "without --per-day")
    moment = None if due is None else late.moment("due", due)
    if moment or policy:
        with alone(layout):
            backup(layout, f"late-{name}")
            with writing(layout) as connection:
                if moment:
                    late.set_due(connection, name, moment)
                if policy:
                    late.set_policy(connection, name, policy)
                late.apply(connection, name)
    _tell(layout, name, as_json)


def _tell(layout: Layout, name: str, as_json: bool) -> None:
    with reading(layout) as connection:
        due = scores.due_date(connection, name)
        policy = late.policy_of(connection, name)
        more = late.extensions(connection, name)
        graded = scores.submissions(connection, name)
    penalties = {one.student: one.penalty for one in graded.values() if one.penalty}
    due_text = f"{due.isoformat()}Z" if due else None
    if as_json:
        extensions = {student: time.total_seconds() for student, time in more.items()}
        told = {"due": due_text, "policy": policy and asdict(policy)}
        print_json({**told, "extensions": extensions, "penalties": penalties})
        return
    click.echo(f"due: {due_text or 'no date'}")
    click.echo(str(policy or "no late policy"))
    for student, time in more.items():
        click.echo(f"extension: {student}: {time.total_seconds() / 3600:g} h")
    for student, points in penalties.items():
        click.echo(f"penalty: {student}: {points:g}")
