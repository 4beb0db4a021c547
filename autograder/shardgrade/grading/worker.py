"""Grade one submission after the other in a trusted process that stays warm.

For each submission it starts a student's process in the sandbox and forks a check's process, joins
the two, and watches the clock. When one of them dies or hangs, both are started again: what was
graded stays, the answers are run again, the fatal cell is left out.
"""

import contextlib
import gc
import importlib
import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardbook.labs.registry import LABS
from shardbook.labs.tasks import Task
from shardgrade.checks.judging import expectations, hidden_check
from shardgrade.grading import checker, names, outcome, reading, repair
from shardgrade.grading.calls import write_down
from shardgrade.grading.digest import code_hash, digest_of
from shardgrade.grading.result import GradeRequest, SubmissionResult
from shardgrade.grading.watching import State, fork, watch
from shardgrade.sandbox import ladder
from shardgrade.sandbox.box import Box, Warmth


@dataclass(frozen=True, slots=True)
class _Learnt:
    """An assignment: its source notebook, what that brings along, and the files for its sandboxes."""

    key: tuple[Any, ...]
    source: dict[str, Any]
    given: names.Given
    warmth: Warmth
    box: Box


@dataclass(frozen=True, slots=True)
class _Warm:
    """What stays warm between submissions of one assignment."""

    key: tuple[Any, ...]
    learnt: _Learnt
    sandbox: ladder.Sandbox


class Impossible(Exception):
    """Nobody can be graded: the assignment itself, or what judges it, is broken."""


