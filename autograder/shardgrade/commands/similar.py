"""`shardgrade similar`: pairs of submissions to look at."""

from dataclasses import asdict
from pathlib import Path

import click

from shardbook.commands.options import print_json, print_table
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.similar import similar


@click.command()
@assignment_options
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.6,
    show_default=True,
    help="The share of one's code that stands in the other's.",
)
def command(
    lab: str | None,
    assignment: str | None,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
    threshold: float,
) -> None:
    """List pairs of submissions of LAB that are too similar, to each other or to the engine.

    A pair is a reason to look, never a verdict.
    """
    layout, name = open_assignment(lab, assignment, course, db_url)
    pairs = similar(layout, name, threshold)
    if as_json:
        print_json([asdict(pair) for pair in pairs])
        return
    print_table(
        ["one", "share", "other", "share", "tokens"],
        [
            [p.one, f"{p.share_of_one:.0%}", p.other, f"{p.share_of_other:.0%}", str(p.tokens)]
            for p in pairs
        ],
    )
