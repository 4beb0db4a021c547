"""The visible examples of lab pp: orders that the engine runs and compares with its own."""

from typing import Any, Final

from shardbook.labs.checking import Rule
from shardbook.labs.handed_orders import run_handed, too_long, too_many_live
from shardbook.labs.values import Fault
from shardbook.schedules.pipeline import (
    Order,
    PipelineAction,
    StageTimes,
    make_order,
    run_order,
)


def _runs(ranks: int, micro_batches: int, chunks: int, value: Any) -> Fault | None:
    run = run_handed(value, ranks, ranks * chunks, micro_batches, drawn=True)
    return run if isinstance(run, Fault) else None


def _plain_runs(stages: int, micro_batches: int, value: Any) -> Fault | None:
    return _runs(stages, micro_batches, 1, value)


def _as_good(
    schedule: str, ranks: int, micro_batches: int, chunks: int, value: Any
) -> Fault | None:
    run = run_handed(value, ranks, ranks * chunks, micro_batches, drawn=True)
    if isinstance(run, Fault):
        return run
    own = run_order(make_order(schedule, ranks, micro_batches, chunks))
    return too_long(run, own.makespan, "the engine's") or too_many_live(run, list(own.peak_live))


def _plain_as_good(stages: int, micro_batches: int, value: Any) -> Fault | None:
    return _as_good("1f1b", stages, micro_batches, 1, value)


def _interleaved_as_good(ranks: int, micro_batches: int, chunks: int, value: Any) -> Fault | None:
    return _as_good("interleaved-1f1b", ranks, micro_batches, chunks, value)


def _split(
    stages: int, micro_batches: int, times: tuple[int, int, int], limit: int, value: Any
) -> Fault | None:
    seconds = StageTimes(*times)
    run = run_handed(value, stages, stages, micro_batches, kinds="FIW", times=seconds, drawn=True)
    if isinstance(run, Fault):
        return run
    if fault := too_many_live(run, [limit] * stages):
        return fault
    if limit < stages:
        return None
    given = run_order(_in_two_parts(make_order("1f1b", stages, micro_batches)), seconds)
    if run.makespan < given.makespan:
        return None
    wanted = f"less than the {given.makespan:g} s of the given schedule"
    return Fault("the makespan", wanted, f"{run.makespan:g} s")


def _in_two_parts(order: Order) -> Order:
    return tuple(
        tuple(
            PipelineAction(action.stage, kind, action.micro_batch)
            for action in row
            for kind in ("IW" if action.kind == "B" else action.kind)
        )
        for row in order
    )


#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "pp.1": (
        Rule(
            "every micro-batch goes forward and backward, and nothing waits for itself",
            "In the grid, the first fault stands between > and <.",
            (3, 4),
            _plain_runs,
        ),
        Rule(
            "the step is as short, and memory as small, as the engine's",
            "A stage begins with some forwards, then takes turns. How many does it need?",
            (4, 8),
            _plain_as_good,
        ),
        Rule(
            "there may be fewer micro-batches than stages",
            "Here one micro-batch passes two stages.",
            (2, 1),
            _plain_runs,
        ),
    ),
    "pp.2": (
        Rule(
            "every micro-batch goes forward and backward, each stage on its rank",
            "In the grid, the first fault stands between > and <.",
            (2, 4, 2),
            _runs,
        ),
        Rule(
            "the step is as short, and memory as small, as the engine's",
            "Forwards go chunk by chunk in each round. And backwards?",
            (4, 8, 2),
            _interleaved_as_good,
        ),
        Rule(
            "the last round may be short",
            "Here the second round has one micro-batch.",
            (2, 3, 2),
            _runs,
        ),
    ),
    "pp.3": (
        Rule(
            "no stage holds more than the limit, not even with a place for one",
            "A micro-batch is held until its W has ended.",
            (2, 3, (1, 1, 1), 1),
            _split,
        ),
        Rule(
            "the step is shorter than the given schedule's",
            "Look for idle time in the given schedule, and for a W that could fill it.",
            (4, 8, (1, 1, 1), 4),
            _split,
        ),
    ),
}