class Worker:
    """Grades requests; keeps the sandbox of the last assignment warm.

    ``caller`` is a socket: when nobody is at its other end any more, it gives up.
    """

    def __init__(self) -> None:
        checker.prepare()
        self._boxes: list[Box] = []
        self._learnt: _Learnt | None = None
        self._warm: _Warm | None = None
        self.caller: socket.socket | None = None

    def close(self) -> None:
        """End the warm process."""
        if self._warm:
            self._warm.sandbox.close()
            self._warm = None

    def forget(self) -> None:
        """End the warm process, and remove the files that were made here."""
        self.close()
        for box in self._boxes:
            box.close()
        self._boxes.clear()
        self._learnt = None

    def learn(self, request: GradeRequest) -> None:
        """Learn the assignment; what is known now, forks of this process need not learn again.

        Raises:
            Impossible: its source can't be read, a hidden check or a reference solution fails.
        """
        source_path = request.source_path.resolve()
        try:
            key = (source_path, source_path.stat().st_mtime_ns, request.assignment)
            if self._learnt and self._learnt.key == key:
                return
            source = reading.read_source(source_path)
            for task in _tasks(request.assignment):
                for planned in expectations(task).values():
                    write_down(planned)
                importlib.import_module(f"shardbook.labs.examples_{request.assignment}")
            given = names.given_by(source)
            warmth = Warmth(names.imported_by(source), _blocked(request.assignment))
            code_hash()
            self._boxes.append(Box(warmth))  # forks may still read the one before
            self._learnt = _Learnt(key, source, given, warmth, self._boxes[-1])
        except Exception as error:  # whatever a check or a solution raises is everybody's trouble
            why = f"{type(error).__name__}: {error}"
            raise Impossible(f"{request.assignment} can't be graded: {why}") from error

    def prepare(self, request: GradeRequest) -> None:
        """Get ready to grade.

        Raises:
            Impossible: as in `learn`.
            SandboxError: the isolation asked for does not work here.
        """
        self._assignment(request)

    def grade(self, request: GradeRequest) -> tuple[SubmissionResult, bool]:
        """Grade one submission; the second value tells whether something ran out of time."""
        began = time.monotonic()
        digest = digest_of(request)  # before it is read: what comes in later is not graded yet
        state = State()
        put_right: tuple[str, ...] = ()
        warm = self._assignment(request)
        notebook = warm.learnt.source
        try:
            path, odd = reading.find_notebook(request.submission_path, request.source_path)
            submission, notices = reading.read_submission(path)
            files = reading.supporting_files(
                request.submission_path, path, request.source_path, request.limits.files
            )
            plan = repair.repair(warm.learnt.source, submission)
            notebook = plan.notebook
            put_right = (*odd, *notices, *plan.put_right)
        except (reading.Unreadable, OSError) as reason:
            state.went_wrong.append(str(reason))
            notebook = repair.blank(warm.learnt.source)
        else:
            self._run(request, notebook["cells"], files, state, began)
        warm = self._warm or warm
        cells = outcome.results(notebook["cells"], state)
        told = (cell for cell in notebook["cells"] if repair.is_in_process(cell))
        put_right += tuple(
            f"cell {reading.settings_of(cell).get('grade_id')} ran in the student's process, as tagged"
            for cell in told
            if repair.is_test(cell)
        )
        warning = ladder.warning(warm.sandbox.rung)
        result = SubmissionResult(
            student=request.student,
            assignment=request.assignment,
            notebook=json.dumps(notebook),
            cells=cells,
            put_right=put_right,
            went_wrong=(*state.went_wrong, *([warning] if warning else [])),
            seconds=round(time.monotonic() - began, 3),
            isolation=warm.sandbox.rung,
            digest=digest,
        )
        return result, state.timed_out

    def _assignment(self, request: GradeRequest) -> _Warm:
        self.learn(request)
        assert self._learnt
        key = (self._learnt.key, request.isolation, request.limits.files)
        if self._warm and self._warm.key == key:
            return self._warm
        self.close()
        package, course = Path(__file__).parents[1], request.source_path.resolve().parents[1]
        secret = [package, course, request.submission_path.parent]
        with contextlib.suppress(Exception):
            from shardgrade import checkout

            secret.append(checkout.root() / "solutions")
        learnt = self._learnt
        sandbox = ladder.open_sandbox(
            request.isolation, learnt.warmth, request.limits, secret, learnt.box
        )
        self._warm = _Warm(key, learnt, sandbox)
        gc.collect()
        gc.freeze()  # else each check's process would copy what the collector touches
        return self._warm

    def _run(
        self,
        request: GradeRequest,
        cells: list[reading.Cell],
        files: dict[str, bytes],
        state: State,
        began: float,
    ) -> None:
        limits = request.limits
        while True:
            warm = self._assignment(request)
            left = limits.seconds - (time.monotonic() - began)
            if left <= 0:
                outcome.give_up(cells, state, f"more than {limits.seconds:g} s in all")
                state.timed_out = True
                return
            if len(state.fatal) > limits.deaths:
                outcome.give_up(cells, state, f"given up after {len(state.fatal)} deaths")
                return
            job = checker.Job(
                cells, warm.learnt.given, limits, frozenset(state.fatal), frozenset(state.done)
            )
            try:
                talk, interrupt = warm.sandbox.start(files, limits, request.seed)
            except ladder.SandboxError:
                self.close()
                warm = self._assignment(request)
                talk, interrupt = warm.sandbox.start(files, limits, request.seed)
            with talk, interrupt:
                reader, process = fork(job, talk, interrupt)
            at, why = watch(reader, process, limits, state, began + limits.seconds, self.caller)
            try:
                ending = warm.sandbox.end()
            except ladder.SandboxError:
                self.close()
                ending = None
            if at is None and why is None:
                return
            outcome.note_death(cells, state, at, why or "", ending)


def _blocked(assignment: str) -> tuple[tuple[str, str], ...]:
    tasks = _tasks(assignment)
    return tuple((name, task.id) for task in tasks for name in hidden_check(task).blocked)


def _tasks(assignment: str) -> tuple[Task, ...]:
    lab = LABS.get(assignment)
    return lab.tasks if lab else ()
