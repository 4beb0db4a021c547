"""A student's request to look at a grade again: recorded, answered, kept."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, func, select, update

from shardbook.errors import InputError
from shardgrade.gradebook.tables import REQUEST, rows


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``answer`` is empty while it is open. Times are UTC."""

    id: int
    student: str
    assignment: str
    grade_id: str
    text: str
    made: datetime
    answer: str
    answered: datetime | None


def record(
    connection: Connection, student: str, assignment: str, grade_id: str, text: str
) -> Request:
    """Record a request; ``grade_id`` is empty if it is about the whole assignment."""
    # Counted here, by the one writer: a database's own counter would not come back with a backup.
    number = (connection.execute(select(func.max(REQUEST.c.id))).scalar() or 0) + 1
    about = {"student": student, "assignment": assignment, "grade_id": grade_id}
    connection.execute(REQUEST.insert().values(id=number, **about, text=text, made=_now()))
    return _one(connection, number)


def answer(connection: Connection, number: int, text: str) -> Request:
    """Answer a request; a second answer takes the first one's place.

    Raises:
        InputError: there is no such request.
    """
    connection.execute(
        update(REQUEST).where(REQUEST.c.id == number).values(answer=text, answered=_now())
    )
    return _one(connection, number)


def requests(connection: Connection, assignment: str) -> list[Request]:
    """All requests about ``assignment``, the open ones first."""
    found = [_request(row) for row in rows(connection, REQUEST, assignment=assignment)]
    return sorted(found, key=lambda one: (bool(one.answer), one.id))


def _one(connection: Connection, number: int) -> Request:
    row = connection.execute(select(REQUEST).where(REQUEST.c.id == number)).first()
    if row is None:
        raise InputError("request", number, "there is none of this number")
    return _request(row)


def _request(row: tuple[object, ...]) -> Request:
    values = dict(row._mapping)  # type: ignore[attr-defined]
    return Request(**{**values, "answer": values["answer"] or ""})


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)
