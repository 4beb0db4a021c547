"""A pipeline schedule as a program for the simulator: what needs what, and what it takes along."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat, zip_longest
from typing import Final, overload

from shardbook.errors import InputError, real, whole
from shardbook.schedules.compiling import lay_out, pool_of
from shardbook.schedules.core import COMMUNICATION, COMPUTE, Action, Allocation, Buffer, Plan, Pool
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.pipeline.actions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Order,
    PipelineAction,
)
from shardbook.schedules.pipeline.check import fault_of, rank_name

#: one value for all stages, or one a stage
PerStage = float | Sequence[float]

#: by stage and kind: micro-batch → the index of the part
Made = dict[tuple[int, str], dict[int | None, int]]

_LONGEST: Final = 1e12
#: transfer → the stages it goes up or down; what is sent behind a computation
_SENDS: Final = {"SEND_F": 1, "SEND_B": -1}
_SENDS_OF: Final = {FORWARD: "SEND_F", BACKWARD: "SEND_B", BACKWARD_INPUT: "SEND_B"}
#: what is the last to need what a forward keeps of a micro-batch
_LAST: Final = (BACKWARD, BACKWARD_WEIGHT)
#: kind → of the stage so many further on, those of these kinds that there are
_NEEDS: Final = {
    FORWARD: ((-1, ("SEND_F", FORWARD)),),
    BACKWARD: ((0, (FORWARD,)), (1, ("SEND_B", BACKWARD, BACKWARD_INPUT))),
    BACKWARD_INPUT: ((0, (FORWARD,)), (1, ("SEND_B", BACKWARD, BACKWARD_INPUT))),
    BACKWARD_WEIGHT: ((0, (BACKWARD_INPUT,)),),
    "SEND_F": ((0, (FORWARD,)),),
    "SEND_B": ((0, (BACKWARD, BACKWARD_INPUT)),),
}


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Times in s of a stage (a stage-chunk), for all stages or one a stage.

    A full backward takes both backward parts. ``transfer``: a boundary tensor from one rank to
    another, in order on their link. ``recompute``: each backward runs the forward again.
    """

    forward: PerStage = 1.0
    backward_input: PerStage = 1.0
    backward_weight: PerStage = 1.0
    transfer: float = 0.0
    recompute: bool = False

    def seconds(self, action: PipelineAction) -> float:
        """How long an action runs, s; bookkeeping takes no time."""
        if action.kind in _SENDS:
            return real("transfer", self.transfer, 0, _LONGEST, "s")
        forward = _of_stage("forward", self.forward, action.stage)
        inputs = _of_stage("backward-input", self.backward_input, action.stage)
        weights = _of_stage("backward-weight", self.backward_weight, action.stage)
        again = forward if self.recompute else 0.0
        return {
            FORWARD: forward,
            BACKWARD: again + inputs + weights,
            BACKWARD_INPUT: again + inputs,
            BACKWARD_WEIGHT: weights,
        }.get(action.kind, 0.0)


#: every part of a stage takes a second, transfers take no time
UNIT_TIMES: Final = StageTimes()


@dataclass(frozen=True, slots=True)
class Program:
    """An order compiled to run with any times.

    ``parts``: what each action of the plan does; ``ranks``: which rank does it; ``made``: by
    stage and kind, at what index each micro-batch's part is.
    """

    order: Order
    plan: Plan
    parts: tuple[PipelineAction, ...]
    ranks: tuple[int, ...]
    made: Made

    def seconds(self, times: StageTimes) -> list[float]:
        """How long each of the parts takes, s."""
        return _seconds(self.parts, self.made, times)


@dataclass(frozen=True, slots=True)
class _Actions(Sequence[Action]):
    """The actions of a program, one value each, made when they are read: to run needs none."""

    parts: tuple[PipelineAction, ...]
    streams: Sequence[str]
    hosts: Sequence[str]
    seconds: Sequence[float]
    needs: Sequence[Sequence[int]]
    sizes: dict[int, int]

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, at: int) -> Action: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Action, ...]: ...
    def __getitem__(self, at: int | slice) -> Action | tuple[Action, ...]:
        if isinstance(at, slice):
            return tuple(self[each] for each in range(len(self))[at])
        part, host = self.parts[at], self.hosts[at]
        stage, kind, micro_batch, _ = part
        kept: tuple[Buffer, ...] = ()
        if kind == FORWARD or kind in _LAST:
            kept = (Buffer(host, f"{stage}{FORWARD}{micro_batch}", self.sizes[stage]),)
        return Action(
            str(part),
            self.streams[at],
            self.seconds[at],
            tuple(self.needs[at]),
            COMMUNICATION if kind in _SENDS else COMPUTE,
            host,
            takes=kept if kind == FORWARD else (),
            releases=() if kind == FORWARD else kept,
        )


