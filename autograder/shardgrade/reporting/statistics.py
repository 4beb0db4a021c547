"""The figures of a report, from recorded grades only."""

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shardgrade.gradebook import scores
from shardgrade.gradebook.tables import RESULT, reading, rows
from shardgrade.grading.repair import TAG_IT
from shardgrade.layout import Layout

_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """One graded cell over the class.

    ``full`` is the share (0 to 1) of full points. ``discrimination`` is the correlation of the
    task's points with the points of all other tasks, which for a task of right and wrong only is the
    corrected point-biserial correlation (Lord and Novick 1968, §15.3); None where one of the two
    doesn't vary. ``failure`` is what went wrong most often, for ``failures`` students; ``needed``
    what a failed test of any course may have needed in the student's process, for ``needing`` students.
    """

    grade_id: str
    max_points: float
    mean: float
    full: float
    discrimination: float | None
    failure: str
    failures: int
    needed: str
    needing: int

    @property
    def advice(self) -> str:
        """What the instructor may do about a test that may have needed the objects; or empty."""
        if not self.needed:
            return ""
        failed = f"{self.needing} failed where {self.needed} was in another process"
        return f"{self.grade_id}: {failed}; {TAG_IT}."


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """The class as a whole: scores after penalties; ``counts`` by tenths of the maximum."""

    assignment: str
    students: int
    max_score: float
    mean: float
    deviation: float
    quartiles: tuple[float, float, float, float, float]
    late: int
    waiting: int
    counts: tuple[int, ...]
    tasks: tuple[TaskFigures, ...]


def figures(layout: Layout, assignment: str) -> ClassFigures | None:
    """The figures of ``assignment``; None if nothing is graded."""
    with reading(layout) as connection:
        graded = list(scores.submissions(connection, assignment).values())
        results = [
            json.loads(row.result) for row in rows(connection, RESULT, assignment=assignment)
        ]
    return summarise(assignment, graded, results) if graded else None


def summarise(
    assignment: str, graded: Sequence[scores.Submission], results: Sequence[dict[str, Any]]
) -> ClassFigures:
    """The figures of a class that is not empty; ``results`` are results as JSON."""
    totals = sorted(one.score for one in graded)
    most = max(one.max_score for one in graded)
    ids = list(dict.fromkeys(name for one in graded for name in one.cells))
    counts = Counter(min(int(_BINS * total / most), _BINS - 1) if most else 0 for total in totals)
    return ClassFigures(
        assignment,
        len(totals),
        most,
        statistics.fmean(totals),
        statistics.pstdev(totals),
        _five(totals),
        sum(one.penalty > 0 for one in graded),
        sum(any(cell.waiting for cell in one.cells.values()) for one in graded),
        tuple(counts[number] for number in range(_BINS)),
        tuple(_task(name, graded, results) for name in ids),
    )


def _five(totals: list[float]) -> tuple[float, float, float, float, float]:
    if len(totals) == 1:
        return (totals[0],) * 5
    low, middle, high = statistics.quantiles(totals, n=4, method="inclusive")
    return totals[0], low, middle, high, totals[-1]


def _task(
    name: str, graded: Sequence[scores.Submission], results: Sequence[dict[str, Any]]
) -> TaskFigures:
    having = [one for one in graded if name in one.cells]
    points = [one.cells[name].score for one in having]
    rest = [one.raw_score - one.cells[name].score for one in having]
    most = having[0].cells[name].of
    cells = [
        cell
        for result in results
        for cell in result["cells"]
        if cell["grade_id"] == name.rpartition("/")[2]
    ]
    failure, failures = _most_frequent(set(missed(cell)) for cell in cells)
    needed, needing = _most_frequent({cell.get("needed", "")} - {""} for cell in cells)
    return TaskFigures(
        name,
        most,
        statistics.fmean(points),
        sum(score >= most for score in points) / len(points),
        _correlation(points, rest),
        failure,
        failures,
        needed,
        needing,
    )


def _correlation(one: list[float], other: list[float]) -> float | None:
    if len(one) < 2 or len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return statistics.correlation(one, other)


def _most_frequent(told: Iterable[set[str]]) -> tuple[str, int]:
    counts = Counter(text for texts in told for text in texts)
    # The most frequent; among equals the first by name, so that two runs say the same.
    return min(counts.items(), key=lambda item: (-item[1], item[0]), default=("", 0))


def missed(cell: dict[str, Any]) -> list[str]:
    """What a cell's check found missing: the criteria by name, or its error in one line."""
    criteria = [
        str(told["criterion"])
        for told in cell["feedback"]
        if "criterion" in told and told.get("points", 0) < told.get("of", 0)
    ]
    if criteria or not cell["error"]:
        return criteria
    return [" ".join(str(cell["error"]).strip().splitlines()[-1].split())[:120]]
