"""A pipeline order handed in as plain data: read, checked and run by the engine.

It is a list with one entry a rank: the texts of what the rank does, in order, such as ``2F0``.
"""

from typing import Any, Final

from shardbook.errors import InputError
from shardbook.labs.values import Fault, show
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.pipeline import Order, PipelineRun, StageTimes, parse_action, run_order
from shardbook.schedules.pipeline.actions import (
    BACKWARD,
    BACKWARD_WEIGHT,
    FORWARD,
    PipelineAction,
)

_MOST_ACTIONS: Final = 20_000
_LONGEST_TEXT: Final = 24

#: a second for each part
UNIT_TIMES: Final = StageTimes()


def run_handed(
    value: Any,
    ranks: int,
    stages: int,
    micro_batches: int,
    *,
    kinds: str = "FB",
    times: StageTimes = UNIT_TIMES,
    drawn: bool = False,
) -> PipelineRun | Fault:
    """Run the order that plain data stands for, or say what is wrong with it.

    Stage s is on rank s mod ``ranks``, and every stage runs each of ``kinds`` once for every
    micro-batch. ``drawn`` adds the rank × step grid with the fault marked.
    """
    order = read_order(value, ranks, kinds)
    if isinstance(order, Fault):
        return order
    return _incomplete(order, stages, micro_batches, kinds) or _run(order, times, drawn)


def read_order(value: Any, ranks: int, kinds: str) -> Order | Fault:
    """Return the order that plain data stands for, or what is wrong with the data."""
    if not isinstance(value, (list, tuple)):
        return Fault("the order", "a list with one list of texts for each rank", show(value))
    if len(value) != ranks:
        return Fault("the order", "one list for each rank", f"{len(value)} lists")
    rows = []
    for rank, texts in enumerate(value):
        if not isinstance(texts, (list, tuple)):
            return Fault(f"rank {rank}", "a list of texts such as 2F0", show(texts))
        if len(texts) > _MOST_ACTIONS:
            return Fault(f"rank {rank}", "far fewer actions", f"{len(texts):,}")
        row = []
        for step, text in enumerate(texts):
            action = _action(text, kinds)
            if action is None:
                wanted = f"a text of stage, one of {', '.join(kinds)}, and micro-batch"
                return Fault(f"rank {rank}, step {step}", wanted, show(text))
            row.append(action)
        rows.append(tuple(row))
    return tuple(rows)


def _action(text: Any, kinds: str) -> PipelineAction | None:
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        return None
    try:
        action = parse_action(text)
    except InputError:
        return None
    return action if action.kind in tuple(kinds) else None


def _incomplete(order: Order, stages: int, micro_batches: int, kinds: str) -> Fault | None:
    missing = {
        PipelineAction(stage, kind, micro_batch): stage % len(order)
        for stage in range(stages)
        for kind in kinds
        for micro_batch in range(micro_batches)
    }
    for rank, row in enumerate(order):
        for step, action in enumerate(row):
            if missing.pop(action, None) != rank:
                wanted = "an action of this rank that it has not run before"
                return Fault(f"rank {rank}, step {step}", wanted, str(action))
    for action, rank in missing.items():
        kind = "backward" if action.kind != "F" else "forward"
        what = f"every {kind} of stage {action.stage}"
        return Fault(f"rank {rank}", what, f"one is missing ({len(missing)} in all)")
    return None


def _run(order: Order, times: StageTimes, drawn: bool) -> PipelineRun | Fault:
    try:
        return run_order(order, times)
    except ScheduleError as error:
        picture = f"\n{error.picture}" if drawn else ""
        where = f"{error.rank}, step {error.step}"
        return Fault(where, "an order that can run", f"{error.action}: {error.reason}{picture}")


def too_long(run: PipelineRun, most: float, than: str) -> Fault | None:
    """Say whether the makespan is longer than ``most`` (s)."""
    if run.makespan <= most * (1 + 1e-9):
        return None
    return Fault("the makespan", f"at most {than}", f"{run.makespan:g} s")


def too_many_live(run: PipelineRun, most: list[int]) -> Fault | None:
    """Say which rank first holds more than ``most`` allows it, in stage-chunks, and when."""
    for rank, (peak, allowed) in enumerate(zip(run.peak_live, most, strict=True)):
        if peak <= allowed:
            continue
        live = 0
        for step, action in enumerate(run.order[rank]):
            live += {FORWARD: 1, BACKWARD: -1, BACKWARD_WEIGHT: -1}.get(action.kind, 0)
            if live > allowed:
                where = f"rank {rank}, step {step}"
                return Fault(where, "fewer live at once", f"{live} with {action} (peak {peak})")
    return None
