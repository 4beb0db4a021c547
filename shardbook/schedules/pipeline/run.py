"""Executes a pipeline schedule: each rank in its own order, each action as soon as it can."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from shardbook.errors import InputError, whole
from shardbook.schedules.core import Run, simulate
from shardbook.schedules.pipeline.actions import COMPUTING, TRANSFERS, Order
from shardbook.schedules.pipeline.check import check_order, fault_of, rank_name
from shardbook.schedules.pipeline.program import (
    UNIT_TIMES,
    Program,
    StageTimes,
    program_of,
)
from shardbook.schedules.timeline import first_over


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """An executed schedule; times in s.

    ``bubble_fraction``: idle time ÷ (ranks × makespan). ``bubble_over_ideal``: idle time ÷ busy
    time, i.e. extra time ÷ the time without a bubble. ``peak_live``: the most a rank holds from a
    forward to the end of its last backward part, in stage-chunks (or in the ``live`` sizes).
    """

    program: Program
    run: Run
    makespan: float
    busy: tuple[float, ...]
    bubble_fraction: float
    bubble_over_ideal: float
    peak_live: tuple[int, ...]

    @property
    def order(self) -> Order:
        """What each rank does, in order."""
        return self.program.order


def run_order(
    order: Order,
    times: StageTimes = UNIT_TIMES,
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
    done = _executed(program_of(order, times, live), times)
    if limit is not None:
        _check_limit(order, done.run, whole("limit", limit, 1, 2**63))
    return done


def run_program(program: Program, times: StageTimes) -> PipelineRun:
    """Run a compiled order, as often as wanted with other times.

    Transfers are actions only where they take time: raises `InputError` where ``program`` has none
    and ``times`` has, or the other way round.
    """
    crosses = sum(map(bool, program.order)) > 1
    sends = any(part.kind in TRANSFERS for part in program.parts)
    if crosses and bool(times.transfer) != sends:
        allowed = "compile the order anew where transfers come or go"
        raise InputError("transfer", times.transfer, allowed)
    return _executed(program, times)


def _executed(program: Program, times: StageTimes) -> PipelineRun:
    lengths = program.seconds(times)
    run = simulate(program.plan, lengths)
    busy = [0.0] * len(program.order)
    for part, rank, seconds in zip(program.parts, program.ranks, lengths, strict=True):
        if part[1] in COMPUTING:
            busy[rank] += seconds
    makespan, total = run.makespan, sum(busy)
    there = len(busy) * makespan
    return PipelineRun(
        program,
        run,
        makespan,
        tuple(busy),
        1 - total / there if there else 0.0,
        (there - total) / total if total else 0.0,
        tuple(run.peaks.get(rank_name(rank), 0) for rank in range(len(busy))),
    )


def _check_limit(order: Order, run: Run, limit: int) -> None:
    found = [
        (over.time, rank, over)
        for rank in range(len(order))
        if rank_name(rank) in run.plan.pools
        and (over := first_over(run, rank_name(rank), limit)) is not None
    ]
    if found:
        _, rank, over = min(found, key=itemgetter(0, 1))
        reason = f"the rank would hold {over.held:,}, more than {limit:,}"
        raise fault_of(order, rank, over.action, reason)
