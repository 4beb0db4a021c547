"""The check's process of one submission: runs the notebook's cells, answers apart, tests here.

It is forked by the worker, has limits of its own, and tells the worker each step, so that its death
costs no more than the cell it was at.
"""

import ast
import contextlib
import io
import json
import resource
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from shardbook.labs import checking
from shardgrade import feedback_table
from shardgrade.checks import judging
from shardgrade.grading import names, needs, outputs, reading, repair
from shardgrade.grading.calls import RemoteCalls
from shardgrade.grading.points import points_of
from shardgrade.sandbox.channel import Channel
from shardgrade.sandbox.child import Output
from shardgrade.sandbox.errors import PeerLost, TimeIsUp
from shardgrade.sandbox.handles import Handle, RemoteModule
from shardgrade.sandbox.limits import Limits
from shardgrade.sandbox.remote import Peer
from shardgrade.sandbox.wire import WireError

_OWN: Final = "__main__"
_MUST_TELL: Final = "from shardgrade.checks import grade"

#: the judging of a cell, as `judging.assess` returned it
_assessments: list[judging.Assessment] = []


def prepare() -> None:
    """Make the checks of this process call students' functions elsewhere, and keep what they find.

    Once in each worker: its process does nothing else.
    """
    judge = judging.assess

    def assess(task_id: str, function: Any) -> judging.Assessment:
        assessment = judge(task_id, function)
        _assessments.append(assessment)
        return assessment

    judging.assess = assess
    for module in (judging, checking):
        vars(module)["Calls"] = RemoteCalls


@dataclass(frozen=True, slots=True)
class Job:
    """What a check's process gets: the notebook, what is given, what was done or was fatal before."""

    cells: list[reading.Cell]
    given: names.Given
    limits: Limits
    fatal: frozenset[int]
    done: frozenset[int]


