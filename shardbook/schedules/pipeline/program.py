"""A pipeline schedule as a program for the simulator: what needs what, and what it takes along."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, real, whole
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COMMUNICATION, COMPUTE, Action, Buffer, Plan
from shardbook.schedules.pipeline.actions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Order,
    PipelineAction,
)
from shardbook.schedules.pipeline.check import rank_name

#: one value for all stages, or one a stage
PerStage = float | Sequence[float]

#: rank, what runs, and what must be ready with it
Slot = tuple[int, PipelineAction, tuple[PipelineAction, ...]]

_LONGEST: Final = 1e12
#: transfer → the stages it goes up or down; what is sent behind a computation
_SENDS: Final = {"SEND_F": 1, "SEND_B": -1}
_SENDS_OF: Final = {FORWARD: "SEND_F", BACKWARD: "SEND_B", BACKWARD_INPUT: "SEND_B"}
#: what takes, or is the last to need, what is kept of a micro-batch
_HOLDS: Final = (FORWARD, BACKWARD, BACKWARD_WEIGHT)
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
    """An order compiled to run with any times; ``parts``: what each action of the plan does."""

    order: Order
    plan: Plan
    parts: tuple[PipelineAction, ...]


def program_of(
    order: Order, times: StageTimes = UNIT_TIMES, live: int | Sequence[int] = 1
) -> Program:
    """Compile an order that `make_order` made or that `check_order` has passed.

    A boundary tensor between two ranks is an action if ``times.transfer`` is not 0. ``live``: what
    a stage keeps of a micro-batch until its last backward part, for all stages or one a stage.
    Raises `ScheduleError` where the ranks wait for each other.
    """
    rank_of = {part.stage: rank for rank, row in enumerate(order) for a in row for part in a.steps}
    transfer = real("transfer", times.transfer, 0, _LONGEST, "s")
    slots = list(_slots(order, rank_of if transfer else {}))
    parts = tuple([part for _, part, _ in slots])
    producers = _producers(parts)
    names = [rank_name(rank) for rank in range(len(order))]
    sizes = {stage: _size(live, stage) for stage in rank_of}
    kept: dict[tuple[int, int | None], tuple[Buffer, ...]] = {}
    none: tuple[Buffer, ...] = ()
    actions = []
    for (rank, part, together), seconds in zip(slots, durations(parts, times), strict=True):
        stage, kind, micro_batch, _ = part
        name = stream = names[rank]
        needs = tuple(
            [
                found[each[2]]
                for each in together
                for found in producers[each[:2]]
                if each[2] in found
            ]
        )
        takes = releases = none
        of_kind = COMPUTE
        if kind in _SENDS:
            stream = f"{name} → {names[rank_of[stage + _SENDS[kind]]]}"
            of_kind = COMMUNICATION
        elif kind in _HOLDS:
            here = stage, micro_batch
            buffers = kept.get(here)
            if buffers is None:
                buffers = (Buffer(name, f"{stage}{FORWARD}{micro_batch}", sizes[stage]),)
                kept[here] = buffers
            takes, releases = (buffers, none) if kind == FORWARD else (none, buffers)
        actions.append(
            Action(str(part), stream, seconds, needs, of_kind, name, 0.0, (), takes, releases)
        )
    return Program(order, compile_plan(actions), parts)


def durations(parts: Sequence[PipelineAction], times: StageTimes) -> list[float]:
    """How long each of ``parts`` takes, s."""
    kinds = [part[:2] for part in parts]
    seconds = {
        kind: times.seconds(part) for kind, part in dict(zip(kinds, parts, strict=True)).items()
    }
    return [seconds[kind] for kind in kinds]


def _producers(
    parts: Sequence[PipelineAction],
) -> dict[tuple[int, str], list[dict[int | None, int]]]:
    """By stage and kind, for each thing it needs: micro-batch → the index of what makes it."""
    made: dict[tuple[int, str], dict[int | None, int]] = {}
    for at, part in enumerate(parts):
        made.setdefault(part[:2], {})[part[2]] = at
    return {
        (stage, kind): [
            # Of several kinds, the first that there is.
            {
                at: n
                for other in reversed(kinds)
                for at, n in made.get((stage + hop, other), {}).items()
            }
            for hop, kinds in _NEEDS.get(kind, ())
        ]
        for stage, kind in made
    }


def _slots(order: Order, rank_of: dict[int, int]) -> Iterator[Slot]:
    """The parts, step by step and rank by rank; sends only if ``rank_of`` says where to."""
    for step in range(max(len(row) for row in order)):
        for rank, row in enumerate(order):
            steps = row[step].steps if step < len(row) else ()
            for part in steps:
                # An overlapped pair starts when both of its parts can.
                yield rank, part, steps if part is steps[0] else (part,)
                send = _SENDS_OF.get(part.kind) if rank_of else None
                if send and rank_of.get(part.stage + _SENDS[send], rank) != rank:
                    sent = PipelineAction(part.stage, send, part.micro_batch)
                    yield rank, sent, (sent,)


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
