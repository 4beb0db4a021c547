"""Read scores and students from nbgrader's tables; see [Note: two speeds] in `layout`."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Interval,
    Select,
    TableClause,
    column,
    func,
    inspect,
    select,
    table,
)

_TYPES: Final[dict[str, Any]] = {
    "duedate": DateTime(),
    "timestamp": DateTime(),
    "extension": Interval(),
}


def _known(name: str, columns: str) -> TableClause:
    return table(name, *(column(c, _TYPES.get(c)) for c in columns.split()))


STUDENT: Final = _known("student", "id first_name last_name email lms_user_id")
ASSIGNMENT: Final = _known("assignment", "id name duedate course_id")
NOTEBOOK: Final = _known("notebook", "id name assignment_id")
BASE_CELL: Final = _known("base_cell", "id name notebook_id type")
GRADE_CELL: Final = _known("grade_cells", "id max_score cell_type")
TASK_CELL: Final = _known("task_cells", "id max_score cell_type")
SUBMISSION: Final = _known(
    "submitted_assignment", "id assignment_id student_id timestamp extension"
)
SUBMITTED: Final = _known(
    "submitted_notebook", "id assignment_id notebook_id flagged late_submission_penalty"
)
GRADE: Final = _known(
    "grade", "id cell_id notebook_id auto_score manual_score extra_credit needs_manual_grade"
)
COMMENT: Final = _known("comment", "id cell_id notebook_id auto_comment manual_comment")


@dataclass(frozen=True, slots=True)
class Student:
    """A student as the gradebook knows them; ``id`` is nbgrader's."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""

    @property
    def name(self) -> str:
        """First and last name, or the id."""
        return f"{self.first_name} {self.last_name}".strip() or self.id


@dataclass(frozen=True, slots=True)
class CellScore:
    """The points of one graded cell: what the grader gave, and what a person put over it."""

    auto: float | None
    manual: float | None
    extra: float
    of: float
    waiting: bool

    @property
    def score(self) -> float:
        """A person's points before the grader's; extra credit on top."""
        given = self.manual if self.manual is not None else self.auto
        return (given or 0.0) + self.extra


@dataclass(slots=True)
class Submission:
    """One student's assignment: cells by grade id, penalty in points, when it was handed in (UTC)."""

    student: str
    timestamp: datetime | None
    penalty: float = 0.0
    cells: dict[str, CellScore] = field(default_factory=dict)

    @property
    def raw_score(self) -> float:
        """The points before the late penalty."""
        return sum(cell.score for cell in self.cells.values())

    @property
    def score(self) -> float:
        """The points that count; never below 0."""
        return max(self.raw_score - self.penalty, 0.0)

    @property
    def max_score(self) -> float:
        """The points that could be reached."""
        return sum(cell.of for cell in self.cells.values())


def has_tables(connection: Connection) -> bool:
    """Whether nbgrader has ever written here."""
    return bool(inspect(connection).has_table("submitted_assignment"))


def students(connection: Connection) -> dict[str, Student]:
    """All students by id."""
    if not has_tables(connection):
        return {}
    rows = connection.execute(select(STUDENT).order_by(STUDENT.c.id))
    return {row.id: Student(*(value or "" for value in row)) for row in rows}


def due_date(connection: Connection, assignment: str) -> datetime | None:
    """The due date (UTC) of ``assignment``."""
    if not has_tables(connection):
        return None
    wanted = select(ASSIGNMENT.c.duedate).where(ASSIGNMENT.c.name == assignment)
    found: datetime | None = connection.execute(wanted).scalar()
    return found


def points_of_notebook() -> ColumnElement[float]:
    """The points of a row of `SUBMITTED`, for use in a statement on it."""
    given = func.coalesce(GRADE.c.manual_score, GRADE.c.auto_score, 0.0)
    points = func.coalesce(func.sum(given + func.coalesce(GRADE.c.extra_credit, 0.0)), 0.0)
    return select(points).where(GRADE.c.notebook_id == SUBMITTED.c.id).scalar_subquery()


def submissions(
    connection: Connection, assignment: str, student: str | None = None
) -> dict[str, Submission]:
    """The submissions of ``assignment`` (or one student's) by student."""
    if not has_tables(connection):
        return {}
    found: dict[str, Submission] = {}
    for row in connection.execute(_of(_submitted(assignment), student)):
        one = found.setdefault(row.student_id, Submission(row.student_id, row.timestamp))
        one.penalty += row.late_submission_penalty or 0.0
    cells: dict[str, dict[tuple[str, str], CellScore]] = defaultdict(dict)
    for row in connection.execute(_of(_graded(assignment), student)):
        cells[row.student_id][row.notebook, row.name] = CellScore(
            row.auto_score,
            row.manual_score,
            row.extra_credit or 0.0,
            row.max_score or 0.0,
            bool(row.needs_manual_grade),
        )
    several = len({notebook for mine in cells.values() for notebook, _ in mine}) > 1
    for student, mine in cells.items():
        found[student].cells.update(
            {f"{n}/{name}" if several else name: cell for (n, name), cell in sorted(mine.items())}
        )
    return dict(sorted(found.items()))


def _of(query: Select[Any], student: str | None) -> Select[Any]:
    return query if student is None else query.where(SUBMISSION.c.student_id == student)


def _submitted(assignment: str) -> Select[Any]:
    return (
        select(
            SUBMISSION.c.student_id,
            SUBMISSION.c.timestamp,
            SUBMITTED.c.late_submission_penalty,
        )
        .join_from(ASSIGNMENT, SUBMISSION, SUBMISSION.c.assignment_id == ASSIGNMENT.c.id)
        .join(SUBMITTED, SUBMITTED.c.assignment_id == SUBMISSION.c.id)
        .where(ASSIGNMENT.c.name == assignment)
    )


def _graded(assignment: str) -> Select[Any]:
    return (
        select(
            SUBMISSION.c.student_id,
            NOTEBOOK.c.name.label("notebook"),
            BASE_CELL.c.name,
            GRADE.c.auto_score,
            GRADE.c.manual_score,
            GRADE.c.extra_credit,
            GRADE.c.needs_manual_grade,
            func.coalesce(GRADE_CELL.c.max_score, TASK_CELL.c.max_score).label("max_score"),
        )
        .join_from(ASSIGNMENT, SUBMISSION, SUBMISSION.c.assignment_id == ASSIGNMENT.c.id)
        .join(SUBMITTED, SUBMITTED.c.assignment_id == SUBMISSION.c.id)
        .join(GRADE, GRADE.c.notebook_id == SUBMITTED.c.id)
        .join(BASE_CELL, BASE_CELL.c.id == GRADE.c.cell_id)
        .join(NOTEBOOK, NOTEBOOK.c.id == BASE_CELL.c.notebook_id)
        .outerjoin(GRADE_CELL, GRADE_CELL.c.id == BASE_CELL.c.id)
        .outerjoin(TASK_CELL, TASK_CELL.c.id == BASE_CELL.c.id)
        .where(ASSIGNMENT.c.name == assignment)
    )
