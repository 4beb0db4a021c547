"""A pipeline: when each rank computes, what it holds, and the bubble by both of its names."""

from functools import lru_cache
from typing import Final

from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, Steps
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.pipeline_timeline import Timed, height, moment, spoken, timed, timeline
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_seconds
from shardbook.schedules.pipeline import (
    SCHEDULES,
    PipelineRun,
    Program,
    StageTimes,
    make_order,
    program_of,
    run_program,
)
from shardbook.schedules.pipeline.actions import TRANSFERS

_TITLES: Final = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved-1f1b": "interleaved 1F1B",
    "looped-bfs": "looped, breadth first",
    "interleaved-zero-bubble": "interleaved zero bubble",
    "zbv": "zero bubble, V-shaped (ZBV)",
    "dualpipev": "DualPipeV",
}
_MOMENTS: Final = 100


def _draw(
    schedule: str,
    stages: int,
    micro_batches: int,
    chunks: int,
    forward: float,
    backward_input: float,
    backward_weight: float,
    transfer: str,
    step: int,
) -> View:
    chunks = SCHEDULES[schedule].chunks or chunks
    shown = _run(
        schedule,
        stages,
        micro_batches,
        chunks,
        forward,
        backward_input,
        backward_weight,
        float(transfer),
    )
    done, time = shown.done, _moment(shown, step)
    root = draw.canvas(648, 28 + height(stages))
    title = (
        f"{_capital(schedule)}: {format_seconds(done.makespan, 4)}, "
        f"{done.bubble_fraction:.1%} of the time idle"
    )
    draw.words(root, 0, 16, title, class_="sb-strong")
    timeline(root, shown, 30, time=time, per=chunks, full=chunks * min(micro_batches, 8))
    return View(
        draw.text_of(root),
        _table(shown, time, schedule, micro_batches, chunks),
        _sentence(done, schedule, stages, micro_batches, chunks),
    )


@lru_cache(maxsize=2)
def _run(
    schedule: str,
    stages: int,
    micro_batches: int,
    chunks: int,
    forward: float,
    backward_input: float,
    backward_weight: float,
    transfer: float,
) -> Timed:
    """Times are of a rank's layers: each of its chunks has an equal part of them."""
    times = StageTimes(
        forward / chunks, backward_input / chunks, backward_weight / chunks, transfer
    )
    made = _made(schedule, stages, micro_batches, chunks, transfer > 0)
    return timed(run_program(made, times))


@lru_cache(maxsize=2)
def _made(schedule: str, stages: int, micro_batches: int, chunks: int, transfers: bool) -> Program:
    """The schedule, compiled once for all times."""
    try:
        order = make_order(schedule, stages, micro_batches, chunks)
        return program_of(order, StageTimes(transfer=float(transfers)))
    except InputError as error:
        name = error.argument.replace("-", "_")
        raise InputError(name, error.value, error.allowed) from None


def _capital(schedule: str) -> str:
    title = _TITLES[schedule]
    return title[0].upper() + title[1:]


def _moment(shown: Timed, step: int) -> float:
    """The ``step``-th time at which something starts; evenly fewer of them where there are more."""
    times = sorted({0.0, *shown.starts, shown.done.makespan})
    last = len(times) - 1
    return times[min(step, last) if last <= _MOMENTS else step * last // _MOMENTS]


def _table(shown: Timed, time: float, schedule: str, micro_batches: int, chunks: int) -> Table:
    done = shown.done
    parts, ranks = done.program.parts, done.program.ranks
    now = [at for at, end in enumerate(shown.ends) if time < end and shown.starts[at] <= time]
    running = {ranks[at]: str(parts[at]) for at in now if parts[at].kind not in TRANSFERS}
    rows = [
        (
            f"rank {rank}",
            running.get(rank, "idle"),
            spoken(shown.holds(rank, time), chunks),
            spoken(done.peak_live[rank], chunks),
            format_seconds(done.busy[rank], 4),
            format_seconds(done.makespan - done.busy[rank], 4),
        )
        for rank in range(len(done.order))
    ]
    return Table(
        f"{_capital(schedule)}, {micro_batches} micro-batch{'es' * (micro_batches > 1)}, at"
        f" {moment(time)}; what a rank holds is counted in micro-batches of all its layers",
        ("rank", "runs now", "holds now", "most", "computes", "idle"),
        tuple(rows),
    )


def _sentence(
    done: PipelineRun, schedule: str, stages: int, micro_batches: int, chunks: int
) -> str:
    parts = f" in {chunks} chunks a rank" if chunks > 1 else ""
    peaks = [spoken(count, chunks) for count in done.peak_live]
    held = peaks[0] if len(set(peaks)) == 1 else f"{', '.join(peaks)} by rank"
    return (
        f"{_capital(schedule)}, {stages} {'stage' if stages == 1 else 'ranks'}{parts} and "
        f"{micro_batches} {'micro-batch' if micro_batches == 1 else 'micro-batches'}: "
        f"{format_seconds(done.makespan, 4)}, of which {done.bubble_fraction:.1%} are idle, or "
        f"{done.bubble_over_ideal:.1%} on top of the time without a bubble; live micro-batches "
        f"at most {held}."
    )


def _seconds(name: str, label: str) -> Number:
    stops = ("0.1", "0.25", "0.5", "1", "1.5", "2", "3", "4")
    return Number(name, label, "1", stops, 0.001, 1000, integer=False, kind="seconds", unit="s")


EXPLORER = Explorer(
    "pipeline",
    "Who waits, and who holds what",
    (
        Choice("schedule", "Schedule", "interleaved-1f1b", tuple(_TITLES.items())),
        Number("stages", "Ranks of the pipeline", "4", ("1", "2", "3", "4", "6", "8"), 1, 8),
        Number(
            "micro_batches",
            "Micro-batches",
            "8",
            ("1", "2", "4", "8", "12", "16", "24", "32", "48", "64"),
            1,
            64,
        ),
        Number("chunks", "Chunks a rank (where interleaved)", "2", ("1", "2", "3", "4"), 1, 4),
        _seconds("forward", "Forward of a rank's layers"),
        _seconds("backward_input", "Backward, input part"),
        _seconds("backward_weight", "Backward, weight part"),
        Choice(
            "transfer",
            "Transfer to the next rank",
            "0",
            tuple((text, f"{text} s") for text in ("0", "0.05", "0.1", "0.25", "0.5", "1")),
        ),
        Steps("step", "Moment", "9", _MOMENTS),
    ),
    _draw,
)
