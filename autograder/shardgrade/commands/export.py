"""`shardgrade export`: write grades as other systems read them."""

from pathlib import Path

import click

from shardbook.commands.options import print_json
from shardbook.errors import InputError
from shardgrade.commands.grade import apply_late
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.export import FORMATS, export
from shardgrade.safely import alone


@click.command()
@assignment_options
@click.option("--format", "form", type=click.Choice(FORMATS), default="csv")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="The file, or for gradescope the folder; by default in `exports` in the course.",
)
def command(
    lab: str | None,
    assignment: str | None,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
    form: str,
    to: Path | None,
) -> None:
    """Write the grades of LAB; penalties are worked out anew first."""
    layout, name = open_assignment(lab, assignment, course, db_url)
    with alone(layout):
        if not apply_late(layout, name, set()):
            raise InputError("assignment", name, "nothing is graded yet")
    ending = "" if form == "gradescope" else ".csv"
    files = export(layout, name, form, to or layout.root / "exports" / f"{name}-{form}{ending}")
    if as_json:
        print_json({"format": form, "files": [str(path) for path in files]})
        return
    for path in files:
        click.echo(str(path))
