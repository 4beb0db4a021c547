"""Grade an assignment: what changed is graded, recorded one by one, and told as it happens."""

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shardbook.errors import InputError
from shardgrade import version
from shardgrade.gradebook import backup, scores
from shardgrade.gradebook.tables import RESULT, reading, rows
from shardgrade.grading.result import GradeRequest, SubmissionResult, digest_of
from shardgrade.layout import Layout
from shardgrade.safely import file_hash

#: grades requests, each result as it is ready: on this machine, or on others
Execute = Callable[[Iterable[GradeRequest]], Iterator[SubmissionResult]]


@dataclass(frozen=True, slots=True)
class Change:
    """Points of one graded cell that are not what they were; None: there was no such cell."""

    student: str
    grade_id: str
    old: float | None
    new: float | None

    def __str__(self) -> str:
        old, new = (
            "nothing" if points is None else f"{points:g}" for points in (self.old, self.new)
        )
        return f"{self.student}: {self.grade_id}: {old} → {new}"


@dataclass(frozen=True, slots=True)
class Record:
    """One graded submission, with people's scores and the late penalty counted in ``score``.

    ``scores`` are the points by grade id; ``fresh`` says whether it was graded in this run.
    """

    student: str
    score: float
    max_score: float
    scores: dict[str, float]
    penalty: float
    put_right: tuple[str, ...]
    went_wrong: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    isolation: str
    fresh: bool

    @property
    def notices(self) -> tuple[str, ...]:
        """All that was put right, went wrong, or is worth a note."""
        return (*self.put_right, *self.went_wrong, *self.notes)

    @property
    def graded(self) -> bool:
        """Whether there is a result: always, where nbgrader's own execution can fail."""
        return True

    def as_dict(self) -> dict[str, Any]:
        """The record for JSON."""
        return {**dataclasses.asdict(self), "notices": self.notices, "graded": self.graded}


