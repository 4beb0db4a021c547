"""What grading takes and gives: requests, and results that go through JSON unchanged."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardgrade.sandbox.limits import Limits


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """One submission to grade.

    ``submission_path`` is the notebook that was handed in, or the folder that holds it (then a
    renamed notebook is found too); ``source_path`` the source notebook, with solutions and hidden
    tests. ``isolation`` is a rung of the ladder, or ``auto`` for the best this machine has.
    """

    student: str
    assignment: str
    submission_path: Path
    source_path: Path
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    isolation: str = "auto"

    def to_json(self) -> str:
        """Write the request in one line; `from_json` reads it back, equal."""
        return json.dumps(dataclasses.asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> GradeRequest:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        fields["limits"] = Limits(**fields["limits"])
        for name in ("submission_path", "source_path"):
            fields[name] = Path(fields[name])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class CellResult:
    """One graded cell: its points, and what its check told (a list of JSON objects, for feedback).

    ``needed`` is for the instructor: what a failed test may have needed in the student's process.
    """

    grade_id: str
    points: float
    max_points: float
    feedback: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    output: str = ""
    needed: str = ""


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """One graded submission.

    ``notebook`` is the autograded notebook as nbformat's JSON text: the source's test cells, the
    student's answers, and the outputs of both. ``put_right`` tells what was repaired in the file,
    ``went_wrong`` which cells died, ran out of time or were denied something.
    """

    student: str
    assignment: str
    notebook: str
    cells: tuple[CellResult, ...]
    put_right: tuple[str, ...]
    went_wrong: tuple[str, ...]
    seconds: float
    isolation: str
    digest: str

    @property
    def score(self) -> float:
        """The points of all graded cells."""
        return sum(cell.points for cell in self.cells)

    @property
    def max_score(self) -> float:
        """The points that could be reached."""
        return sum(cell.max_points for cell in self.cells)

    @property
    def scores(self) -> dict[str, float]:
        """Points by grade id."""
        return {cell.grade_id: cell.points for cell in self.cells}

    def to_json(self) -> str:
        """Write the result; `from_json` reads it back, equal."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> SubmissionResult:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        fields["cells"] = tuple(CellResult(**cell) for cell in fields["cells"])
        for name in ("put_right", "went_wrong"):
            fields[name] = tuple(fields[name])
        return cls(**fields)


def grade_submission(request: GradeRequest) -> SubmissionResult:
    """Grade one submission; never raises for what is handed in."""
    from shardgrade.grading.task import run

    return run(request)


def grade_many(
    requests: Iterable[GradeRequest], workers: int = 0, limits: Limits | None = None
) -> Iterator[SubmissionResult]:
    """Grade submissions side by side, each result as it is ready.

    ``workers`` 0 means one for each core; ``limits``, if given, take the place of each request's.
    """
    from shardgrade.grading.pool import run

    return run(requests, workers, limits)


def digest_of(request: GradeRequest) -> str:
    """The hash of all that decides the result: a stored result with another one is out of date."""
    from shardgrade.grading.digest import digest_of

    return digest_of(request)
