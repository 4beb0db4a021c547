"""`shardgrade report`: figures by task and for the class."""

from dataclasses import asdict
from pathlib import Path

import click

from shardbook.commands.options import print_json, print_table
from shardbook.errors import InputError
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.reporting import page
from shardgrade.reporting.statistics import figures
from shardgrade.safely import replace_file


@click.command()
@assignment_options
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where NAME.html and NAME.csv go; by default `reports` in the course.",
)
def command(
    lab: str | None,
    assignment: str | None,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
    to: Path | None,
) -> None:
    """Write the report of LAB: by task and for the class. It names no student."""
    layout, name = open_assignment(lab, assignment, course, db_url)
    found = figures(layout, name)
    if found is None:
        raise InputError("assignment", name, "nothing is graded yet")
    target = to or layout.root / "reports"
    files = {
        "html": (target / f"{name}.html", page.as_html(found)),
        "csv": (target / f"{name}.csv", page.as_csv(found)),
    }
    for path, text in files.values():
        replace_file(path, text.encode())
    if as_json:
        print_json({**asdict(found), **{kind: str(path) for kind, (path, _) in files.items()}})
        return
    print_table(["class", ""], [list(fact) for fact in page.facts(found)])
    click.echo()
    print_table(list(page.HEAD), [list(page.row(task)) for task in found.tasks])
    for task in found.tasks:
        if task.advice:
            click.echo(task.advice)
    click.echo(f"Written: {', '.join(str(path) for path, _ in files.values())}")
