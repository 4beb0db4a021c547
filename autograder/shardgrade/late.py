"""What lateness costs, worked out anew from the facts each time.

The facts: when it was handed in, when it was due, the policy, the student's extension, the score.
A penalty is never changed by a difference, so working it out twice is the same as once.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, delete, select, update

from shardbook.errors import InputError, real
from shardgrade.gradebook import scores
from shardgrade.gradebook.tables import EXTENSION, LATE, rows

_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Policy:
    """``per_day`` and ``at_most`` are parts (0 to 1) of the points earned; ``grace`` is in seconds."""

    per_day: float
    grace: float = 0.0
    at_most: float = 1.0

    def __str__(self) -> str:
        return (
            f"each day begun costs {self.per_day:.0%} of the points, {self.at_most:.0%} at most, "
            f"after {self.grace / 60:g} min of grace"
        )

    def __post_init__(self) -> None:
        real("per-day", self.per_day, 0.0, 1.0)
        real("at-most", self.at_most, 0.0, 1.0)
        real("grace", self.grace, 0.0, 365 * _DAY, "s")


def moment(argument: str, text: str) -> datetime:
    """Read a time with its zone, such as ``2026-10-01T23:59+02:00``; UTC, without a zone.

    Raises:
        InputError: it is none.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        raise InputError(argument, text, "give date, time and zone, such as 2026-10-01T23:59+02:00")
    return read.astimezone(UTC).replace(tzinfo=None)


def part_lost(policy: Policy, late: timedelta) -> float:
    """The part of the points that is lost: ``per_day`` for each day begun, once grace is over."""
    seconds = late.total_seconds()
    if seconds <= policy.grace:
        return 0.0
    return min(policy.per_day * math.ceil(seconds / _DAY), policy.at_most)


def policy_of(connection: Connection, assignment: str) -> Policy | None:
    """The policy of ``assignment``, if one was set."""
    found = rows(connection, LATE, assignment=assignment)
    return Policy(found[0].per_day, found[0].grace, found[0].at_most) if found else None


def set_policy(connection: Connection, assignment: str, policy: Policy) -> None:
    """Set the policy; it takes effect with `apply`."""
    connection.execute(delete(LATE).filter_by(assignment=assignment))
    connection.execute(
        LATE.insert().values(
            assignment=assignment,
            per_day=policy.per_day,
            grace=policy.grace,
            at_most=policy.at_most,
        )
    )


def set_due(connection: Connection, assignment: str, due: datetime) -> None:
    """Set the due date (UTC, without a zone, as nbgrader keeps it).

    Raises:
        InputError: the gradebook doesn't know the assignment.
    """
    table = scores.ASSIGNMENT
    changed = connection.execute(
        update(table).where(table.c.name == assignment).values(duedate=due)
    ).rowcount
    if not changed:
        raise InputError("assignment", assignment, "release it first")


def extensions(connection: Connection, assignment: str) -> dict[str, timedelta]:
    """Student → the time they have beyond the due date."""
    found = rows(connection, EXTENSION, assignment=assignment)
    return {row.student: timedelta(seconds=row.seconds) for row in found}


def extend(
    connection: Connection, assignment: str, student: str, time: timedelta, reason: str = ""
) -> None:
    """Give ``student`` this much time beyond the due date in place of what they had; 0 takes it back."""
    key = {"student": student, "assignment": assignment}
    connection.execute(delete(EXTENSION).filter_by(**key))
    if time:
        connection.execute(
            EXTENSION.insert().values(**key, seconds=time.total_seconds(), reason=reason)
        )


def apply(connection: Connection, assignment: str, student: str | None = None) -> None:
    """Write extension and penalty of every submission (or of one student's) into nbgrader's tables.

    Without a policy of ours nothing is touched: a course may have its own way.
    """
    policy = policy_of(connection, assignment)
    if policy is None:
        return
    due = scores.due_date(connection, assignment)
    more = extensions(connection, assignment)
    table, notebooks = scores.SUBMISSION, scores.SUBMITTED
    for one in scores.submissions(connection, assignment, student).values():
        time = more.get(one.student, timedelta())
        lost = 0.0
        if due is not None and one.timestamp is not None:
            lost = part_lost(policy, one.timestamp - due - time)
        mine = (
            select(table.c.id)
            .join_from(scores.ASSIGNMENT, table, table.c.assignment_id == scores.ASSIGNMENT.c.id)
            .where(scores.ASSIGNMENT.c.name == assignment, table.c.student_id == one.student)
        ).scalar_subquery()
        connection.execute(
            update(table).where(table.c.id == mine).values(extension=time if time else None)
        )
        connection.execute(
            update(notebooks)
            .where(notebooks.c.assignment_id == mine)
            .values(late_submission_penalty=lost * scores.points_of_notebook())
        )
