"""Read a class list as Canvas, Moodle or nbgrader export it, and put it into the gradebook."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, insert, update

from shardbook.errors import InputError
from shardgrade.gradebook.scores import STUDENT, Student, students

#: field → the columns that may hold it, the best first
_COLUMNS: Final = {
    "id": ("username", "id number", "sis login id", "sis user id"),
    "first_name": ("first name", "first_name"),
    "last_name": ("last name", "surname", "last_name"),
    "email": ("email address", "email"),
    "lms_user_id": ("lms_user_id",),
    "name": ("student", "full name", "name"),
}


@dataclass(frozen=True, slots=True)
class Imported:
    """The ids that were added and changed; nobody is ever removed by an import."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    missing: tuple[str, ...]


def read_roster(path: Path) -> list[Student]:
    """Read a class list.

    Canvas's gradebook export (``Student``, ``ID``, ``SIS Login ID``), Moodle's list of participants
    (``First name``, ``Username`` or ``ID number``, ``Email address``) or nbgrader's (``id``).

    Raises:
        InputError: it can't be read, no column says who it is, or an id stands there twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("roster", str(path), f"it can't be read as UTF-8 text: {error}") from None
    first, _, _ = text.partition("\n")
    reader = csv.DictReader(io.StringIO(text), delimiter=";" if ";" in first else ",")
    found = [student for row in reader if (student := _student(row))]
    ids = [student.id for student in found]
    if not ids:
        raise InputError("roster", str(path), "no row with an id, a user name or an e-mail address")
    for name in ids:
        if ids.count(name) > 1:
            raise InputError("roster", str(path), f"{name} stands there twice")
    return found


def _student(row: dict[str, str]) -> Student | None:
    cells = {
        (key or "").strip().casefold(): (value or "").strip()
        for key, value in row.items()
        if isinstance(value, str)
    }
    fields = {
        name: next((cells[column] for column in columns if cells.get(column)), "")
        for name, columns in _COLUMNS.items()
    }
    name = fields.pop("name")
    # Canvas: the row with the points possible, and the student of the preview.
    if name.casefold() in {"points possible", "student, test"}:
        return None
    if name and not fields["last_name"]:
        last, comma, first = name.partition(",")
        if not comma:
            first, _, last = name.rpartition(" ")
        fields["first_name"], fields["last_name"] = first.strip(), last.strip()
    if "student" in cells:  # Canvas: its ID is the platform's, not what students sign in with
        fields["lms_user_id"] = cells.get("id", "")
    else:
        fields["id"] = cells.get("id") or fields["id"]
    fields["id"] = fields["id"] or fields["email"].partition("@")[0] or fields["lms_user_id"]
    return Student(**fields) if fields["id"] else None


def import_roster(connection: Connection, wanted: list[Student]) -> Imported:
    """Add who is new, change who has changed; empty fields of the list change nothing."""
    there = students(connection)
    added, changed, unchanged = [], [], []
    for student in wanted:
        fields = {
            name: value
            for name in ("first_name", "last_name", "email", "lms_user_id")
            if (value := getattr(student, name))
        }
        old = there.get(student.id)
        if old is None:
            connection.execute(insert(STUDENT).values(id=student.id, **fields))
            added.append(student.id)
        elif any(getattr(old, name) != value for name, value in fields.items()):
            connection.execute(update(STUDENT).where(STUDENT.c.id == student.id).values(**fields))
            changed.append(student.id)
        else:
            unchanged.append(student.id)
    missing = sorted(set(there) - {student.id for student in wanted})
    return Imported(tuple(added), tuple(changed), tuple(unchanged), tuple(missing))
