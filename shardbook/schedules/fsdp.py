"""The timeline of FSDP units: gather, compute, free, gather again, reduce-scatter.

Sources: Zhao et al., "PyTorch FSDP", VLDB 2023, sections 3.2–3.4 and 4; the order of issue is
that of PyTorch's fully_shard (`regather_last`, one unit of backward prefetch).

[Note: rate limiter] Before the host issues a gather it waits, oldest first, until fewer than
``limit`` gathered buffers are alive. It can only wait for a release that it has issued itself, so
a prefetch may exceed a limit that is too small; it never deadlocks.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from shardbook.errors import InputError, real, whole
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import (
    COMMUNICATION,
    COMPUTE,
    Action,
    Buffer,
    Plan,
    Run,
    simulate,
)

#: the pools of a timeline: gathered parameters (one a unit, or bytes) and unsharded gradients
PARAMETERS: Final = "gathered parameters"
GRADIENTS: Final = "unsharded gradients"
ALL_REDUCE: Final = "all-reduce"

_LONGEST: Final = 1e12
_MOST_UNITS: Final = 100_000
_MOST_AHEAD: Final = 1000


@dataclass(frozen=True, slots=True)
class Unit:
    """One FSDP unit: its times in s, and its ``size`` gathered (bytes, or 1 to count buffers).

    ``all_reduce`` is the time among the replicas of hybrid sharding; 0 without replicas.
    """

    forward: float
    backward: float
    all_gather: float
    reduce_scatter: float
    size: int = 1
    all_reduce: float = 0.0

    def __post_init__(self) -> None:
        for name in ("forward", "backward", "all_gather", "reduce_scatter", "all_reduce"):
            object.__setattr__(self, name, real(name, getattr(self, name), 0, _LONGEST, "s"))
        whole("size", self.size, 0, 2**63)


@dataclass(frozen=True, slots=True)
class Policy:
    """When units are gathered and freed (S31, S32, S37).

    ``overlap``: communication has a stream of its own. ``backward_prefetch`` and
    ``forward_prefetch``: how many units ahead a gather is issued. ``limit``: gathered buffers
    alive when the host issues another (None: no rate limiter). ``issue``: the host's cost an
    action, s. ``reshard``: free a unit after its forward. ``regather_last``: free also the last
    unit, whose backward comes next. ``micro_batches``: passes a step; ``accumulate``: only the
    last one communicates gradients (`no_sync`), the others keep them unsharded.
    """

    overlap: bool = True
    backward_prefetch: int = 0
    forward_prefetch: int = 0
    limit: int | None = None
    issue: float = 0.0
    reshard: bool = True
    regather_last: bool = False
    micro_batches: int = 1
    accumulate: bool = False

    def __post_init__(self) -> None:
        whole("backward_prefetch", self.backward_prefetch, 0, _MOST_AHEAD)
        whole("forward_prefetch", self.forward_prefetch, 0, _MOST_AHEAD)
        if self.limit is not None:
            whole("limit", self.limit, 1, _MOST_UNITS)
        object.__setattr__(self, "issue", real("issue", self.issue, 0, _LONGEST, "s"))
        whole("micro_batches", self.micro_batches, 1, 10_000)


def equal_units(
    count: int,
    forward: float,
    backward: float,
    all_gather: float,
    reduce_scatter: float,
    all_reduce: float = 0.0,
) -> tuple[Unit, ...]:
    """Return ``count`` equal units; times in s."""
    whole("units", count, 1, _MOST_UNITS)
    unit = Unit(forward, backward, all_gather, reduce_scatter, all_reduce=all_reduce)
    return (unit,) * count


def fsdp_plan(units: Sequence[Unit], policy: Policy = Policy()) -> Plan:
    """Compile one training step of FSDP units: the actions in the order the host issues them."""
    if not units:
        raise InputError("units", 0, "give at least one unit")
    if len(units) * policy.micro_batches > _MOST_UNITS:
        raise InputError("units", len(units), f"give at most {_MOST_UNITS:,} units × micro-batches")
    program = _Program(tuple(units), policy)
    for micro_batch in range(policy.micro_batches):
        program.step(micro_batch)
    return compile_plan(program.actions)


def fsdp_run(units: Sequence[Unit], policy: Policy = Policy()) -> Run:
    """Simulate a step; memory is allocated when issued, as PyTorch's caching allocator does.

    (S29)
    """
    return simulate(fsdp_plan(units, policy), allocate="issue")


def compute_seconds(units: Sequence[Unit], policy: Policy = Policy()) -> float:
    """All forwards and backwards of a step, s: no schedule is shorter."""
    return sum(unit.forward + unit.backward for unit in units) * policy.micro_batches


@dataclass(slots=True)
class _Program:
    """Builds the list of actions; knows which units are gathered and what frees them."""

    units: tuple[Unit, ...]
    policy: Policy
    actions: list[Action] = field(default_factory=list)
    #: unit → the action that gathers it, while it is gathered
    gathered: dict[int, int] = field(default_factory=dict)
    #: gathers whose buffer the host has not yet seen released
    outstanding: deque[int] = field(default_factory=deque)
    #: gather → the action whose end releases its buffer
    freed_by: dict[int, int] = field(default_factory=dict)
    gradients: set[int] = field(default_factory=set)
    prefix: str = ""

    def step(self, micro_batch: int) -> None:
        policy, last = self.policy, len(self.units) - 1
        self.prefix = f"m{micro_batch}:" if policy.micro_batches > 1 else ""
        for unit in range(last + 1):
            self.gather(range(unit, min(last, unit + policy.forward_prefetch) + 1))
            self.forward(unit, free=policy.reshard and (unit < last or policy.regather_last))
        reduce = micro_batch == policy.micro_batches - 1 or not policy.accumulate
        for unit in range(last, -1, -1):
            self.gather(range(unit, max(-1, unit - policy.backward_prefetch - 1), -1))
            self.backward(unit, reduce)

    def gather(self, wanted: range) -> None:
        for unit in wanted:
            if unit not in self.gathered:
                buffer = Buffer(PARAMETERS, f"unit {unit}", self.units[unit].size)
                index = self.add(
                    f"AG{unit}",
                    self.units[unit].all_gather,
                    kind=COMMUNICATION,
                    waits=self.limiter(),
                    takes=(buffer,),
                )
                self.gathered[unit] = index
                self.outstanding.append(index)

    def limiter(self) -> tuple[int, ...]:
        """What the host waits for before it gathers. See [Note: rate limiter]."""
        waits: list[int] = []
        limit, outstanding = self.policy.limit or inf, self.outstanding
        while len(outstanding) >= limit and outstanding[0] in self.freed_by:
            waits.append(self.freed_by[outstanding.popleft()])
        return tuple(waits)

    def forward(self, unit: int, *, free: bool) -> None:
        self.compute(f"F{unit}", unit, self.units[unit].forward, free=free)

    def backward(self, unit: int, reduce: bool) -> None:
        gradient = Buffer(GRADIENTS, f"unit {unit}", self.units[unit].size)
        takes = () if unit in self.gradients else (gradient,)
        self.gradients.add(unit)
        index = self.compute(f"B{unit}", unit, self.units[unit].backward, free=True, takes=takes)
        if not reduce:
            return
        self.gradients.remove(unit)
        index = self.add(
            f"RS{unit}",
            self.units[unit].reduce_scatter,
            needs=(index,),
            kind=COMMUNICATION,
            releases=(gradient,),
        )
        if self.units[unit].all_reduce:
            seconds = self.units[unit].all_reduce
            self.add(f"AR{unit}", seconds, needs=(index,), kind=COMMUNICATION, stream=ALL_REDUCE)

    def compute(
        self, name: str, unit: int, seconds: float, *, free: bool, takes: tuple[Buffer, ...] = ()
    ) -> int:
        gather = self.gathered[unit]
        releases: tuple[Buffer, ...] = ()
        if free:
            releases = self.actions[gather].takes
            self.freed_by[gather] = len(self.actions)
            del self.gathered[unit]
        return self.add(name, seconds, needs=(gather,), takes=takes, releases=releases)

    def add(
        self,
        name: str,
        seconds: float,
        *,
        needs: tuple[int, ...] = (),
        kind: str = COMPUTE,
        stream: str = "",
        waits: tuple[int, ...] = (),
        takes: tuple[Buffer, ...] = (),
        releases: tuple[Buffer, ...] = (),
    ) -> int:
        self.actions.append(
            Action(
                self.prefix + name,
                (stream or kind) if self.policy.overlap else COMPUTE,
                seconds,
                needs,
                kind,
                issue=self.policy.issue,
                waits=waits,
                takes=takes,
                releases=releases,
            )
        )
        return len(self.actions) - 1
