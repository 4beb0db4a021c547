"""The `shardgrade` command: a thin shell over `shardgrade.commands`, one module a subcommand."""

from typing import TYPE_CHECKING, Any, Final

import click

from shardbook import cli as shell
from shardbook.commands.options import print_table
from shardbook.labs.tasks import Lab
from shardgrade import __version__

if TYPE_CHECKING:
    from shardgrade import execution, run

#: subcommand → the one-line help shown before its module is imported
COMMANDS: Final = {
    "doctor": "What this machine offers: isolation, versions, free disk.",
    "release": "Write a lab's student version and the package to hand out.",
    "roster": "Put a class list from Canvas, Moodle or nbgrader into the gradebook.",
    "collect": "Take in submissions: folder, zip, Canvas, Moodle, nbgrader's exchange.",
    "grade": "Grade what changed; safe to interrupt.",
    "regrade": "Show what a changed check or lab would change; --apply records it.",
    "feedback": "Write a feedback page for every graded submission.",
    "report": "Figures by task and for the class, as HTML and CSV.",
    "export": "Write grades as CSV, for Canvas, Moodle or Gradescope.",
    "similar": "Pairs of too similar submissions, and similarity to the engine.",
    "verdicts": "What the hidden checks make of answers known to be wrong or right.",
    "late": "Due date and late policy of a lab.",
    "extend": "Give one student more time.",
    "request": "Record and answer a student's regrade request.",
    "restore": "List the gradebook's backups, or bring one back.",
    "purge": "Delete a term's personal data.",
}


class _Group(shell.LazyGroup):
    """A full disk is one clear line for every subcommand."""

    def invoke(self, ctx: click.Context) -> Any:
        from shardgrade.safely import plain_errors

        with plain_errors():
            return super().invoke(ctx)


@click.group(cls=_Group, package="shardgrade.commands", lazy=COMMANDS)
@click.version_option(__version__)
def cli() -> None:
    """Release labs, grade submissions, write feedback."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    shell.run(cli, "shardgrade", arguments)


def show_records(records: "list[run.Record] | list[execution.Record]", lab: Lab | None) -> None:
    """Print the table of scores, then what was put right or went wrong."""
    titles = {task.grade_id: task.id for task in lab.tasks} if lab else {}
    cells = list(dict.fromkeys([*titles, *(name for r in records for name in r.scores)]))
    rows = [
        [r.student, f"{r.score:g}", *(f"{r.scores.get(name, 0):g}" for name in cells)]
        for r in records
    ]
    print_table(["student", "score", *(titles.get(name, name) for name in cells)], rows)
    for record in records:
        for notice in record.notices:
            click.echo(f"{record.student}: {notice}")
