"""`shardgrade roster`: put a class list into the gradebook."""

from dataclasses import asdict
from pathlib import Path

import click

from shardbook.commands.options import print_json
from shardgrade.commands.target import course_options, open_course
from shardgrade.gradebook.backup import backup
from shardgrade.gradebook.tables import writing
from shardgrade.roster import import_roster, read_roster
from shardgrade.safely import alone


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@course_options
def command(file: Path, course: Path | None, db_url: str | None, as_json: bool) -> None:
    """Add the students of a CSV from Canvas, Moodle or nbgrader; nobody is removed."""
    wanted = read_roster(file)
    layout = open_course(course, db_url)
    with alone(layout):
        backup(layout, "roster")
        with writing(layout) as connection:
            done = import_roster(connection, wanted)
    if as_json:
        print_json(asdict(done))
        return
    for what, ids in asdict(done).items():
        if ids and what != "unchanged":
            click.echo(f"{what}: {', '.join(ids)}")
    click.echo(
        f"{len(done.added)} added, {len(done.changed)} changed, {len(done.unchanged)} unchanged; "
        f"{len(done.missing)} are in the gradebook but not in the list."
    )
