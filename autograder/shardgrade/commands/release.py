"""`shardgrade release`: write a lab's student version and the package to hand out."""

from dataclasses import asdict
from pathlib import Path

import click

from shardbook.commands.options import json_option, print_json
from shardbook.labs.registry import lab_named
from shardgrade import checkout


@click.command()
@click.argument("lab")
@click.option(
    "--course",
    type=click.Path(path_type=Path, file_okay=False),
    help="The course folder; by default `course` in the checkout. It is made if it is not there.",
)
@json_option
def command(lab: str, course: Path | None, as_json: bool) -> None:
    """Write LAB's student version and the package to hand out."""
    which = lab_named(lab)
    from shardgrade.release import release

    made = release(which, course or checkout.root() / "course")
    if as_json:
        files = {name: str(path) for name, path in asdict(made).items()}
        print_json({"lab": lab, "points": which.points, **files})
        return
    click.echo(f"Hand out {made.package}")
