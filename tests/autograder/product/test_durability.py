"""Killed, crowded out or without room: the gradebook stays whole and the next run finishes."""

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import made_course
import pytest
from made_course import NAME, grade, hand_in, make
from shardgrade import run
from shardgrade.course import GraderError
from shardgrade.gradebook import backup
from shardgrade.gradebook import tables as opened
from shardgrade.gradebook import writer as _imported_before_forking  # noqa: F401
from shardgrade.layout import Layout
from shardgrade.safely import alone, plain_errors
from sqlalchemy import event

POINTS = {f"student-{n}": {"t1": n % 5, "t2": n % 7 * 0.5} for n in range(6)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = make(tmp_path_factory.mktemp("undisturbed") / "course", POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "digest_of", made_course.digest_of)
        grade(layout)
    return layout


def in_a_child(do: Callable[[], Any], kill_after: float | None = None) -> int:
    """Run ``do`` in a forked process and return how that ended, as `os.waitpid` tells it."""
    child = os.fork()
    if child == 0:
        try:
            do()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def die_at(layout: Layout, statement: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Grade in a child that kills itself before its SQL statement of this number."""
    real = opened.engine_of

    def deadly(asked: Layout) -> Any:
        engine = real(asked)
        event.listen(engine, "before_cursor_execute", count)
        event.listen(engine, "commit", count)
        return engine

    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(opened, "engine_of", deadly)
        return in_a_child(lambda: grade(layout))


def is_whole(layout: Layout) -> None:
    """The gradebook opens, and each submission in it has all its grades, once."""
    with closing(sqlite3.connect(layout.root / "gradebook.db")) as book:
        assert book.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not book.execute("SELECT 1 FROM sqlite_master WHERE name = 'grade'").fetchall():
            return
        counts = book.execute(
            "SELECT student_id, count(g.id), count(DISTINCT g.cell_id), count(g.auto_score) "
            "FROM submitted_assignment s JOIN submitted_notebook n ON n.assignment_id = s.id "
            "LEFT JOIN grade g ON g.notebook_id = n.id GROUP BY student_id"
        ).fetchall()
        assert all(row[1:] == (3, 3, 3) for row in counts), counts
        results = book.execute("SELECT count(*) FROM shardgrade_result").fetchone()
        assert results == (len(counts),)


def test_killed_before_any_statement_nothing_is_lost_or_doubled(
    undisturbed: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make(tmp_path / "course", POINTS)
    wanted = made_course.tables(undisturbed)
    killed = 0
    # Each attempt gets a little further than the one before; steps of 3 and 7 meet all kinds.
    for statement in [*range(1, 60, 3), *range(60, 200, 7)]:
        ended = die_at(layout, statement, monkeypatch)
        if ended == 0:
            break
        assert os.WTERMSIG(ended) == signal.SIGKILL
        killed += 1
        is_whole(layout)
    assert killed > 20
    grade(layout)
    assert made_course.tables(layout) == wanted
    assert grade(layout).done == 0


def test_killed_at_random_moments_the_rerun_equals_an_undisturbed_run(
    undisturbed: Layout, tmp_path: Path
) -> None:
    wanted = made_course.tables(undisturbed)
    moments = random.Random(5)
    killed = 0
    for number in range(3):
        layout = make(tmp_path / f"course-{number}", POINTS)
        for _ in range(8):
            ended = in_a_child(lambda at=layout: grade(at), kill_after=moments.uniform(0, 0.15))
            killed += bool(ended)
            if (layout.root / "gradebook.db").exists():
                is_whole(layout)
        grade(layout)
        assert made_course.tables(layout) == wanted
        assert not list(layout.root.rglob(".writing*"))
    assert killed > 0


def test_a_kill_between_file_and_gradebook_is_noticed(
    undisturbed: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make(tmp_path / "course", POINTS)
    grade(layout)
    hand_in(layout, "student-1", {"t1": 4, "t2": 6})
    from shardgrade import late

    with monkeypatch.context() as patch:
        patch.setattr(late, "apply", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert os.WTERMSIG(in_a_child(lambda: grade(layout))) == signal.SIGKILL
    assert made_course.tables(layout) == made_course.tables(undisturbed)
    copy = backup.backup(layout, "after-the-kill")
    assert copy is not None
    backup.restore(layout, copy.name)
    assert made_course.tables(layout) == made_course.tables(undisturbed)
    hand_in(layout, "student-1", POINTS["student-1"])  # as before: only the graded file tells
    assert grade(layout).done == 1
    assert made_course.tables(layout) == made_course.tables(undisturbed)
    with closing(sqlite3.connect(layout.root / "gradebook.db")) as book:
        assert book.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_second_grader_says_so_and_stops(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", POINTS)
    ready, tell = os.pipe()

    def hold() -> None:
        with alone(layout):
            os.write(tell, b"x")
            time.sleep(60)

    child = os.fork()
    if child == 0:
        hold()
        os._exit(0)
    os.read(ready, 1)
    with pytest.raises(GraderError, match=f"process {child} is writing"), alone(layout):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with alone(layout):  # the killed one's lock is gone with it
        pass


@pytest.mark.parametrize("beyond_gradebook", [None, 0, 8_192])
def test_a_full_disk_is_one_clear_error(tmp_path: Path, beyond_gradebook: int | None) -> None:
    layout = make(tmp_path / "course", POINTS)
    grade(layout)
    before = made_course.tables(layout)
    size = (layout.root / "gradebook.db").stat().st_size
    room = 1_000 if beyond_gradebook is None else size + beyond_gradebook
    said = tmp_path / "said"
    for number in range(30):
        hand_in(layout, f"new-{number}", {"t1": 4, "t2": 6}, essay="word " * 5000)

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            with plain_errors():
                grade(layout)
        except GraderError as error:
            os.symlink(error.format_message(), said)  # a link's text needs no room
            os._exit(7)

    assert os.waitstatus_to_exitcode(in_a_child(full)) == 7
    message = os.readlink(said)
    assert "no room on the disk" in message and "\n" not in message
    with closing(sqlite3.connect(layout.root / "gradebook.db")) as book:
        assert book.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    recorded = len(run.records(layout, NAME))
    if beyond_gradebook is None:
        assert made_course.tables(layout) == before
    elif beyond_gradebook:
        assert 6 < recorded < 36  # it came to write, and what was written stands
    assert not list(layout.root.rglob(".writing*"))
    assert grade(layout).done == 36 - recorded
    assert len(run.records(layout, NAME)) == 36


@pytest.mark.slow
def test_a_rerun_with_nothing_changed_is_quick(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", {f"s{n}": {"t1": 1} for n in range(300)})
    grade(layout)
    program = (
        "import sys, resource, made_course\n"
        "from pathlib import Path\n"
        "from shardgrade import run\n"
        "run.digest_of = made_course.digest_of\n"
        "from shardgrade.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print(used.ru_utime + used.ru_stime, 'nbgrader' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "grade", "--assignment", NAME, "--course", layout.root],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    assert "0 graded, 300 unchanged" in done.stdout
    seconds, imported = done.stderr.split()[-2:]
    assert imported == "False"
    assert float(seconds) < 3
