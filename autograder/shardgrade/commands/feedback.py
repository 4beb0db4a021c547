"""`shardgrade feedback`: write the pages that students read."""

from pathlib import Path

import click

from shardbook.commands.options import print_json
from shardgrade.commands.grade import apply_late
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.safely import alone


@click.command()
@assignment_options
def command(
    lab: str | None, assignment: str | None, course: Path | None, db_url: str | None, as_json: bool
) -> None:
    """Write a feedback page for every graded submission of LAB."""
    layout, name = open_assignment(lab, assignment, course, db_url)
    from shardgrade.feedback import write_feedback

    with alone(layout):
        apply_late(layout, name, set())
        pages = write_feedback(layout, name)
    if as_json:
        print_json([{"student": s, "files": [str(f) for f in files]} for s, files in pages.items()])
        return
    for student, files in pages.items():
        click.echo(f"{student}: {', '.join(map(str, files))}")
