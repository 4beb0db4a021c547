"""A run as trace-event JSON, which Perfetto and chrome://tracing open."""

import json
from pathlib import Path
from typing import Any

from shardbook.errors import InputError
from shardbook.schedules.core import Run
from shardbook.schedules.timeline import memory, spans

MICROSECONDS = 1e6


def trace_events(run: Run) -> dict[str, Any]:
    """Return the trace: a process a host, a thread a stream, a counter a memory pool.

    Source: Google's "Trace Event Format"; times in µs.
    """
    processes: dict[str, int] = {}
    threads: dict[tuple[str, str], int] = {}
    events: list[dict[str, Any]] = []
    for action, span in zip(run.plan.actions, spans(run), strict=True):
        pid = processes.setdefault(action.host, len(processes) + 1)
        tid = threads.setdefault((action.host, action.stream), len(threads) + 1)
        event = {"name": span.name, "cat": span.kind, "ph": "X", "pid": pid, "tid": tid}
        event["ts"] = span.start * MICROSECONDS
        event["dur"] = (span.end - span.start) * MICROSECONDS
        events.append(event)
    names = [_named("process_name", host, pid, 0) for host, pid in processes.items()]
    names += [
        _named("thread_name", stream, processes[host], tid)
        for (host, stream), tid in threads.items()
    ]
    for pool in run.plan.pools:
        for time, held in memory(run, pool):
            events.append(
                {"name": pool, "ph": "C", "pid": 0, "ts": time * MICROSECONDS, "args": {pool: held}}
            )
    return {"traceEvents": names + events, "displayTimeUnit": "ms"}


def write_trace(run: Run, path: str) -> None:
    """Write the trace to ``path``; raises `InputError` where that can't be written."""
    try:
        Path(path).write_text(json.dumps(trace_events(run)), encoding="utf-8")
    except OSError as error:
        raise InputError("trace", path, f"the file can't be written ({error.strerror})") from None


def _named(kind: str, name: str, pid: int, tid: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
