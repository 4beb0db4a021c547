"""`shardbook fsdp`: the timeline of FSDP units on two streams."""

from dataclasses import asdict
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
from shardbook.errors import real, whole
from shardbook.schedules.draw import draw
from shardbook.schedules.fsdp import PARAMETERS, Policy, compute_seconds, equal_units, fsdp_run
from shardbook.schedules.timeline import exposed, spans
from shardbook.schedules.trace import write_trace


@click.command(help="The timeline of FSDP units: gather, compute, free, gather again, reduce.")
@click.option("--units", type=COUNT, required=True, help="Number of equal units.")
@click.option("--forward", type=SECONDS, required=True, help="Time of one forward.")
@click.option("--backward", type=SECONDS, required=True, help="Time of one backward.")
@click.option("--all-gather", type=SECONDS, required=True, help="Time of one all-gather.")
@click.option("--reduce-scatter", type=SECONDS, required=True, help="Time of one reduce-scatter.")
@click.option("--all-reduce", type=SECONDS, default="0", help="Hybrid: time among the replicas.")
@click.option("--no-overlap", is_flag=True, help="Everything on one stream.")
@click.option(
    "--backward-prefetch", type=COUNT, is_flag=False, flag_value="1", default="0",
    help="Gather so many units ahead in the backward (alone: 1).",
)  # fmt: skip
@click.option(
    "--forward-prefetch", type=COUNT, is_flag=False, flag_value="1", default="0",
    help="Gather so many units ahead in the forward (alone: 1).",
)  # fmt: skip
@click.option("--limit", type=COUNT, help="Rate limiter: gathered buffers alive. Default: none.")
@click.option("--issue", type=SECONDS, default="0", help="The host's cost of issuing an action.")
@click.option("--no-reshard", is_flag=True, help="Keep the units gathered after the forward.")
@click.option("--regather-last", is_flag=True, help="Free and gather the last unit, too.")
@click.option("--micro-batches", type=COUNT, default="1", help="Passes in the step.")
@click.option("--accumulate", is_flag=True, help="Reduce gradients in the last pass only.")
@click.option("--draw", "as_drawing", is_flag=True, help="Print the timeline as text.")
@click.option("--trace", metavar="FILE", help="Write a trace for Perfetto or chrome://tracing.")
@json_option
def command(
    units: Fraction,
    forward: Fraction,
    backward: Fraction,
    all_gather: Fraction,
    reduce_scatter: Fraction,
    all_reduce: Fraction,
    no_overlap: bool,
    backward_prefetch: Fraction,
    forward_prefetch: Fraction,
    limit: Fraction | None,
    issue: Fraction,
    no_reshard: bool,
    regather_last: bool,
    micro_batches: Fraction,
    accumulate: bool,
    as_drawing: bool,
    trace: str | None,
    as_json: bool,
) -> None:
    """Simulate and print one step."""
    many = 100_000
    layers = equal_units(
        whole("units", units, 1, many),
        forward=_seconds("forward", forward),
        backward=_seconds("backward", backward),
        all_gather=_seconds("all-gather", all_gather),
        reduce_scatter=_seconds("reduce-scatter", reduce_scatter),
        all_reduce=_seconds("all-reduce", all_reduce),
    )
    policy = Policy(
        overlap=not no_overlap,
        backward_prefetch=whole("backward-prefetch", backward_prefetch, 0, 1000),
        forward_prefetch=whole("forward-prefetch", forward_prefetch, 0, 1000),
        limit=None if limit is None else whole("limit", limit, 1, many),
        issue=_seconds("issue", issue),
        reshard=not no_reshard,
        regather_last=regather_last,
        micro_batches=whole("micro-batches", micro_batches, 1, 10_000),
        accumulate=accumulate,
    )
    if no_reshard:
        refuse_idle(["backward_prefetch", "regather_last"], "with --no-reshard")
    if policy.micro_batches == 1:
        refuse_idle(["accumulate"], "with one micro-batch")
        if no_reshard:
            refuse_idle(["limit"], "with --no-reshard, which frees nothing before the end")
    if as_json:
        refuse_idle(["as_drawing"], "with --json")
    run = fsdp_run(layers, policy)
    if trace is not None:
        write_trace(run, trace)
    result = {
        "makespan": run.makespan,
        "compute": compute_seconds(layers, policy),
        "exposed_communication": exposed(run),
        "peak_unsharded_units": run.peaks[PARAMETERS],
        "actions": len(run.plan.actions),
        "spans": [asdict(span) for span in spans(run)],
    }
    if as_json:
        print_json(result)
    elif as_drawing:
        click.echo(draw(run))
    else:
        print_table(
            ["one step", "value"],
            [
                ["makespan, s", f"{run.makespan:g}"],
                ["compute, s", f"{result['compute']:g}"],
                ["exposed communication, s", f"{result['exposed_communication']:g}"],
                ["peak unsharded units", f"{run.peaks[PARAMETERS]:,}"],
            ],
        )


def _seconds(option: str, value: Fraction) -> float:
    return real(option, value, 0, 1e9, "s")
