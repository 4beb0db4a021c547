"""`shardgrade restore`: list the gradebook's backups, or bring one back."""

from pathlib import Path

import click

from shardbook.commands.options import print_json
from shardgrade.commands.target import course_options, open_course
from shardgrade.gradebook.backup import backups, restore
from shardgrade.safely import alone


@click.command()
@click.argument("backup", required=False)
@course_options
def command(backup: str | None, course: Path | None, db_url: str | None, as_json: bool) -> None:
    """List the backups, or bring BACKUP back (`last`: the newest). The present state is kept too."""
    layout = open_course(course, db_url)
    if backup is None:
        names = [path.name for path in backups(layout)]
        if as_json:
            print_json({"backups": names})
        else:
            click.echo("\n".join(names) or "There are no backups yet.")
        return
    with alone(layout):
        chosen, replaced = restore(layout, backup)
    if as_json:
        print_json({"restored": chosen.name, "replaced": replaced.name if replaced else None})
        return
    click.echo(f"{chosen.name} is the gradebook again.")
    if replaced:
        click.echo(f"What it replaced: {replaced.name}")
