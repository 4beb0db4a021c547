"""`shardgrade purge`: delete a term's personal data."""

from dataclasses import asdict
from operator import itemgetter
from pathlib import Path

import click

from shardbook.commands.options import print_json
from shardgrade.commands.target import course_options, open_course
from shardgrade.purge import purge, survey
from shardgrade.safely import alone


@click.command()
@course_options
@click.option("--yes", is_flag=True, help="Delete; without it, only tell.")
def command(course: Path | None, db_url: str | None, as_json: bool, yes: bool) -> None:
    """Delete submissions, grades, feedback, exports, backups and the roster; tell what stays."""
    layout = open_course(course, db_url)
    with alone(layout):
        told = purge(layout) if yes else survey(layout)
    if as_json:
        print_json({"deleted": yes, **asdict(told)})
        return
    word = "Deleted" if yes else "Would delete"
    for folder, count in told.files.items():
        click.echo(f"{word}: {folder}/ ({count} files)")
    for table, count in filter(itemgetter(1), told.rows.items()):
        click.echo(f"{word}: {count} rows of {table}")
    click.echo(f"{'Kept' if yes else 'Would keep'}: {', '.join(told.kept)}")
    if not yes:
        click.echo("Nothing is deleted yet: add --yes.")
