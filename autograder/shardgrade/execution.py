"""Grading by nbgrader's own execution: what ours (`shardgrade.grading`) is compared with."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat

from shardbook.errors import InputError
from shardgrade import course

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_NOTICE: Final = re.compile(r"^\[(?:WARNING|ERROR)\] (.*)$", re.MULTILINE)

_CHECKSUM: Final = re.compile(
    r"Attribute 'checksum' for cell (?P<cell>\S+) has changed! \(.*got: (?P<got>\w+)\)"
)


@dataclass(frozen=True, slots=True)
class Record:
    """One graded submission: points by task, what was put right or went wrong, seconds taken."""

    student: str
    score: float
    max_score: float
    scores: dict[str, float]
    notices: tuple[str, ...]
    graded: bool
    seconds: float


def stock(folder: Path, assignment: str, report: Callable[[Record], None]) -> list[Record]:
    """Grade every submission with `nbgrader autograde`, one after the other.

    A submission that nbgrader can't grade is recorded with the reason, and the next one follows.

    Raises:
        InputError: no course, or nothing was handed in.
    """
    api = course.nbgrader(folder)
    students = sorted(api.get_submitted_students(assignment))
    if not students:
        where = folder / "submitted" / "STUDENT" / assignment
        raise InputError("lab", assignment, f"nothing was handed in at {where}")
    records = []
    for student in students:
        began = time.monotonic()
        result = api.autograde(assignment, student, force=True)
        record = _record(api, assignment, student, result, time.monotonic() - began)
        report(record)
        records.append(record)
    return records


def _record(api: Any, assignment: str, student: str, result: Any, seconds: float) -> Record:
    with api.gradebook as gradebook:
        submission = gradebook.find_submission(assignment, student)
        scores = {
            grade.name: float(grade.score)
            for notebook in submission.notebooks
            for grade in notebook.grades
        }
        return Record(
            student,
            float(submission.score) if result["success"] else 0.0,
            float(submission.max_score),
            scores if result["success"] else dict.fromkeys(scores, 0.0),
            _notices(result.get("log", ""), _released_checksums(api, assignment)),
            result["success"],
            round(seconds, 3),
        )


def _notices(log: str, released: frozenset[str]) -> tuple[str, ...]:
    lines = _NOTICE.findall(_COLOUR.sub("", log))
    notices = []
    for line in lines:
        changed = _CHECKSUM.match(line)
        if changed is None:
            notices.append(line)
        elif changed["got"] not in released:  # else it only lacks the hidden part
            notices.append(f"cell {changed['cell']} was edited; the released one was put back")
    return tuple(notices)


def _released_checksums(api: Any, assignment: str) -> frozenset[str]:
    folder = Path(api.coursedir.format_path(api.coursedir.release_directory, ".", assignment))
    return frozenset(
        cell.metadata.nbgrader.checksum
        for path in folder.glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if "checksum" in cell.metadata.get("nbgrader", {})
    )
