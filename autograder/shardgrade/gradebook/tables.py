"""What we keep in the gradebook beside nbgrader's tables, and how it is opened."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Engine,
    Float,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
)

from shardbook.errors import InputError
from shardgrade.course import GraderError
from shardgrade.layout import Layout

OURS: Final = MetaData()


def _table(name: str, *columns: Column[Any]) -> Table:
    return Table(f"shardgrade_{name}", OURS, *columns)


def _key(name: str) -> Column[str]:
    return Column(name, String(128), primary_key=True)


#: the last result of each submitted notebook; ``digest`` is of all that decides it
RESULT: Final = _table(
    "result",
    _key("student"),
    _key("assignment"),
    _key("notebook"),
    Column("digest", String(128), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("result", Text, nullable=False),
)

#: what a started day late costs, as a part of the score; the due date is in nbgrader's table
LATE: Final = _table(
    "late_policy",
    _key("assignment"),
    Column("per_day", Float, nullable=False),
    Column("grace", Float, nullable=False),
    Column("at_most", Float, nullable=False),
)

EXTENSION: Final = _table(
    "extension",
    _key("student"),
    _key("assignment"),
    Column("seconds", Float, nullable=False),
    Column("reason", Text, nullable=False),
)

REQUEST: Final = _table(
    "regrade_request",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("student", String(128), nullable=False),
    Column("assignment", String(128), nullable=False),
    Column("grade_id", String(128), nullable=False),
    Column("text", Text, nullable=False),
    Column("made", DateTime, nullable=False),
    Column("answer", Text),
    Column("answered", DateTime),
)


def engine_of(layout: Layout) -> Engine:
    """An engine on the course's gradebook, which waits for other writers.

    Raises:
        GraderError: the database's driver is not installed.
        InputError: the address can't be read or names an unknown kind of database, or it is
            PostgreSQL with another encoding than Unicode (when it is connected to).
    """
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(layout.db_url)
        engine = create_engine(url, connect_args={"timeout": 30} if layout.sqlite else {})
    except (ArgumentError, ValueError) as error:
        allowed = f"give sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME ({error})"
        raise InputError("db-url", layout.db_url, allowed) from None
    except ModuleNotFoundError as error:
        raise GraderError(f"--db-url {url}: {error}") from None
    if engine.dialect.name == "postgresql":
        # First of all: SQLAlchemy itself fails at such a database's first answer.
        event.listen(engine, "connect", partial(_check_encoding, str(url)), insert=True)
    if layout.sqlite:
        event.listen(engine, "connect", _begin_ourselves)
        event.listen(engine, "begin", _begin)
    return engine


def _check_encoding(url: str, connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        (name,) = cursor.fetchone()
    encoding = name.decode() if isinstance(name, bytes) else name
    if encoding != "UTF8":
        made = "make one with createdb --encoding=UTF8 --template=template0 NAME"
        raise InputError("db-url", url, f"its encoding is {encoding}, not Unicode: {made}")


# Python's sqlite3 begins a transaction before the first change only: statements that make or drop a
# table would each stand alone, and a kill between two of them would leave half.
def _begin_ourselves(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        connection.execute("PRAGMA synchronous = NORMAL")


@contextlib.contextmanager
def many_commits(layout: Layout) -> Iterator[None]:
    """Make commits cheap for a while, where the gradebook is a file.

    With SQLite's write-ahead log a commit need not wait for the disk: a power cut loses the last
    few at most, whole, and the next run grades them again. Afterwards the file is as nbgrader makes
    it; after a kill it becomes so with the next run.
    """
    if layout.sqlite is None:
        yield
        return
    _journal(layout.sqlite, "WAL")
    try:
        yield
    finally:
        with contextlib.suppress(sqlite3.OperationalError):  # another program reads it just now
            _journal(layout.sqlite, "DELETE")


def _journal(path: Path, mode: str) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=1)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextlib.contextmanager
def closing_engine(layout: Layout) -> Iterator[Engine]:
    """An engine whose connections are closed at the end."""
    engine = engine_of(layout)
    try:
        yield engine
    finally:
        engine.dispose()


@contextlib.contextmanager
def reading(layout: Layout) -> Iterator[Connection]:
    """A connection for queries; makes nothing."""
    with closing_engine(layout) as engine, engine.connect() as connection:
        yield connection


@contextlib.contextmanager
def writing(layout: Layout) -> Iterator[Connection]:
    """A connection in one transaction, with nbgrader's tables and ours there; committed at the end."""
    with closing_engine(layout) as engine:
        make_tables(layout, engine)
        with engine.begin() as connection:
            yield connection


def make_tables(layout: Layout, engine: Engine) -> None:
    """Make what is missing of nbgrader's tables and ours, all in one transaction."""
    with engine.begin() as connection:
        known = set(inspect(connection).get_table_names())
        if not {"alembic_version", "submitted_assignment"} <= known:
            _make_nbgraders(connection, layout.course_id)
        OURS.create_all(connection)


def _make_nbgraders(connection: Connection, course_id: str) -> None:
    from alembic.script import ScriptDirectory
    from nbgrader import api

    api.Base.metadata.create_all(connection)
    version = Table(
        "alembic_version", MetaData(), Column("version_num", String(32), nullable=False)
    )
    version.create(connection, checkfirst=True)
    if connection.execute(select(version)).first() is None:
        scripts = ScriptDirectory(str(Path(api.__file__).parent / "alembic"))
        connection.execute(version.insert().values(version_num=scripts.get_current_head()))
    course = api.Base.metadata.tables["course"]
    if connection.execute(select(course.c.id).where(course.c.id == course_id)).first() is None:
        connection.execute(course.insert().values(id=course_id))


def rows(connection: Connection, table: Table, **wanted: str) -> Sequence[Row[Any]]:
    """The rows of one of our tables where the columns have the ``wanted`` values."""
    if not inspect(connection).has_table(table.name):
        return []
    return connection.execute(select(table).filter_by(**wanted)).fetchall()
