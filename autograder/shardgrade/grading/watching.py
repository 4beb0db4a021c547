"""Fork the check's process of a submission, and follow what it tells against the clock."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

from shardgrade.grading import checker
from shardgrade.sandbox.confine import die_with_parent
from shardgrade.sandbox.limits import Limits

# How much longer (s) than a cell's limit a check's process may take before it is killed.
_SLACK: Final = 3.0
_CHECKS_MEMORY: Final = 3 * 1024**3


@dataclass(slots=True)
class State:
    """What is known of a submission while it is graded."""

    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    fatal: dict[int, str] = field(default_factory=dict)
    went_wrong: list[str] = field(default_factory=list)
    timed_out: bool = False


def fork(job: checker.Job, talk: Any, interrupt: Any) -> tuple[int, int]:
    """Fork the check's process; returns the end of its events' pipe, and its id."""
    reader, writer = os.pipe()
    parent = os.getpid()
    process = os.fork()
    if process:
        os.close(writer)
        return reader, process
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(reader)
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        checker.limit_memory(_CHECKS_MEMORY)

        def tell(**event: Any) -> None:
            _write(writer, checker.event_line(**event))

        checker.run(job, talk, interrupt, tell)
        code = 0
    finally:
        os._exit(code)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def watch(
    reader: int,
    process: int,
    limits: Limits,
    state: State,
    until: float,
    caller: socket.socket | None,
) -> tuple[int | None, str | None]:
    """Follow the events; returns the cell where it ended too early, and why.

    When nobody is at the other end of ``caller`` any more, this process exits.
    """
    at: int | None = None
    why: str | None = "the check died"
    buffer = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    if caller is not None:
        poll.register(caller, select.POLLRDHUP)
    try:
        deadline = min(time.monotonic() + limits.cell_seconds + _SLACK, until)
        while True:
            left = deadline - time.monotonic()
            events = poll.poll(1000 * max(0.0, left))
            if not events:
                state.timed_out = True
                return at, "no result in time"
            if all(number != reader for number, _ in events):
                sys.exit(1)
            part = os.read(reader, 1 << 20)
            if not part:
                return at, why
            buffer += part
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                event = json.loads(line)
                what, cell = event.pop("event"), event.pop("cell", None)
                if what == "begin":
                    at = cell
                    deadline = min(time.monotonic() + limits.cell_seconds + _SLACK, until)
                elif what == "done":
                    state.done.setdefault(cell, event)
                    state.timed_out |= event["timed_out"] or event["slow"]
                elif what == "lost":
                    at, why = cell, event["why"]
                else:
                    state.went_wrong += event["denied"]
                    return None, None
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
