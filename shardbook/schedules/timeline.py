"""What a run shows: spans, busy and exposed time, the critical path, memory over time."""

from dataclasses import dataclass

from shardbook.errors import InputError
from shardbook.schedules.core import COMMUNICATION, COMPUTE, Action, Run, held_over_time

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Span:
    """One action in time, from ``start`` to ``end`` (s); printed as ``AG2 3.5–5 communication``."""

    name: str
    stream: str
    kind: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.name} {self.start:g}–{self.end:g} {self.stream}"


@dataclass(frozen=True, slots=True)
class OverCapacity:
    """Where memory first exceeds a capacity: the action, the time (s) and what is held then."""

    action: str
    time: float
    held: int
    capacity: int

    def __str__(self) -> str:
        return f"{self.action} at {self.time:g} s: {self.held:,} held, {self.capacity:,} there"


def spans(run: Run) -> tuple[Span, ...]:
    """All actions in program order, with their times."""
    return tuple(
        Span(action.name, action.stream, action.kind, start, end)
        for action, start, end in zip(run.plan.actions, run.starts, run.ends, strict=True)
    )


def busy(run: Run, *, stream: str | None = None, kind: str | None = None) -> float:
    """Seconds in which at least one action of the stream or kind runs."""
    return sum(end - start for start, end in _intervals(run, stream=stream, kind=kind))


def exposed(run: Run, kind: str = COMMUNICATION) -> float:
    """Seconds in which an action of ``kind`` runs and nothing computes."""
    hidden = _intervals(run, kind=COMPUTE)
    shown = _intervals(run, kind=kind)
    return sum(end - start for start, end in shown) - _common(shown, hidden)


def critical_path(run: Run) -> tuple[Action, ...]:
    """The actions that, one ending as the next starts, fix the makespan: one such chain."""
    plan, ends = run.plan, run.node_ends
    if not plan.actions:
        return ()
    action_at = {node: index for index, node in enumerate(plan.node)}
    node = ends.index(run.makespan)
    path = []
    while node:
        if node in action_at:
            path.append(plan.actions[action_at[node]])
        one, other = plan.first[node], plan.second[node]
        node = one if ends[one] > ends[other] else other
    return tuple(reversed(path))


def memory(run: Run, pool: str) -> tuple[tuple[float, int], ...]:
    """What a pool holds over time: (time in s, size from then on), one entry a time."""
    if pool not in run.plan.pools:
        raise InputError("pool", pool, "give one of " + ", ".join(run.plan.pools))
    steps: dict[float, int] = {}
    for time, held, _ in held_over_time(run, pool):
        steps[time] = held
    return tuple(steps.items())


def first_over(run: Run, pool: str, capacity: int, resident: int = 0) -> OverCapacity | None:
    """The first allocation that no longer fits beside ``resident`` bytes, or None.

    Finds the phase of an out-of-memory error: the action's name says forward, backward or step.
    """
    for time, held, index in held_over_time(run, pool):
        if held + resident > capacity:
            return OverCapacity(run.plan.actions[index].name, time, held + resident, capacity)
    return None


def _intervals(run: Run, *, stream: str | None = None, kind: str | None = None) -> list[Interval]:
    """The times in which such actions run, merged."""
    chosen = sorted(
        (start, end)
        for action, start, end in zip(run.plan.actions, run.starts, run.ends, strict=True)
        if stream in (None, action.stream) and kind in (None, action.kind) and end > start
    )
    merged: list[Interval] = []
    for start, end in chosen:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _common(left: list[Interval], right: list[Interval]) -> float:
    total = 0.0
    i = j = 0
    while i < len(left) and j < len(right):
        total += max(0.0, min(left[i][1], right[j][1]) - max(left[i][0], right[j][0]))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return total
