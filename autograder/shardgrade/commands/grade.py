"""`shardgrade grade`: grade what changed, and tell it as it happens."""

import re
import time
from pathlib import Path
from typing import Any, Final

import click

from shardbook.commands.options import print_json
from shardbook.errors import InputError
from shardbook.labs.registry import LABS
from shardgrade import run
from shardgrade.cli import show_records
from shardgrade.commands.target import assignment_options, open_assignment
from shardgrade.grading.result import GradeRequest, SubmissionResult
from shardgrade.layout import Layout
from shardgrade.safely import alone

_ADDRESS: Final = re.compile(r"(tcp|tls|ucx)://([^\s/:\[\]]+|\[[\da-f:.]+\]):\d{1,5}", re.I)


def _address(_ctx: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Refuse what is no address of a scheduler, also where nothing needs grading."""
    if text is not None and not _ADDRESS.fullmatch(text):
        raise InputError("--scheduler", text, "give tcp://HOST:PORT")
    return text


def grading_options(command: Any) -> Any:
    """Add the options that decide how submissions are run."""
    for option in (
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            callback=_address,
            help="A Dask scheduler (tcp://HOST:PORT) to grade on.",
        ),
        click.option("--workers", type=click.IntRange(0), default=0, help="0: one for each core."),
        click.option("--seed", type=int, default=0, help="Of random numbers in submissions."),
        click.option(
            "--isolation",
            type=click.Choice(["auto", "bwrap", "landlock", "limits"]),
            default="auto",
            help="How submissions are shut in; by default as well as this machine can.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@assignment_options
@grading_options
def command(
    lab: str | None,
    assignment: str | None,
    course: Path | None,
    db_url: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Grade the submissions of LAB that are new, or whose lab, check or conditions changed.

    What is recorded stays when it is interrupted; the next call goes on. People's scores and
    comments are kept.
    """
    layout, name = open_assignment(lab, assignment, course, db_url)
    with alone(layout):
        planned = run.plan(layout, name, wanted(how))
        teller = Teller()
        try:
            progress = run.grade(layout, name, planned, executor(how), teller)
        except KeyboardInterrupt:
            click.echo(f"Stopped; {teller.done} are recorded. Run it again to go on.", err=True)
            raise
        graded = apply_late(layout, name, teller.students)
    if as_json:
        print_json([record.as_dict() for record in graded])
        return
    show_records(graded, LABS.get(name))
    click.echo(f"{progress.done} graded, {planned.unchanged} unchanged.")


def apply_late(layout: Layout, name: str, fresh: set[str]) -> list[run.Record]:
    """Work the penalties out anew, and read all records."""
    from shardgrade import late
    from shardgrade.gradebook.tables import writing

    with writing(layout) as connection:
        late.apply(connection, name)
    return run.records(layout, name, frozenset(fresh))


def wanted(how: dict[str, Any]) -> GradeRequest:
    """The conditions for all submissions, from the options."""
    nowhere = Path()
    return GradeRequest("", "", nowhere, nowhere, seed=how["seed"], isolation=how["isolation"])


def executor(how: dict[str, Any]) -> run.Execute:
    """Where submissions are graded: here, or on the cluster that was named."""
    if how["scheduler"]:
        from shardgrade.scheduler import on_cluster

        return lambda requests: on_cluster(how["scheduler"], requests)
    from shardgrade.grading import result

    return lambda requests: result.grade_many(requests, how["workers"])


class Teller:
    """Tells on stderr how far it is: each failure and changed grade at once, counts in between."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()
        self._changes = 0
        self.done = 0
        self.students: set[str] = set()

    def __call__(self, result: SubmissionResult, progress: run.Progress) -> None:
        """Tell what is new; at most two counts a second, and the last one."""
        self.done = progress.done
        self.students.add(result.student)
        for trouble in result.went_wrong:
            click.echo(f"{result.student}: {trouble}", err=True)
        for change in progress.changes[self._changes :]:
            click.echo(str(change), err=True)
        self._changes = len(progress.changes)
        now = time.monotonic()
        if now - self._told >= 0.5 or progress.done == progress.total:
            self._told = now
            left = (now - self._began) / progress.done * (progress.total - progress.done)
            minutes, seconds = divmod(round(left), 60)
            click.echo(
                f"{progress.done} of {progress.total} graded, {minutes}:{seconds:02} left", err=True
            )
