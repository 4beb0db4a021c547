"""Grade many submissions side by side; what ran out of time is graded once more, alone."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO, Any, Final

from shardgrade.course import GraderError
from shardgrade.grading import reading, repair
from shardgrade.grading.result import CellResult, GradeRequest, SubmissionResult
from shardgrade.sandbox.limits import Limits

_END_SECONDS: Final = 5.0
_LAST_WORDS: Final = 4096
_LONGEST_ANSWER: Final = 1 << 16
# -P: no modules from the current folder, which may be a student's
_COMMAND: Final = ("-P", "-c", "from shardgrade.grading.serving import main; main()")


class Graders:
    """The process that learns the assignment and is forked for grading, started when needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads fills up
        # Their files in one folder: what one leaves that is killed goes with it.
        self._scratch = tempfile.TemporaryDirectory(
            prefix="shardgrade-", ignore_cleanup_errors=True
        )
        os.chmod(self._scratch.name, 0o755)  # on one rung another user reads below

    def connect(self, request: GradeRequest) -> socket.socket:
        """A connection to a new grading process that has learnt the request's assignment.

        Raises:
            GraderError: there can't be one, or it was closed.
        """
        with self._lock:
            for last in (False, True):
                control = self._started()
                mine, theirs = socket.socketpair()
                try:
                    with theirs:
                        socket.send_fds(control, [request.to_json().encode()], [theirs.fileno()])
                        answer = json.loads(control.recv(_LONGEST_ANSWER))
                except (OSError, ValueError):
                    mine.close()
                    self._bury()
                    if last:
                        raise self.broken() from None
                    continue
                if "impossible" in answer:
                    mine.close()
                    raise GraderError(answer["impossible"])
                return mine
        raise AssertionError

    def broken(self) -> GraderError:
        """The error that says why there is no grading process."""
        if self._closed:
            return GraderError("grading was stopped")
        return GraderError(f"the grading process can't get ready: {self.last_words()}")

    def last_words(self) -> str:
        """The last line that a grading process wrote."""
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _LAST_WORDS))
        said = self._said.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else "the grading process died"

    def _started(self) -> socket.socket:
        if self._closed:
            raise GraderError("grading was stopped")
        if self._control is None:
            self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, *_COMMAND],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=self._said,
                    env={**os.environ, "TMPDIR": self._scratch.name},
                    process_group=0,  # Ctrl-C is for whoever waits here, and closes it
                )
        return self._control

    def _bury(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def close(self) -> None:
        """End all for good; they remove their files. A thread that waits in `connect` is told."""
        self._closed = True
        if control := self._control:
            control.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._bury()
            self._scratch.cleanup()


class WorkerProcess:
    """One grading process of ``graders``, or of its own; connected when it is needed first."""

    def __init__(self, graders: Graders | None = None) -> None:
        self._graders = graders or Graders()
        self._own = graders is None
        self._connection: socket.socket | None = None
        self._reader: IO[bytes] | None = None
        self._closed = False

    def grade(self, request: GradeRequest) -> tuple[SubmissionResult, bool]:
        """Grade one submission; a worker that dies at it is reported as the submission's result.

        The worker says first that it is ready for the assignment. One that dies before that never
        saw the submission: a new one is started, and if that can't get ready either, nobody is
        graded, since it would be everybody's zero.

        Raises:
            GraderError: a worker can't get ready, the isolation asked for does not work here, or it
                was closed.
        """
        for last in (False, True):
            try:
                self._send(request)
                answer = self._answer()
            except (OSError, ValueError):
                self._drop()
                if last or self._closed:
                    raise self._graders.broken() from None
                continue
            try:
                if "impossible" not in answer:
                    answer = self._answer()
            except (OSError, ValueError):
                self._drop()
                if self._closed:
                    raise self._graders.broken() from None
                return _failed(request, self._graders.last_words()), False
            if "impossible" in answer:
                raise GraderError(answer["impossible"])
            return SubmissionResult.from_json(answer["result"]), answer["timed_out"]
        raise AssertionError

    def _send(self, request: GradeRequest) -> None:
        if self._connection is None:
            self._connection = self._graders.connect(request)
            self._reader = self._connection.makefile("rb")
        self._connection.sendall(request.to_json().encode() + b"\n")

    def _answer(self) -> dict[str, Any]:
        assert self._reader
        answer: dict[str, Any] = json.loads(self._reader.readline())
        return answer

    def _drop(self) -> None:
        if self._connection and self._reader:
            self._reader.close()
            self._connection.close()
        self._connection = self._reader = None

    def close(self) -> None:
        """End the process for good. A thread that waits in `grade` is told."""
        self._closed = True
        if connection := self._connection:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._own:
            self._graders.close()


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
    graders = Graders()
    processes = [WorkerProcess(graders) for _ in range(count)]
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
        graders.close()


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
