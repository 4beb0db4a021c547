"""Grade many submissions side by side; what ran out of time is graded once more, alone."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from shardgrade.course import GraderError
from shardgrade.grading import reading, repair
from shardgrade.grading.result import CellResult, GradeRequest, SubmissionResult
from shardgrade.sandbox.limits import Limits

_END_SECONDS: Final = 5.0
_LAST_WORDS: Final = 4096
# -P: no modules from the current folder, which may be a student's
_COMMAND: Final = ("-P", "-c", "from shardgrade.grading.worker import main; main()")


class WorkerProcess:
    """A grading process, started when it is needed first."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads fills up

    def grade(self, request: GradeRequest) -> tuple[SubmissionResult, bool]:
        """Grade one submission; a worker that dies at it is reported as the submission's result.

        The worker says first that it is ready for the assignment. One that dies before that never
        saw the submission: a new one is started, and if that can't get ready either, nobody is
        graded, since it would be everybody's nought.

        Raises:
            GraderError: a worker can't get ready, the isolation asked for does not work here, or it
                was closed.
        """
        for last in (False, True):
            process = self._started()
            try:
                self._send(process, request)
                ready = self._answer(process)
            except (OSError, ValueError):
                why = self._last_words()
                if last:
                    raise GraderError(f"the grading process can't get ready: {why}") from None
                continue
            try:
                answer = ready if "impossible" in ready else self._answer(process)
            except (OSError, ValueError):
                return _failed(request, self._last_words()), False
            if "impossible" in answer:
                raise GraderError(answer["impossible"])
            return SubmissionResult.from_json(answer["result"]), answer["timed_out"]
        raise AssertionError

    def _send(self, process: subprocess.Popen[str], request: GradeRequest) -> None:
        assert process.stdin
        process.stdin.write(request.to_json() + "\n")
        process.stdin.flush()

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    def _started(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._closed:
                raise GraderError("grading was stopped")
            if self._process is None or self._process.poll() is not None:
                self._said.truncate(0)
                self._process = subprocess.Popen(
                    [sys.executable, *_COMMAND],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._said,
                    text=True,
                    encoding="utf-8",
                    process_group=0,  # Ctrl-C is for whoever waits here, and closes it
                )
            return self._process

    def _last_words(self) -> str:
        """Clear a dead worker away; returns the last line that it wrote."""
        with self._lock:
            if self._closed or self._process is None:
                raise GraderError("grading was stopped")
            self._process.kill()
            self._process.communicate()
            self._process = None
            self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _LAST_WORDS))
            said = self._said.read().decode(errors="replace").strip().splitlines()
            return said[-1] if said else "the grading process died"

    def close(self) -> None:
        """End the process for good; it removes its files. A thread that waits in `grade` is told."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.communicate(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _failed(request: GradeRequest, why: str) -> SubmissionResult:
    notebook = repair.blank(reading.read_source(request.source_path))
    settings = [reading.settings_of(cell) for cell in notebook["cells"] if repair.is_graded(cell)]
    return SubmissionResult(
        student=request.student,
        assignment=request.assignment,
        notebook=json.dumps(notebook),
        cells=tuple(
            CellResult(str(one.get("grade_id")), 0.0, float(one.get("points", 0)), error=why)
            for one in settings
        ),
        put_right=(),
        went_wrong=(f"the grader failed: {why}",),
        seconds=0.0,
        isolation=request.isolation,
        digest="",  # so that it is graded again the next time
    )


_Ready = tuple[GradeRequest, SubmissionResult, bool]


def run(
    requests: Iterable[GradeRequest], workers: int = 0, limits: Limits | None = None
) -> Iterator[SubmissionResult]:
    """Grade submissions on several processes; results come as they are ready.

    Raises:
        GraderError: the isolation asked for does not work here.
    """
    todo = [replace(request, limits=limits) if limits else request for request in requests]
    count = min(workers or len(os.sched_getaffinity(0)), len(todo))
    waiting: queue.SimpleQueue[GradeRequest] = queue.SimpleQueue()
    results: queue.SimpleQueue[_Ready | GraderError] = queue.SimpleQueue()
    for request in todo:
        waiting.put(request)
    processes = [WorkerProcess() for _ in range(count)]
    threads = [
        threading.Thread(target=_work, args=(process, waiting, results), daemon=True)
        for process in processes
    ]
    try:
        for thread in threads:
            thread.start()
        again = []
        for _ in todo:
            ready = results.get()
            if isinstance(ready, GraderError):
                raise ready
            request, result, timed_out = ready
            if timed_out:
                again.append(request)
            else:
                yield result
        for request in again:
            yield processes[0].grade(request)[0]
    finally:
        while not waiting.empty():
            waiting.get()
        for process in processes:
            process.close()


def _work(process: WorkerProcess, waiting: Any, results: Any) -> None:
    while True:
        try:
            request = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            results.put((request, *process.grade(request)))
        except GraderError as error:
            results.put(error)
            return
