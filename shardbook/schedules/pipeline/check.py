"""What is wrong with a pipeline schedule before it runs: the first fault, marked in its grid."""

from shardbook.errors import InputError
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.pipeline.actions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    BOOKKEEPING,
    FORWARD,
    TRANSFERS,
    Order,
    PipelineAction,
)

#: stage, kind, micro-batch
Key = tuple[int, str, int | None]


def rank_name(rank: int) -> str:
    """The name of a rank, of its stream and of its memory: ``rank 2``."""
    return f"rank {rank}"


def fault(order: Order, rank: int, step: int, reason: str) -> ScheduleError:
    """The error for the action at (``rank``, ``step``), with the schedule's grid."""
    rows = {rank_name(at): [str(action) for action in row] for at, row in enumerate(order)}
    return ScheduleError(rows, rank_name(rank), step, reason)


def fault_of(order: Order, rank: int, part: str, reason: str) -> ScheduleError:
    """The error for what runs ``part`` on ``rank``, alone or overlapped with another."""
    steps = [[str(each) for each in action.steps] for action in order[rank]]
    return fault(order, rank, next(at for at, names in enumerate(steps) if part in names), reason)


def check_order(order: Order) -> None:
    """Refuse a schedule with an action twice, without its producer, or half a backward.

    Checks the set of actions; whether their order can run, the simulator finds out. Raises
    `ScheduleError` at the first fault, by step, then rank.
    """
    if not any(order):
        raise InputError("schedule", "", "give at least one action")
    there = {_key(part) for row in order for action in row for part in action.steps}
    stage_rank: dict[int, int] = {}
    seen: set[Key] = set()
    last = max(stage for stage, _, _ in there)
    backwards = (BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
    trains = any(kind in backwards for _, kind, _ in there)
    for step in range(max(len(row) for row in order)):
        for rank, row in enumerate(order):
            for part in row[step].steps if step < len(row) else ():
                reason = _reason(part, there, last, trains)
                home = stage_rank.setdefault(part.stage, rank)
                if home != rank:
                    reason = f"stage {part.stage} is on rank {home}"
                key = _key(part)
                if key in seen and part.kind not in BOOKKEEPING:
                    reason = "it runs a second time"
                if len({_of(each) for each in row[step].parts}) == 1:
                    reason = "its parts can't run together: the backward needs the forward"
                seen.add(key)
                if reason:
                    raise fault(order, rank, step, reason)


def _key(action: PipelineAction) -> Key:
    return action.stage, action.kind, action.micro_batch


def _of(action: PipelineAction) -> tuple[int, int | None]:
    return action.stage, action.micro_batch


def _reason(action: PipelineAction, there: set[Key], last: int, trains: bool) -> str:
    """Why an action can't be part of the schedule; empty if it can."""
    stage, kind, micro_batch = action.stage, action.kind, action.micro_batch
    if kind in TRANSFERS:
        return "leave transfers out: the simulator makes them"
    producer: tuple[int, str] | None = None
    if kind == FORWARD and stage:
        producer = (stage - 1, FORWARD)
    elif kind == BACKWARD_WEIGHT:
        producer = (stage, BACKWARD_INPUT)
    elif kind in (BACKWARD, BACKWARD_INPUT):
        producer = (stage, FORWARD)
        if stage < last and not _backward(there, stage + 1, micro_batch):
            producer = (stage + 1, BACKWARD)
    if producer is not None and (*producer, micro_batch) not in there:
        return f"it needs {PipelineAction(*producer, micro_batch)}, which no rank runs"
    if kind == FORWARD and trains and not _backward(there, stage, micro_batch):
        return f"its backward {PipelineAction(stage, BACKWARD, micro_batch)} is missing"
    weights = (stage, BACKWARD_WEIGHT, micro_batch) in there
    if kind == BACKWARD and (weights or (stage, BACKWARD_INPUT, micro_batch) in there):
        return "this backward is there in parts, too"
    if kind == BACKWARD_INPUT and not weights:
        return f"its weight part {PipelineAction(stage, BACKWARD_WEIGHT, micro_batch)} is missing"
    return ""


def _backward(there: set[Key], stage: int, micro_batch: int | None) -> bool:
    return (stage, BACKWARD, micro_batch) in there or (
        stage,
        BACKWARD_INPUT,
        micro_batch,
    ) in there
