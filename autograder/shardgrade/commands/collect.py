"""`shardgrade collect`: take in what was handed in."""

import csv
from dataclasses import asdict
from pathlib import Path

import click

from shardbook.commands.options import print_json, print_table
from shardbook.errors import InputError
from shardgrade import late
from shardgrade.collecting.intake import Rules, collect
from shardgrade.collecting.naming import FORMATS
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.gradebook import scores
from shardgrade.gradebook.tables import reading
from shardgrade.safely import alone


@click.command()
@assignment_options
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True),
    help="A folder or zip; by default nbgrader's exchange.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    help="Who named the files; by default found from the names.",
)
@click.option(
    "--map",
    "by_hand",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A CSV with the columns name, student and, if known, submitted (the time).",
)
@click.option("--replace", is_flag=True, help="Put new files where others of this student are.")
@click.option("--dry-run", is_flag=True, help="Only tell whose is whose.")
@click.pass_context
def command(
    ctx: click.Context,
    lab: str | None,
    assignment: str | None,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
    source: Path | None,
    form: str,
    by_hand: Path | None,
    replace: bool,
    dry_run: bool,
) -> None:
    """Take in the submissions of LAB, and tell which name became which student.

    Exit code 1 if something was left out: nobody's, broken, or another file is there already.
    """
    layout, name = open_assignment(lab, assignment, course, db_url)
    with reading(layout) as connection:
        roster = scores.students(connection)
    students, times = _listed(by_hand)
    rules = Rules(layout, name, roster, students, times, replace, dry_run)
    with alone(layout):
        taken = collect(rules, source or layout.exchange / layout.course_id / "inbound", form)
    if as_json:
        print_json([asdict(one) for one in taken])
    else:
        head = ["name", "student", "outcome", "how"]
        print_table(head, [[t.label, t.student, t.outcome, t.how] for t in taken])
        for one in taken:
            if one.told:
                click.echo(f"{one.label}: {one.told}")
    ctx.exit(any(one.outcome in {"unknown", "broken", "different"} for one in taken))


def _listed(path: Path | None) -> tuple[dict[str, str], dict[str, str]]:
    if path is None:
        return {}, {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"name", "student"} <= set(rows[0]):
        raise InputError("map", str(path), "give a CSV with the columns name and student")
    students = {row["name"]: row["student"] for row in rows}
    times = {row["name"]: row["submitted"] for row in rows if row.get("submitted")}
    for time in times.values():
        late.moment(f"submitted (in {path.name})", time)
    return students, times
