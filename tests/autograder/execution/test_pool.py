"""Many submissions: a timeout counts only alone, and a grader that dies is no student's fault."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import submissions as made
from shardgrade import cli, run
from shardgrade.course import GraderError
from shardgrade.grading import pool
from shardgrade.grading.result import GradeRequest, SubmissionResult, grade_many, grade_submission
from shardgrade.layout import open_layout

SOURCE = made.notebook_of(
    made.answer("a", "def f(x): return x + 1"), made.graded("t", "assert f(2) == 3", 1)
)


def _result(request: GradeRequest, seconds: float) -> SubmissionResult:
    names = (request.student, request.assignment)
    return SubmissionResult(*names, "{}", (), (), (), seconds, "bwrap", "")


class Slow:
    """A worker that is late the first time, and notes who else is at work."""

    at_work: ClassVar[set[int]] = set()
    seen: ClassVar[list[tuple[str, int]]] = []
    lock = threading.Lock()

    def grade(self, request: GradeRequest) -> tuple[SubmissionResult, bool]:
        with self.lock:
            self.at_work.add(id(self))
            again = request.student in [student for student, _ in self.seen]
            self.seen.append((request.student, len(self.at_work)))
        time.sleep(0.05)
        with self.lock:
            self.at_work.discard(id(self))
        return _result(request, 2.0 if again else 1.0), request.student == "late" and not again

    def __init__(self, graders: pool.Graders) -> None:
        pass

    def close(self) -> None:
        pass


def test_what_ran_out_of_time_is_graded_once_more_and_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "WorkerProcess", Slow)
    nowhere = Path("x")
    students = ["late", *(f"s{number}" for number in range(6))]
    requests = [GradeRequest(student, "ps1", nowhere, nowhere) for student in students]
    results = list(grade_many(requests, 3))
    assert sorted(result.student for result in results) == sorted(students)
    assert {result.student: result.seconds for result in results}["late"] == 2.0
    assert [at_once for student, at_once in Slow.seen if student == "late"][1:] == [1]
    assert Slow.seen[-1][0] == "late"
    assert max(at_once for _, at_once in Slow.seen) > 1


def _request(folder: Path, student: str = "ann") -> GradeRequest:
    path = made.write_source(folder, SOURCE, "ps.ipynb", "ps1")
    home = folder / "submitted" / student / "ps1"
    home.mkdir(parents=True)
    (home / "ps.ipynb").write_text(path.read_text())
    return GradeRequest(student, "ps1", home, path, limits=made.LIMITS)


def _fork_of(worker: pool.WorkerProcess) -> int:
    process = worker._graders._process
    assert process
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    (child,) = map(int, path.read_text().split())
    return child


def test_a_grading_process_that_dies_is_told_and_the_next_one_goes_on(tmp_path: Path) -> None:
    request = _request(tmp_path)
    worker = pool.WorkerProcess()
    try:
        assert worker.grade(request)[0].score == 1
        threading.Timer(0.3, os.kill, (_fork_of(worker), signal.SIGKILL)).start()
        time.sleep(0.2)
        results = [worker.grade(replace(request, student=str(n)))[0] for n in range(8)]
        assert [result.max_score for result in results] == [1] * 8
        failed = [result for result in results if result.score == 0]
        assert len(failed) <= 1
        assert all("the grader failed" in result.went_wrong[0] for result in failed)
        assert all(result.digest == "" for result in failed)
        assert worker.grade(request)[0].score == 1
    finally:
        worker.close()


def test_a_worker_that_can_not_start_gives_nobody_a_nought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _request(tmp_path).source_path
    course = path.parents[2]
    file = tmp_path / "broken" / "ctypes.py"
    file.parent.mkdir()
    file.write_text("raise ImportError('broken by a test')")
    words = ["grade", "--assignment", "ps1", "--course", str(course)]
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setenv("PYTHONPATH", str(file.parent))
        cli.main(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1
    assert line.endswith("the grading process can't get ready: ImportError: broken by a test")
    assert not (course / "autograded").exists()
    assert run.records(open_layout(course), "ps1") == []
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--json"])
    assert ended.value.code == 0
    assert [one["score"] for one in json.loads(capsys.readouterr().out)] == [1]


def test_a_check_that_is_broken_gives_nobody_a_nought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = replace(_request(tmp_path), assignment="n45")
    broken = "from shardgrade.grading import serving, worker; worker.expectations = None"
    broken += "; serving.main()"
    monkeypatch.setattr(pool, "_COMMAND", ("-P", "-c", broken))
    with pytest.raises(GraderError, match="n45 can't be graded: TypeError"):
        list(grade_many([request, replace(request, student="bob")]))


def test_the_first_process_dies_and_a_new_one_takes_over(tmp_path: Path) -> None:
    request = _request(tmp_path)
    graders = pool.Graders()
    try:
        first = pool.WorkerProcess(graders)
        assert first.grade(request)[0].score == 1
        assert graders._process
        os.kill(graders._process.pid, signal.SIGKILL)
        assert first.grade(request)[0].score == 1  # its fork lives on
        assert pool.WorkerProcess(graders).grade(request)[0].score == 1
        first.close()
    finally:
        graders.close()
    assert not Path(graders._scratch.name).exists()


def test_nothing_is_left_when_whoever_waits_is_killed(tmp_path: Path) -> None:
    source = made.notebook_of(
        made.answer("a", "import time; time.sleep(60)"), made.graded("t", "1", 1)
    )
    path = made.write_source(tmp_path, source, "ps.ipynb", "ps1")
    code = (
        "import sys, pathlib; from shardgrade.grading.result import *\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "list(grade_many([GradeRequest(name, 'ps1', path, path) for name in 'ab'], 2))"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], env={**os.environ, "TMPDIR": str(scratch)}
    )
    _wait(lambda: len(list(scratch.glob("*/shardbox-*"))) == 3)
    time.sleep(1)
    process.kill()
    process.wait()
    _wait(lambda: not list(scratch.iterdir()))


def _wait(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_modules_in_the_current_folder_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a student's folder."""
    for name in ("json", "numpy", "shardgrade"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(tmp_path)
    (result,) = grade_many([_request(tmp_path)])
    assert result.went_wrong == () and result.scores == {"t": 1}


def test_a_stop_ends_all_quietly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Threads that wait for a closed process have nobody to tell; Ctrl-C is not for the process."""
    source = made.notebook_of(
        made.answer("a", "import time; time.sleep(60)"), made.graded("t", "1", 1)
    )
    request = _request(tmp_path)
    slow = made.write_source(tmp_path / "slow", source, "ps.ipynb", "ps1")
    asleep = replace(request, submission_path=slow, source_path=slow)
    results = grade_many([request, asleep, asleep], 2)
    assert next(results).score == 1
    before = threading.active_count()
    assert before >= 3
    results.close()  # as an interrupt does
    until = time.monotonic() + 5
    while threading.active_count() > before - 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert threading.active_count() == before - 2
    assert capfd.readouterr().err == ""
    worker = pool.WorkerProcess()
    assert worker.grade(request)[0].score == 1
    assert os.getpgid(_fork_of(worker)) != os.getpgid(0)
    worker.close()
    with pytest.raises(GraderError, match="stopped"):
        worker.grade(request)


def test_one_submission_is_graded_as_many_are(tmp_path: Path) -> None:
    request = _request(tmp_path)
    alone, (together,) = grade_submission(request), grade_many([request])
    same = {"seconds": 0.0, "digest": ""}  # the digest holds the code, which may be at work
    assert replace(alone, **same) == replace(together, **same)
    assert alone.scores == {"t": 1}


def test_a_rung_that_does_not_work_is_refused_and_nobody_gets_a_zero(tmp_path: Path) -> None:
    request = replace(_request(tmp_path), isolation="moat")
    for _ in range(2):
        with pytest.raises(GraderError, match="moat"):
            made.grade_all([request])
    assert made.grade_all([replace(request, isolation="auto")])["ann"].score == 1


def test_a_course_without_submissions_gives_nothing() -> None:
    assert list(grade_many([])) == []
