"""Actions on streams with dependencies, issued by hosts in program order: one simulator for all.

A host issues its actions one after the other, each at an issue cost, and may wait for the end of
other actions before it issues. An action runs on a stream, first in first out: it starts when it
is issued, its stream is free and what it needs has ended.

[Note: two predecessors] A program compiles to nodes in topological order, each the maximum of two
earlier end times plus a duration: an action, an issue by a host, or a join where an action has
more than two predecessors. Node 0 ends at time 0. The simulation is one pass over flat lists, and
the compiled plan can be run again with other durations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Final

from shardbook.errors import InputError, one_of, real
from shardbook.schedules.faults import ScheduleError

COMPUTE: Final = "compute"
COMMUNICATION: Final = "communication"
COPY: Final = "copy"

#: allocate when the host issues, as a caching allocator does, or when the action starts
ALLOCATE: Final = ("start", "issue")

_LONGEST: Final = 1e15


@dataclass(frozen=True, slots=True)
class Buffer:
    """Named memory in a pool (a rank, a device, host memory): ``size`` in bytes or in units."""

    pool: str
    name: str
    size: int = 1


@dataclass(frozen=True, slots=True)
class Action:
    """What runs: ``seconds`` on ``stream`` once the actions at the indices ``needs`` have ended.

    ``host`` issues it after ``waits`` have ended, at a cost of ``issue`` seconds. ``takes`` are
    buffers allocated for it, ``releases`` buffers that are free when it ends.
    """

    name: str
    stream: str
    seconds: float = 0.0
    needs: tuple[int, ...] = ()
    kind: str = COMPUTE
    host: str = "host"
    issue: float = 0.0
    waits: tuple[int, ...] = ()
    takes: tuple[Buffer, ...] = ()
    releases: tuple[Buffer, ...] = ()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Allocation:
    """``size`` held from the action ``taken`` to the end of ``released`` (None: to the end)."""

    buffer: str
    size: int
    taken: int
    released: int | None


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool's allocations; ``deltas``: sizes in the order of the pool's only stream, if one."""

    allocations: tuple[Allocation, ...]
    deltas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled program: flat lists of nodes. See [Note: two predecessors]."""

    actions: tuple[Action, ...]
    pools: dict[str, Pool]
    seconds: list[float] = field(repr=False)
    first: list[int] = field(repr=False)
    second: list[int] = field(repr=False)
    #: the node of each action, and the node of its issue (0: issued at time 0)
    node: list[int] = field(repr=False)
    issue_node: list[int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Run:
    """The times of a plan, in s, by action; ``peaks``: the most a pool held at once."""

    plan: Plan
    starts: tuple[float, ...] = field(repr=False)
    ends: tuple[float, ...] = field(repr=False)
    peaks: dict[str, int]
    allocate: str
    node_ends: list[float] = field(repr=False)

    @property
    def makespan(self) -> float:
        """The end of the last action, s (0 for an empty program)."""
        return max(self.ends, default=0.0)

    def taken_at(self, action: int) -> float:
        """When the buffers that an action takes are allocated, s."""
        if self.allocate == "start":
            return self.starts[action]
        return self.node_ends[self.plan.issue_node[action]]


def compile_plan(actions: Iterable[Action]) -> Plan:
    """Check a program and lay it out for `simulate`; linear in actions and dependencies.

    Raises `ScheduleError` for a missing producer, a deadlock, or memory taken or released twice.
    """
    program = tuple(actions)
    count = len(program)
    preds, issue_of = _predecessors(program)
    order = _topological(preds)
    if len(order) < len(preds):
        raise _deadlock(program, preds, set(order))
    costs = [real("seconds", action.seconds, 0, _LONGEST) for action in program]
    number = [0] * len(preds)
    seconds, first, second = [0.0], [0], [0]
    for node in order:
        earlier = sorted({number[before] for before in preds[node]})
        while len(earlier) > 2:
            seconds.append(0.0)
            first.append(earlier.pop())
            second.append(earlier.pop())
            earlier.append(len(seconds) - 1)
        number[node] = len(seconds)
        if node < count:
            seconds.append(costs[node])
        else:
            seconds.append(real("issue", program[issue_of[node - count]].issue, 0, _LONGEST))
        first.append(earlier[-1] if earlier else 0)
        second.append(earlier[0] if earlier else 0)
    issue_node = [0] * count
    for at, action_index in enumerate(issue_of):
        issue_node[action_index] = number[count + at]
    return Plan(program, _pools(program), seconds, first, second, number[:count], issue_node)


def simulate(plan: Plan, seconds: Sequence[float] | None = None, *, allocate: str = "start") -> Run:
    """Run a plan, with its own durations or others (``seconds``, one an action).

    Source of the model: CUDA's streams and events; for FSDP, Zhao et al., VLDB 2023, section 3.3.
    """
    one_of("allocate", allocate, ALLOCATE)
    costs = plan.seconds
    if seconds is not None:
        if len(seconds) != len(plan.actions):
            raise InputError("seconds", len(seconds), f"give {len(plan.actions)} durations")
        costs = costs.copy()
        for node, value in zip(plan.node, seconds, strict=True):
            costs[node] = real("seconds", value, 0, _LONGEST)
    starts: list[float] = []
    ends: list[float] = []
    start, end = starts.append, ends.append
    start(0.0)
    end(0.0)
    steps = zip(costs, plan.first, plan.second, strict=True)
    next(steps)
    for cost, one, other in steps:
        time = ends[one]
        later = ends[other]
        if later > time:
            time = later
        start(time)
        end(time + cost)
    run = Run(plan, _pick(starts, plan.node), _pick(ends, plan.node), {}, allocate, ends)
    for name, pool in plan.pools.items():
        if pool.deltas is not None and allocate == "start":
            run.peaks[name] = max(accumulate(pool.deltas))
        else:
            run.peaks[name] = max(held for _, held, _ in held_over_time(run, name))
    return run


def held_over_time(run: Run, pool: str) -> list[tuple[float, int, int]]:
    """What a pool holds after each take and release, as (time in s, size, action's index).

    At one instant, what was taken earlier is released first; else in program order.
    """
    events: list[tuple[float, int, int, int]] = []
    for allocation in run.plan.pools[pool].allocations:
        taken = run.taken_at(allocation.taken)
        events.append((taken, 1, allocation.taken, allocation.size))
        if allocation.released is not None:
            ended = run.ends[allocation.released]
            if ended < taken:
                reason = f"it releases {allocation.buffer} before that is taken"
                raise _fault(run.plan.actions, allocation.released, reason)
            events.append((ended, int(ended == taken), allocation.released, -allocation.size))
    events.sort(key=itemgetter(0, 1, 2))
    held = accumulate(size for _, _, _, size in events)
    return [(event[0], size, event[2]) for event, size in zip(events, held, strict=True)]


def _pick(values: list[float], nodes: list[int]) -> tuple[float, ...]:
    if len(nodes) < 2:
        return tuple(values[node] for node in nodes)
    picked: tuple[float, ...] = itemgetter(*nodes)(values)
    return picked


def _predecessors(program: tuple[Action, ...]) -> tuple[list[list[int]], list[int]]:
    """Nodes that end before each node starts: actions first, then the issues that matter."""
    count = len(program)
    slow = {action.host for action in program if action.issue or action.waits}
    preds: list[list[int]] = []
    issues: list[list[int]] = []
    issue_of: list[int] = []
    tail: dict[str, int] = {}
    host_tail: dict[str, int] = {}
    for index, action in enumerate(program):
        stream = action.stream
        before = []
        if stream in tail:
            before.append(tail[stream])
        for need in action.needs:
            if not 0 <= need < count:
                raise _fault(program, index, f"it needs action {need}, which nothing produces")
            # What ran earlier on the same stream has ended before the stream's last action.
            if program[need].stream != stream or need >= index:
                before.append(need)
        tail[stream] = index
        if action.host in slow:
            issue = [host_tail[action.host]] if action.host in host_tail else []
            for wait in action.waits:
                if not 0 <= wait < count:
                    raise _fault(program, index, f"its host waits for action {wait}: there is none")
                issue.append(wait)
            host_tail[action.host] = count + len(issues)
            before.append(count + len(issues))
            issues.append(issue)
            issue_of.append(index)
        preds.append(before)
    return preds + issues, issue_of


def _topological(preds: list[list[int]]) -> list[int]:
    followers: list[list[int]] = [[] for _ in preds]
    missing = [len(before) for before in preds]
    for node, before in enumerate(preds):
        for earlier in before:
            followers[earlier].append(node)
    order = [node for node, left in enumerate(missing) if not left]
    for node in order:
        for later in followers[node]:
            missing[later] -= 1
            if not missing[later]:
                order.append(later)
    return order


def _pools(program: tuple[Action, ...]) -> dict[str, Pool]:
    live: dict[tuple[str, str], tuple[int, int]] = {}
    allocations: dict[str, list[Allocation]] = {}
    deltas: dict[str, list[int]] = {}
    streams: dict[str, set[str]] = {}
    for index, action in enumerate(program):
        for buffer in action.takes:
            if (buffer.pool, buffer.name) in live:
                raise _fault(program, index, f"it takes {buffer.name}, which is taken already")
            live[buffer.pool, buffer.name] = (index, buffer.size)
            deltas.setdefault(buffer.pool, []).append(buffer.size)
            streams.setdefault(buffer.pool, set()).add(action.stream)
        for buffer in action.releases:
            if (buffer.pool, buffer.name) not in live:
                raise _fault(program, index, f"it releases {buffer.name}, which is not taken")
            taken, size = live.pop((buffer.pool, buffer.name))
            allocations.setdefault(buffer.pool, []).append(
                Allocation(buffer.name, size, taken, index)
            )
            deltas[buffer.pool].append(-size)
            streams[buffer.pool].add(action.stream)
    for (pool, name), (taken, size) in live.items():
        allocations.setdefault(pool, []).append(Allocation(name, size, taken, None))
    return {
        pool: Pool(tuple(held), tuple(deltas[pool]) if len(streams[pool]) == 1 else None)
        for pool, held in allocations.items()
    }


def _rows(program: tuple[Action, ...]) -> tuple[dict[str, list[str]], list[int]]:
    rows: dict[str, list[str]] = {}
    steps = []
    for action in program:
        row = rows.setdefault(action.stream, [])
        steps.append(len(row))
        row.append(action.name)
    return rows, steps


def _fault(program: tuple[Action, ...], index: int, reason: str) -> ScheduleError:
    rows, steps = _rows(program)
    return ScheduleError(rows, program[index].stream, steps[index], reason)


def _deadlock(program: tuple[Action, ...], preds: list[list[int]], done: set[int]) -> ScheduleError:
    """The circle of waiting that stops the program, told from its first action on."""
    count = len(program)
    node = next(node for node in range(len(preds)) if node not in done)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = next(before for before in preds[node] if before not in done)
    circle = [node for node in path[seen[node] :] if node < count]
    at = circle.index(min(circle))
    circle = circle[at:] + circle[:at]
    names = [program[node].name for node in [*circle, circle[0]]]
    if len(circle) > 8:
        names = [*names[:7], "…", names[-1]]
    return _fault(program, circle[0], "deadlock: it waits for itself: " + " ← ".join(names))
