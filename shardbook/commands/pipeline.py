"""`shardbook pipeline`: a pipeline schedule's actions, makespan, bubble and live micro-batches."""

from fractions import Fraction

import click

from shardbook.commands.options import (
    COUNT,
    SECONDS,
    json_option,
    print_json,
    print_table,
    refuse_idle,
)
from shardbook.errors import InputError, real, whole
from shardbook.schedules.draw import draw
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.pipeline import SCHEDULES, StageTimes, make_order, run_order
from shardbook.schedules.pipeline.orders import MOST_CHUNKS, MOST_MICRO_BATCHES, MOST_RANKS
from shardbook.schedules.trace import write_trace


@click.command(help="A pipeline schedule: actions, makespan, bubble, live micro-batches.")
@click.option("--schedule", required=True, metavar="NAME", help=", ".join(SCHEDULES))
@click.option("--stages", type=COUNT, required=True, help="Ranks of the pipeline.")
@click.option("--micro-batches", type=COUNT, required=True)
@click.option("--chunks", type=COUNT, help="Stage-chunks a rank (default: 1 or 2).")
@click.option("--forward", type=SECONDS, default="1", help="Time of a stage-chunk's forward.")
@click.option("--backward-input", type=SECONDS, default="1", help="Backward for the inputs.")
@click.option("--backward-weight", type=SECONDS, default="1", help="Backward for the weights.")
@click.option("--transfer", type=SECONDS, default="0", help="Time from one rank to the next.")
@click.option("--recompute", is_flag=True, help="Each backward runs its forward again.")
@click.option("--limit", type=COUNT, help="Most stage-chunks a rank may hold.")
@click.option("--draw", "as_drawing", is_flag=True, help="Print the timeline as text.")
@click.option("--trace", metavar="FILE", help="Write a trace for Perfetto or chrome://tracing.")
@json_option
def command(
    schedule: str,
    stages: Fraction,
    micro_batches: Fraction,
    chunks: Fraction | None,
    forward: Fraction,
    backward_input: Fraction,
    backward_weight: Fraction,
    transfer: Fraction,
    recompute: bool,
    limit: Fraction | None,
    as_drawing: bool,
    trace: str | None,
    as_json: bool,
) -> None:
    """Make the schedule, execute it and print what came out."""
    if as_json:
        refuse_idle(["as_drawing"], "with --json")
    order = make_order(
        schedule,
        whole("stages", stages, 1, MOST_RANKS),
        whole("micro-batches", micro_batches, 1, MOST_MICRO_BATCHES),
        None if chunks is None else whole("chunks", chunks, 1, MOST_CHUNKS),
    )
    times = StageTimes(
        forward=real("forward", forward, 0, 1e9, "s"),
        backward_input=real("backward-input", backward_input, 0, 1e9, "s"),
        backward_weight=real("backward-weight", backward_weight, 0, 1e9, "s"),
        transfer=real("transfer", transfer, 0, 1e9, "s"),
        recompute=recompute,
    )
    most = None if limit is None else whole("limit", limit, 1, 10**9)
    try:
        result = run_order(order, times, limit=most)
    except ScheduleError as error:
        where = f"{error.rank}, step {error.step}: {error.action}: {error.reason}"
        raise InputError("limit", most, where) from None
    if trace is not None:
        write_trace(result.run, trace)
    if as_json:
        print_json(
            {
                "makespan": result.makespan,
                "bubble_fraction": result.bubble_fraction,
                "bubble_over_ideal": result.bubble_over_ideal,
                "busy": result.busy,
                "peak_live": result.peak_live,
                "actions": [[str(action) for action in row] for row in order],
            }
        )
    elif as_drawing:
        click.echo(draw(result.run))
    else:
        for rank, row in enumerate(order):
            click.echo(f"rank {rank}: " + " ".join(map(str, row)))
        click.echo()
        print_table(
            ["rank", "busy, s", "idle", "peak live"],
            [
                [str(rank), f"{busy:g}", f"{_idle(busy, result.makespan):.1%}", f"{peak:,}"]
                for rank, (busy, peak) in enumerate(zip(result.busy, result.peak_live, strict=True))
            ],
        )
        click.echo(
            f"\nmakespan {result.makespan:g} s; bubble {result.bubble_fraction:.1%} of the time, "
            f"{result.bubble_over_ideal:.1%} of the time without it"
        )


def _idle(busy: float, makespan: float) -> float:
    return 1 - busy / makespan if makespan else 0.0