def limit_memory(memory: int) -> None:
    """Limit the memory of this process to ``memory`` more than it has (B)."""
    with open("/proc/self/statm", encoding="ascii") as stat:
        present = int(stat.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (present + memory, present + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(job: Job, talk: socket.socket, interrupt: socket.socket, tell: Callable[..., None]) -> None:
    """Run all cells; ``tell`` gets the events ``begin``, ``done``, then ``lost`` or ``end``."""

    def stop() -> None:
        with contextlib.suppress(OSError):
            interrupt.send(b"x", socket.MSG_DONTWAIT)

    peer = Peer(Channel(talk, job.limits.message), guarded=_OWN, interrupt=stop)
    peer.deadline = time.monotonic() + job.limits.cell_seconds
    notebook = peer.handle(0)
    run_cell = notebook.cell
    tests = _Tests(notebook.names, job.given, peer.objects.met)
    for index, cell in enumerate(job.cells):
        if cell["cell_type"] != "code" or index in job.fatal:
            continue
        test = repair.is_test(cell)
        tell(event="begin", cell=index)
        began = time.monotonic()
        peer.deadline = began + job.limits.cell_seconds
        peer.timed_out = peer.slow = False
        peer.objects.met.clear()
        if test and not repair.is_in_process(cell):
            found = tests.replay(cell) if index in job.done else tests.run(cell)
        else:
            found = _in_sandbox(run_cell, cell, test)
        if peer.lost:
            tell(event="lost", cell=index, why=peer.lost)
            return
        found["timed_out"], found["slow"] = peer.timed_out, peer.slow
        if peer.timed_out and test:
            found["points"] = 0.0
            found["error"] = found.get("error") or "no result in time"
        tell(event="done", cell=index, **found)
    tell(event="end", denied=_denied(peer, notebook))


def _denied(peer: Peer, notebook: Handle) -> list[str]:
    peer.deadline = time.monotonic() + 1.0
    try:
        return [str(what)[: outputs.LONGEST] for what in notebook.denied()][:100]
    except (PeerLost, TimeIsUp, Exception):
        return []


def _in_sandbox(run_cell: Callable[[str], Any], cell: reading.Cell, test: bool) -> dict[str, Any]:
    try:
        ran = run_cell(cell["source"])
        shown = [outputs.clean(output) for output in ran["outputs"]]
        error = None if ran["error"] is None else str(ran["error"])[: outputs.LONGEST]
        dropped = ran["dropped"] if type(ran["dropped"]) is int else 0
        value = ran["value"]
    except PeerLost as lost:
        return {"error": str(lost), "outputs": [], "points": 0.0}
    except (TimeIsUp, Exception) as failed:
        error = f"{type(failed).__name__}: {failed}"[: outputs.LONGEST]
        return {"error": error, "outputs": [outputs.error_output(failed)], "points": 0.0}
    found: dict[str, Any] = {"error": error, "outputs": shown, "dropped": dropped}
    if test:
        found["points"] = 0.0 if error else points_of(_number(value), _most(cell))
    return found


def _most(cell: reading.Cell) -> float:
    return float(reading.settings_of(cell).get("points", 0))


def _number(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


class _Tests:
    """Runs test cells here, one after the other in one namespace."""

    def __init__(
        self, look_up: Callable[[list[str]], Any], given: names.Given, met: set[str]
    ) -> None:
        self._look_up = look_up
        self._given = given
        self._met = met
        # The instructor's functions look their names up where the tests do.
        self._space = given.names
        self._students: set[str] = set()

    def run(self, cell: reading.Cell) -> dict[str, Any]:
        """Run a test cell and read its points."""
        _assessments.clear()
        found, value = self._execute(cell["source"], whole=True)
        if found["error"] is None:
            tell = _MUST_TELL in cell["source"]
            found["points"] = points_of(value, _most(cell), must_tell=tell)
        else:
            found["points"] = 0.0
        found["feedback"] = []
        for assessment in _assessments:
            found["feedback"] += outputs.feedback(assessment)
            data = feedback_table.mime_bundle(assessment)
            shown = {"output_type": "display_data", "data": data, "metadata": {}}
            found["outputs"].insert(0, shown)
        return found

    def replay(self, cell: reading.Cell) -> dict[str, Any]:
        """Only define what later cells may need; the points are known already."""
        return self._execute(cell["source"], whole=False)[0]

    def _execute(self, code: str, *, whole: bool) -> tuple[dict[str, Any], Any]:
        out, err = Output(1_000_000), Output(1_000_000)
        value: Any = None
        failed: BaseException | None = None
        with contextlib.redirect_stdout(_as_text(out)), contextlib.redirect_stderr(_as_text(err)):
            try:
                tree = names.parse(code)
                if not whole:
                    tree = names.without_tests(tree)
                self._fetch(names.looked_up(tree) | self._given.needed)
                value = _run_tree(tree, self._space)
            except BaseException as error:
                failed = error
        shown: list[dict[str, Any]] = [
            {"output_type": "stream", "name": name, "text": text}
            for name, stream in (("stdout", out), ("stderr", err))
            if (text := stream.take())
        ]
        if failed is not None:
            shown.append(outputs.error_output(failed))
        elif value is not None:
            data = {"text/plain": outputs.represent(value)}
            result = {"output_type": "execute_result", "data": data, "metadata": {}}
            shown.append(outputs.clean(result))
        if failed is None:
            return {"error": None, "outputs": shown}, value
        said = f"{type(failed).__name__}: {outputs.say(failed)}"
        needed = (
            "" if _MUST_TELL in code else needs.of(code, failed, frozenset(self._met), self._given)
        )
        return {"error": said, "outputs": shown, "needed": needed}, value

    def _fetch(self, needed: frozenset[str]) -> None:
        own = {name: v for name, v in self._space.items() if name not in self._students}
        wanted = names.wanted_from_student(needed | self._students, own, self._given)
        if not wanted:
            return
        found = self._look_up(wanted)
        if not isinstance(found, dict):
            raise WireError("the names can't be read")
        for name in wanted:
            self._students.add(name)
            if name not in found:
                self._space.pop(name, None)
                continue
            value = found[name]
            if isinstance(value, RemoteModule):
                value = names.trusted_module(value.name) or value
            elif isinstance(value, Handle) and name in self._given.classes:
                object.__setattr__(value, "_lineage", True)
            self._space[name] = value


def _as_text(output: Output) -> io.TextIOBase:
    return output  # type: ignore[return-value]


def _run_tree(tree: ast.Module, space: dict[str, Any]) -> Any:
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    body = tree.body[:-1] if last else tree.body
    exec(compile(ast.Module(body, []), outputs.TEST_CELL, "exec"), space)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), outputs.TEST_CELL, "eval"), space)


def event_line(**event: Any) -> bytes:
    """An event as a line for the worker."""
    return json.dumps(event).encode() + b"\n"
