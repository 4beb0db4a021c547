"""Write files whole or not at all, one grader at a time, and say in one line what a disk refused."""

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shardgrade.course import GraderError
from shardgrade.layout import Layout

_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def replace_file(path: Path, content: bytes) -> str:
    """Put ``content`` at ``path`` in one step; returns its SHA-256.

    It does not wait for the disk: what a power cut tears is a file that can be made again, and of a
    graded one the hash is recorded. What a kill leaves beside it goes with the next write, as there
    is one writer only (`alone`).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".writing-{path.name}")
    try:
        with partial.open("wb") as file:
            file.write(content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return hashlib.sha256(content).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file; empty text if it can't be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


@contextlib.contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Hold the course's lock.

    The system frees it when the process ends, however it ends; the number in the file is only for
    the message. A record lock, since forked children don't inherit those.

    Raises:
        GraderError: another process holds it.
    """
    with plain_errors():
        layout.state.mkdir(parents=True, exist_ok=True)
        with (layout.state / "lock").open("a+", encoding="ascii") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.seek(0)
                raise GraderError(
                    f"process {file.read().strip() or '?'} is writing into this course: "
                    "wait until it has ended, then run this again"
                ) from None
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()))
            file.flush()
            yield


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what a disk or a database refuses into one line.

    Raises:
        GraderError: no room is left, a file can't be written, the database can't be used.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise GraderError(_no_room(str(error.filename or error.strerror))) from None
        raise GraderError(f"{error.filename or 'a file'}: {error.strerror}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in {"sqlalchemy", "sqlite3"}:
            raise
        said = str(getattr(error, "orig", None) or error)
        if "disk is full" in said or "disk I/O error" in said:
            raise GraderError(_no_room(f"gradebook: {said}")) from None
        raise GraderError(f"the gradebook can't be used: {said}") from None


def _no_room(what: str) -> str:
    return f"no room on the disk ({what}): what was recorded before stands; make room, then run this again"
