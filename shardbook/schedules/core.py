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
from typing import Final, NamedTuple

from shardbook.errors import InputError, one_of, real
from shardbook.schedules.faults import ScheduleError

COMPUTE: Final = "compute"
COMMUNICATION: Final = "communication"
COPY: Final = "copy"

#: allocate when the host issues, as a caching allocator does, or when the action starts
ALLOCATE: Final = ("start", "issue")

#: a size, the action that takes it, and the one at whose end it is free (None: none)
Allocation = tuple[int, int, int | None]

_LONGEST: Final = 1e15


class Buffer(NamedTuple):
    """Named memory in a pool (a rank, a device, host memory): ``size`` in bytes or in units."""

    pool: str
    name: str
    size: int = 1


class Action(NamedTuple):
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
class Pool:
    """One pool's allocations.

    ``changes``: where one stream takes and releases all of it, in the order of that stream (action,
    whether it releases, by how much the pool changes); else None.
    """

    allocations: tuple[Allocation, ...]
    changes: tuple[tuple[int, bool, int], ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled program: flat lists of nodes. See [Note: two predecessors]."""

    actions: Sequence[Action]
    pools: dict[str, Pool]
    seconds: list[float] = field(repr=False)
    first: list[int] = field(repr=False)
    second: list[int] = field(repr=False)
    #: the node of each action, and the node of its issue (0: issued at time 0)
    node: list[int] = field(repr=False)
    issue_node: list[int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Run:
    """An executed plan: ``node_ends`` are its times in s; ``peaks``: the most a pool held at once.

    ``starts`` and ``ends`` are read off the nodes when asked for: keep them for repeated use.
    """

    plan: Plan
    node_ends: list[float] = field(repr=False)
    peaks: dict[str, int]
    allocate: str

    @property
    def starts(self) -> tuple[float, ...]:
        """The start of each action, s."""
        ends, first, second = self.node_ends, self.plan.first, self.plan.second
        one = [ends[first[node]] for node in self.plan.node]
        other = [ends[second[node]] for node in self.plan.node]
        return tuple(map(max, one, other))

    @property
    def ends(self) -> tuple[float, ...]:
        """The end of each action, s."""
        ends = self.node_ends
        return tuple([ends[node] for node in self.plan.node])

    @property
    def makespan(self) -> float:
        """The end of the last action, s (0 for an empty program)."""
        return max(self.node_ends)

    def start_of(self, action: int) -> float:
        """When the action at this index starts, s."""
        node = self.plan.node[action]
        return max(self.node_ends[self.plan.first[node]], self.node_ends[self.plan.second[node]])

    def end_of(self, action: int) -> float:
        """When the action at this index ends, s."""
        return self.node_ends[self.plan.node[action]]

    def taken_at(self, action: int) -> float:
        """When the buffers that an action takes are allocated, s."""
        if self.allocate == "start":
            return self.start_of(action)
        return self.node_ends[self.plan.issue_node[action]]


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
        for node, value in zip(plan.node, checked_seconds("seconds", seconds), strict=True):
            costs[node] = value
    ends = [0.0]
    append = ends.append
    steps = zip(costs, plan.first, plan.second, strict=True)
    next(steps)
    for cost, one, other in steps:
        time = ends[one]
        later = ends[other]
        append((time if time > later else later) + cost)
    run = Run(plan, ends, {}, allocate)
    for name, pool in plan.pools.items():
        if pool.changes is not None and allocate == "start":
            run.peaks[name] = max(accumulate(map(itemgetter(2), pool.changes)))
        else:
            run.peaks[name] = max(held for _, held, _ in held_over_time(run, name))
    return run


def held_over_time(run: Run, pool: str) -> list[tuple[float, int, int]]:
    """What a pool holds after each take and release, as (time in s, size, action's index).

    At one instant: in the order of the stream where there is one stream; else what was taken
    earlier is released first, and the rest is in program order.
    """
    changes = run.plan.pools[pool].changes
    if changes is not None and run.allocate == "start":
        node, ends = run.plan.node, run.node_ends
        times = [ends[node[at]] if releases else run.start_of(at) for at, releases, _ in changes]
        held = accumulate(map(itemgetter(2), changes))
        return list(zip(times, held, map(itemgetter(0), changes), strict=True))
    events: list[tuple[float, int, int, int]] = []
    for size, taker, releaser in run.plan.pools[pool].allocations:
        taken = run.taken_at(taker)
        events.append((taken, 1, taker, size))
        if releaser is not None:
            ended = run.end_of(releaser)
            if ended < taken:
                actions = run.plan.actions
                names = {buffer.name for buffer in actions[releaser].releases}
                name = next(each.name for each in actions[taker].takes if each.name in names)
                raise program_fault(actions, releaser, f"it releases {name} before that is taken")
            events.append((ended, int(ended == taken), releaser, -size))
    events.sort(key=itemgetter(0, 1, 2))
    held = accumulate(map(itemgetter(3), events))
    return [(event[0], size, event[2]) for event, size in zip(events, held, strict=True)]


def checked_seconds(argument: str, values: Iterable[float]) -> list[float]:
    """Return durations, s; raises `InputError` where one is negative or not finite."""
    return [
        value
        if type(value) is float and 0 <= value <= _LONGEST
        else real(argument, value, 0, _LONGEST, "s")
        for value in values
    ]


def program_fault(program: Sequence[Action], index: int, reason: str) -> ScheduleError:
    """The error for the action at ``index``; its grid has a row for each stream."""
    rows: dict[str, list[str]] = {}
    step = 0
    for at, action in enumerate(program):
        row = rows.setdefault(action.stream, [])
        if at == index:
            step = len(row)
        row.append(action.name)
    return ScheduleError(rows, program[index].stream, step, reason)