def program_of(
    order: Order, times: StageTimes = UNIT_TIMES, live: int | Sequence[int] = 1
) -> Program:
    """Compile an order that `make_order` made or that `check_order` has passed.

    A boundary tensor between two ranks is an action if ``times.transfer`` is not 0. ``live``: what
    a stage keeps of a micro-batch until its last backward part, for all stages or one a stage.
    Raises `ScheduleError` where the ranks wait for each other.
    """
    transfer = real("transfer", times.transfer, 0, _LONGEST, "s")
    ranks, parts, leads, made = _slots(order, sends=bool(transfer))
    rank_of = {stage: ranks[_first(like)] for (stage, _), like in made.items()}
    sizes = {stage: _size(live, stage) for stage in rank_of}
    names = [rank_name(rank) for rank in range(len(order))]
    hosts = [names[rank] for rank in ranks]
    streams = hosts.copy() if transfer else hosts
    for (stage, kind), sent in made.items():
        if kind in _SENDS:
            to = names[rank_of[stage + _SENDS[kind]]]
            for at in sent.values():
                streams[at] = f"{hosts[at]} → {to}"
    needs = _needs(made, streams, leads)
    seconds = _seconds(parts, made, times)
    actions = _Actions(parts, streams, hosts, seconds, needs, sizes)
    try:
        nodes = lay_out(actions, needs, seconds)
    except ScheduleError as error:
        if transfer:
            # A link keeps the order of what it sends: the same ranks wait without any.
            program_of(order, replace(times, transfer=0.0), live)
        rank = names.index(error.rank)
        raise fault_of(order, rank, error.action, error.reason) from None
    plan = Plan(actions, _pools(made, rank_of, sizes), *nodes, [0] * len(parts))
    return Program(order, plan, parts, ranks, made)


def _seconds(parts: Sequence[PipelineAction], made: Made, times: StageTimes) -> list[float]:
    seconds = [0.0] * len(parts)
    for like in made.values():
        value = times.seconds(parts[_first(like)])
        for at in like.values():
            seconds[at] = value
    return seconds


def _first(like: dict[int | None, int]) -> int:
    return next(iter(like.values()))


def _slots(
    order: Order, *, sends: bool
) -> tuple[tuple[int, ...], tuple[PipelineAction, ...], list[int], Made]:
    """Step by step and rank by rank: the rank, the part, and what must wait for its needs.

    An overlapped pair starts when both of its parts can: the first waits for the second's needs.
    """
    rank_of: dict[int, int] = {}
    if sends:
        rank_of = {
            part.stage: rank for rank, row in enumerate(order) for a in row for part in a.steps
        }
    ranks: list[int] = []
    parts: list[PipelineAction] = []
    leads: list[int] = []
    made: Made = defaultdict(dict)
    for step in zip_longest(*order):
        for rank, action in enumerate(step):
            if action is None:
                continue
            lead = len(parts)
            for part in action[3] or (action,):
                made[part[:2]][part[2]] = len(parts)
                ranks.append(rank)
                parts.append(part)
                leads.append(lead)
                send = _SENDS_OF.get(part[1]) if sends else None
                if send and rank_of.get(part.stage + _SENDS[send], rank) != rank:
                    ranks.append(rank)
                    leads.append(len(parts))
                    made[part.stage, send][part.micro_batch] = len(parts)
                    parts.append(PipelineAction(part.stage, send, part.micro_batch))
    return tuple(ranks), tuple(parts), leads, made


def _needs(made: Made, streams: Sequence[str], leads: Sequence[int]) -> list[list[int]]:
    """What each part waits for, its stream's last part included: indices of parts."""
    tail: dict[str, int] = {}
    needs: list[list[int]] = []
    for at, stream in enumerate(streams):
        needs.append([tail[stream]] if stream in tail else [])
        tail[stream] = at
    for (stage, kind), waiting in made.items():
        for hop, kinds in _NEEDS.get(kind, ()):
            found: dict[int | None, int] = {}
            # Of several kinds, the first that there is.
            for other in reversed(kinds):
                found.update(made.get((stage + hop, other), {}))
            if not found:
                continue
            for micro_batch, at in waiting.items():
                need, lead = found.get(micro_batch), leads[at]
                # What ran earlier on the same stream has ended before.
                if need is not None and (need >= lead or streams[need] != streams[lead]):
                    needs[lead].append(need)
    return needs


def _pools(made: Made, rank_of: dict[int, int], sizes: dict[int, int]) -> dict[str, Pool]:
    """By rank, what its stages keep of each micro-batch from its forward to its last backward."""
    held: dict[str, list[Allocation]] = {}
    for stage, rank in rank_of.items():
        ended: dict[int | None, int] = {}
        for kind in _LAST:
            ended |= made.get((stage, kind), {})
        taken = made.get((stage, FORWARD), {})
        if taken:
            allocations = zip(repeat(sizes[stage]), taken.values(), map(ended.get, taken))
            held.setdefault(rank_name(rank), []).extend(allocations)
    return {name: pool_of(allocations, one_stream=True) for name, allocations in held.items()}


def _size(live: int | Sequence[int], stage: int) -> int:
    if isinstance(live, Sequence):
        if stage >= len(live):
            raise InputError("live", live, f"give a value for stage {stage}, too")
        return whole("live", live[stage], 0, 2**63)
    return whole("live", live, 0, 2**63)


def _of_stage(name: str, values: PerStage, stage: int) -> float:
    if isinstance(values, Sequence):
        if stage >= len(values):
            raise InputError(name, values, f"give a value for stage {stage}, too")
        return real(name, values[stage], 0, _LONGEST, "s")
    return real(name, values, 0, _LONGEST, "s")
