"""Executes a pipeline schedule: each rank in its own order, each action as soon as it can."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from shardbook.errors import InputError, real, whole
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import (
    COMMUNICATION,
    COMPUTE,
    Action,
    Buffer,
    Run,
    simulate,
)
from shardbook.schedules.pipeline.actions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Order,
    PipelineAction,
)
from shardbook.schedules.pipeline.check import check_order, fault, rank_name
from shardbook.schedules.timeline import first_over

#: one value for all stages, or one a stage
PerStage = float | Sequence[float]

#: rank, what runs, and what must be ready with it
Slot = tuple[int, PipelineAction, tuple[PipelineAction, ...]]

_LONGEST: Final = 1e12
#: transfer → the stages it goes up or down; what is sent behind a computation
_SENDS: Final = {"SEND_F": 1, "SEND_B": -1}
_SENDS_OF: Final = {FORWARD: "SEND_F", BACKWARD: "SEND_B", BACKWARD_INPUT: "SEND_B"}
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


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """An executed schedule; times in s.

    ``bubble_fraction``: idle time ÷ (ranks × makespan). ``bubble_over_ideal``: idle time ÷ busy
    time, i.e. extra time ÷ the time without a bubble. ``peak_live``: the most a rank holds from
    a forward to the end of its last backward part, in stage-chunks (or in the ``live`` sizes).
    """

    order: Order
    run: Run
    makespan: float
    busy: tuple[float, ...]
    bubble_fraction: float
    bubble_over_ideal: float
    peak_live: tuple[int, ...]


def run_order(
    order: Order,
    times: StageTimes = StageTimes(),
    *,
    live: int | Sequence[int] = 1,
    limit: int | None = None,
) -> PipelineRun:
    """Run a schedule, made by `make_order` or by hand.

    ``live``: what a stage keeps of a micro-batch until its last backward part, for all stages or
    one a stage (bytes, or 1 to count). ``limit``: the most a rank may hold. Raises
    `ScheduleError`, with the first fault marked, for a schedule that can't run or exceeds it.
    """
    check_order(order)
    run = simulate(compile_plan(_actions(order, times, live)))
    ranks = [rank_name(rank) for rank in range(len(order))]
    peaks = tuple(run.peaks.get(rank, 0) for rank in ranks)
    if limit is not None:
        _check_limit(order, run, whole("limit", limit, 1, 2**63))
    return _measured(order, run, [action.seconds for action in run.plan.actions], peaks)


def rerun(done: PipelineRun, times: StageTimes) -> PipelineRun:
    """Run the schedule of ``done`` again with other times, without checking and compiling it.

    Transfers are actions only where they take time: raises `InputError` where ``done`` has none
    and ``times`` has, or the other way round.
    """
    transfer = real("transfer", times.transfer, 0, _LONGEST, "s")
    actions = done.run.plan.actions
    crosses = sum(map(bool, done.order)) > 1
    if crosses and bool(transfer) != any(action.kind == COMMUNICATION for action in actions):
        raise InputError("transfer", transfer, "run the order anew where transfers come or go")
    parts = [part for row in done.order for action in row for part in action.steps]
    work = {(part.stage, part.kind): part for part in parts}
    seconds = {key: times.seconds(part) for key, part in work.items()}
    of_name = {str(part): seconds[part.stage, part.kind] for part in parts}
    lengths = [of_name.get(action.name, transfer) for action in actions]
    run = simulate(done.run.plan, lengths)
    peaks = tuple(run.peaks.get(rank_name(rank), 0) for rank in range(len(done.order)))
    return _measured(done.order, run, lengths, peaks)


def _measured(
    order: Order, run: Run, lengths: Sequence[float], peaks: tuple[int, ...]
) -> PipelineRun:
    busy = {rank_name(rank): 0.0 for rank in range(len(order))}
    for action, seconds in zip(run.plan.actions, lengths, strict=True):
        if action.kind == COMPUTE:
            busy[action.stream] += seconds
    makespan, total = run.makespan, sum(busy.values())
    return PipelineRun(
        order,
        run,
        makespan,
        tuple(busy.values()),
        1 - total / (len(order) * makespan) if makespan else 0.0,
        (len(order) * makespan - total) / total if total else 0.0,
        peaks,
    )


def _actions(order: Order, times: StageTimes, live: int | Sequence[int]) -> list[Action]:
    """The program: every rank's actions, and the transfers where the next stage is elsewhere."""
    transfer = real("transfer", times.transfer, 0, _LONGEST, "s")
    rank_of = {part.stage: rank for rank, row in enumerate(order) for a in row for part in a.steps}
    slots = list(_slots(order, rank_of if transfer else {}))
    index = {(part.stage, part.kind, part.micro_batch): at for at, (_, part, _) in enumerate(slots)}
    work = {(part.stage, part.kind): part for _, part, _ in slots}
    seconds = {key: times.seconds(part) for key, part in work.items()}
    sizes = {stage: _size(live, stage) for stage in rank_of}
    names = [rank_name(rank) for rank in range(len(order))]
    kept: dict[tuple[int, int | None], tuple[Buffer]] = {}
    actions = []
    for rank, part, together in slots:
        stage, kind = part.stage, part.kind
        name = names[rank]
        needs = _needs(together, index)
        if kind in _SENDS:
            link = f"{name} → {rank_name(rank_of[stage + _SENDS[kind]])}"
            actions.append(Action(str(part), link, transfer, needs, COMMUNICATION, name))
            continue
        here = stage, part.micro_batch
        if here not in kept:
            kept[here] = (Buffer(name, f"{stage}F{part.micro_batch}", sizes[stage]),)
        actions.append(
            Action(
                str(part),
                name,
                seconds[stage, kind],
                needs,
                host=name,
                takes=kept[here] if kind == FORWARD else (),
                releases=kept[here] if kind in (BACKWARD, BACKWARD_WEIGHT) else (),
            )
        )
    return actions


def _needs(
    parts: tuple[PipelineAction, ...], index: dict[tuple[int, str, int | None], int]
) -> tuple[int, ...]:
    found = []
    for part in parts:
        for hop, kinds in _NEEDS.get(part.kind, ()):
            for kind in kinds:
                key = (part.stage + hop, kind, part.micro_batch)
                if key in index:
                    found.append(index[key])
                    break
    return tuple(found)


def _slots(order: Order, rank_of: dict[int, int]) -> Iterator[Slot]:
    """The parts, step by step and rank by rank; sends only if ``rank_of`` says where to."""
    for step in range(max(len(row) for row in order)):
        for rank, row in enumerate(order):
            for part in row[step].steps if step < len(row) else ():
                # An overlapped pair starts when both of its parts can.
                steps = row[step].steps
                yield rank, part, steps if part is steps[0] else (part,)
                send = _SENDS_OF.get(part.kind)
                if send and rank_of.get(part.stage + _SENDS[send], rank) != rank:
                    sent = PipelineAction(part.stage, send, part.micro_batch)
                    yield rank, sent, (sent,)


def _check_limit(order: Order, run: Run, limit: int) -> None:
    found = [
        (over.time, rank, over)
        for rank in range(len(order))
        if rank_name(rank) in run.plan.pools
        and (over := first_over(run, rank_name(rank), limit)) is not None
    ]
    if found:
        _, rank, over = min(found, key=itemgetter(0, 1))
        steps = [[str(part) for part in action.steps] for action in order[rank]]
        step = next(at for at, names in enumerate(steps) if over.action in names)
        raise fault(order, rank, step, f"the rank would hold {over.held:,}, more than {limit:,}")


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
