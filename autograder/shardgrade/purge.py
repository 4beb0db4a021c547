"""Delete a term's personal data, and say what stays."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, TableClause, delete, inspect

from shardgrade.gradebook import scores
from shardgrade.gradebook.tables import EXTENSION, REQUEST, RESULT, closing_engine, reading
from shardgrade.layout import Layout

#: the tables that speak of students, in an order that no foreign key minds
_PERSONAL: Final = (
    RESULT,
    EXTENSION,
    REQUEST,
    scores.COMMENT,
    scores.GRADE,
    scores.SUBMITTED,
    scores.SUBMISSION,
    scores.STUDENT,
)
#: our own folders beside nbgrader's
_OURS: Final = ("backups", "exports", ".shardgrade")


@dataclass(frozen=True, slots=True)
class Purged:
    """What is deleted (files by folder, rows by table) and what stays in the course folder."""

    files: dict[str, int]
    rows: dict[str, int]
    kept: tuple[str, ...]


def survey(layout: Layout) -> Purged:
    """What a purge would delete."""
    going = _folders(layout)
    files = {
        str(path.relative_to(layout.root)): sum(one.is_file() for one in path.rglob("*"))
        for path in going
    }
    kept = [path for path in sorted(layout.root.iterdir()) if path not in going]
    with reading(layout) as connection:
        counted = {
            table.name: len(connection.execute(table.select()).fetchall())
            for table in _there(connection)
        }
    return Purged(files, counted, tuple(path.name for path in kept))


def purge(layout: Layout) -> Purged:
    """Delete submissions, grades, feedback, exports, backups and the roster.

    Labs, their points, due dates, settings and reports without names stay. In a SQLite file the
    deleted rows are overwritten too. Hold the course's lock.
    """
    told = survey(layout)
    with closing_engine(layout) as engine, engine.begin() as connection:
        for table in _there(connection):
            connection.execute(delete(table))
    if layout.sqlite:
        with closing(sqlite3.connect(layout.sqlite)) as file:
            # Deleted rows stay readable in free pages and logs until the file is written anew.
            file.execute("PRAGMA journal_mode = DELETE")
            file.execute("VACUUM")
    for path in _folders(layout):
        for inside in path.iterdir():
            if inside.name != "lock":
                shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    return told


def _there(connection: Connection) -> Iterator[TableClause]:
    names = set(inspect(connection).get_table_names())
    return (table for table in _PERSONAL if table.name in names)


def _folders(layout: Layout) -> list[Path]:
    steps = [layout.root / layout.steps[name] for name in ("submitted", "autograded", "feedback")]
    ours = [layout.root / name for name in _OURS]
    return [path for path in [*steps, *ours] if path.is_dir()]