@dataclass(slots=True)
class Progress:
    """How far a run is; called back after each submission."""

    total: int
    done: int = 0
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be graded: notebook → requests; ``unchanged`` counts the rest."""

    stale: dict[str, list[GradeRequest]]
    unchanged: int

    @property
    def total(self) -> int:
        """How many notebooks are to be graded."""
        return sum(map(len, self.stale.values()))


#: told after each submission
Report = Callable[[SubmissionResult, Progress], None]


def plan(layout: Layout, assignment: str, wanted: GradeRequest) -> Plan:
    """Find what is new or graded under other conditions.

    ``wanted`` gives seed, limits and isolation for all.

    Raises:
        InputError: no source, or nothing was handed in.
    """
    sources = layout.notebooks(assignment)
    if not sources:
        known = ", ".join(layout.assignments()) or "none yet"
        raise InputError("assignment", assignment, f"it has no source notebook; there is: {known}")
    submissions = layout.submissions(assignment)
    if not submissions:
        where = layout.folder("submitted", "STUDENT", assignment)
        raise InputError("assignment", assignment, f"nothing was handed in at {where}")
    known_results = _results(layout, assignment)
    stale: dict[str, list[GradeRequest]] = {source.stem: [] for source in sources}
    unchanged = 0
    for source in sources:
        for student, folder in submissions.items():
            path = folder / source.name if len(sources) > 1 else folder
            request = dataclasses.replace(
                wanted,
                student=student,
                assignment=assignment,
                submission_path=path,
                source_path=source,
            )
            row = known_results.get((student, source.stem))
            graded = layout.folder("autograded", student, assignment) / source.name
            if row and row.digest == digest_of(request) and row.sha256 == file_hash(graded):
                unchanged += 1
            else:
                stale[source.stem].append(request)
    return Plan(stale, unchanged)


def grade(
    layout: Layout,
    assignment: str,
    planned: Plan,
    execute: Execute,
    report: Report,
) -> Progress:
    """Grade and record what ``planned`` names; hold the course's lock.

    Whatever was recorded when it is interrupted stays, and the next plan names only the rest.
    """
    progress = Progress(planned.total)
    if not planned.total:
        return progress
    graded = (
        (notebook, result)
        for notebook, requests in planned.stale.items()
        for result in execute(requests)
    )
    first = next(graded)  # the graders start, and go on while nbgrader is imported
    from shardgrade.gradebook.writer import writer  # see [Note: two speeds]

    old = automatic_scores(layout, assignment)
    backup.backup(layout, f"grade-{assignment}")
    with writer(layout, assignment) as book:
        for notebook, result in itertools.chain([first], graded):
            book.record(result, notebook)
            progress.done += 1
            progress.changes += changes(old.get((result.student, notebook)), result)
            report(result, progress)
    return progress


def automatic_scores(layout: Layout, assignment: str) -> dict[tuple[str, str], dict[str, float]]:
    """(student, notebook) → what the grader gave for each cell the last time."""
    return {
        key: {cell["grade_id"]: cell["points"] for cell in json.loads(row.result)["cells"]}
        for key, row in _results(layout, assignment).items()
    }


def changes(old: dict[str, float] | None, result: SubmissionResult) -> list[Change]:
    """What is not as it was; nothing for who is graded for the first time."""
    if old is None:
        return []
    new = result.scores
    return [
        Change(result.student, cell, old.get(cell), new.get(cell))
        for cell in {**old, **new}
        if old.get(cell) != new.get(cell)
    ]


def records(layout: Layout, assignment: str, fresh: frozenset[str] = frozenset()) -> list[Record]:
    """One record for each graded submission, by student; ``fresh`` were graded just now."""
    from shardgrade import late

    with reading(layout) as connection:
        graded = scores.submissions(connection, assignment)
        due = scores.due_date(connection, assignment)
        extensions = late.extensions(connection, assignment)
    results: dict[str, dict[str, SubmissionResult]] = {}
    for (student, notebook), row in sorted(_results(layout, assignment).items()):
        result = SubmissionResult.from_json(row.result)
        results.setdefault(student, {})[notebook] = result
    sources = layout.notebooks(assignment)
    found = []
    for student, mine in results.items():
        one = graded[student]
        notes = [
            said
            for source in sources
            if (said := version.note(layout.folder("submitted", student, assignment), source))
        ]
        if due and one.timestamp:
            over = one.timestamp - due - extensions.get(student, timedelta())
            if over > timedelta():
                notes.append(f"late by {_spoken(over)}")
        if any(cell.waiting for cell in one.cells.values()):
            notes.append("waits for a person's grade")
        found.append(
            Record(
                student,
                one.score,
                one.max_score,
                {name: cell.score for name, cell in one.cells.items()},
                one.penalty,
                tuple(_told(mine, lambda result: result.put_right)),
                tuple(_told(mine, lambda result: result.went_wrong)),
                tuple(notes),
                round(sum(result.seconds for result in mine.values()), 3),
                next(iter(mine.values())).isolation,
                student in fresh,
            )
        )
    return found


def _told(
    mine: dict[str, SubmissionResult], what: Callable[[SubmissionResult], Iterable[str]]
) -> Iterator[str]:
    """Texts of several notebooks say which one they are about."""
    for notebook, result in mine.items():
        yield from (f"{notebook}: {text}" if len(mine) > 1 else text for text in what(result))


def _results(layout: Layout, assignment: str) -> dict[tuple[str, str], Any]:
    with reading(layout) as connection:
        found = rows(connection, RESULT, assignment=assignment)
    return {(row.student, row.notebook): row for row in found}


def _spoken(time: timedelta) -> str:
    hours, seconds = divmod(int(time.total_seconds()), 3600)
    return f"{hours // 24} d {hours % 24} h" if hours >= 24 else f"{hours} h {seconds // 60} min"
