"""Copies of the gradebook: one before every change, and the way back."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, MetaData, create_engine, insert, inspect, select

from shardbook.errors import InputError
from shardgrade.gradebook.tables import engine_of
from shardgrade.layout import Layout
from shardgrade.safely import file_hash

_KEPT: Final = 50


def backup(layout: Layout, why: str) -> Path | None:
    """Copy the gradebook to ``backups/``; the copy is a SQLite file whatever the database is.

    Returns the copy; the last one, if nothing has changed since; None if there is no gradebook.
    The newest 50 are kept.
    """
    if layout.sqlite and not layout.sqlite.exists():
        return None
    layout.backups.mkdir(parents=True, exist_ok=True)
    partial = layout.backups / ".writing.db"
    partial.unlink(missing_ok=True)
    try:
        if layout.sqlite:
            _copy_file(layout.sqlite, partial)
        else:
            _copy_rows(layout, partial)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    there = backups(layout)
    if there and file_hash(there[-1]) == file_hash(partial):
        partial.unlink()
        return there[-1]
    # Local names sort by age; two in the same microsecond would be the same copy.
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    target = layout.backups / f"gradebook-{stamp}-{why}.db"
    partial.replace(target)
    for old in backups(layout)[:-_KEPT]:
        old.unlink()
    return target


def backups(layout: Layout) -> list[Path]:
    """All copies, the oldest first."""
    return sorted(layout.backups.glob("gradebook-*.db"))


def restore(layout: Layout, name: str) -> tuple[Path, Path | None]:
    """Bring back the copy ``name`` (``last``: the newest); the present state is copied first.

    Returns what was brought back, and the copy of what it replaced.

    Raises:
        InputError: there is no such copy.
    """
    there = {path.name: path for path in backups(layout)}
    if name == "last" and there:
        name = max(there)
    if name not in there:
        raise InputError("backup", name, "give one of " + (", ".join(there) or "none there yet"))
    chosen = there[name]
    replaced = backup(layout, "restore")
    if layout.sqlite:
        # One transaction of the live file: killed in the middle, it is as it was.
        _copy_file(chosen, layout.sqlite)
    else:
        _copy_back(chosen, layout)
    return chosen, replaced


def _copy_file(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@contextmanager
def _opened(engine: Engine) -> Iterator[Connection]:
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _copy_rows(layout: Layout, target: Path) -> None:
    from nbgrader.api import Base  # an unusual database: its import is the smaller cost

    with _opened(engine_of(layout)) as old, _opened(create_engine(f"sqlite:///{target}")) as new:
        _copy_tables(old, new, _all_tables(Base.metadata))


def _copy_back(source: Path, layout: Layout) -> None:
    from nbgrader.api import Base

    tables = _all_tables(Base.metadata)
    with _opened(create_engine(f"sqlite:///{source}")) as old, _opened(engine_of(layout)) as new:
        tables.create_all(new)
        for table in reversed(tables.sorted_tables):
            new.execute(table.delete())
        _copy_tables(old, new, tables)


def _all_tables(nbgraders: MetaData) -> MetaData:
    from sqlalchemy import Column, String, Table

    from shardgrade.gradebook.tables import OURS

    every = MetaData()
    for known in (nbgraders, OURS):
        for table in known.sorted_tables:
            table.to_metadata(every)
    Table("alembic_version", every, Column("version_num", String(32), nullable=False))
    return every


def _copy_tables(old: Connection, new: Connection, tables: MetaData) -> None:
    tables.create_all(new)
    for table in tables.sorted_tables:
        if inspect(old).has_table(table.name):
            found = [dict(row._mapping) for row in old.execute(select(table))]
            if found:
                new.execute(insert(table), found)
