"""`shardbook plan`: which layout for this model on this cluster, and why not the others."""

from fractions import Fraction
from typing import Any

import click

from shardbook.commands.options import COUNT, json_option, print_json, print_table
from shardbook.errors import InputError, whole
from shardbook.ledger.recipes import DEFAULT_RECIPE
from shardbook.numbers.units import format_bytes, format_seconds
from shardbook.planner.launch import launch_settings
from shardbook.planner.layouts import Limits
from shardbook.planner.plan import Answer, Candidate, Rejected, plan
from shardbook.planner.presets import CARDS, MACHINES, MODELS, cluster_named, model_named

_HELP = f"""Which layout for MODEL on CLUSTER, ranked, and why the others fail.

MODEL is a preset ({", ".join(MODELS)}), pairs such as layers=32,hidden=4096,heads=32, or both.
CLUSTER is a card or machine ({", ".join([*CARDS, *MACHINES])}) and pairs, such as
h100-80,nodes=16,between=50GB/s,fraction=0.5,host_memory=2TB,nvme_memory=30TB."""


@click.command(help=_HELP)
@click.argument("model")
@click.argument("cluster")
@click.option("--stages", default="0,1,2,3", show_default=True, help="Sharding stages tried.")
@click.option("--recompute", default="none,selective,full", show_default=True)
@click.option("--schedules", default="1f1b,gpipe,interleaved-1f1b", show_default=True)
@click.option("--most-micro-batch", type=COUNT, default="8", show_default=True)
@click.option("--offload", default="none,host,nvme", show_default=True, help="Places of states.")
@click.option("--recipe", default=DEFAULT_RECIPE, show_default=True, help="As `shardbook ledger`.")
@click.option("--best", type=COUNT, default="20", show_default=True, help="Layouts simulated.")
@click.option("--show", type=COUNT, default="5", show_default=True, help="Rows of the table.")
@json_option
def command(
    model: str,
    cluster: str,
    stages: str,
    recompute: str,
    schedules: str,
    most_micro_batch: Fraction,
    offload: str,
    recipe: str,
    best: Fraction,
    show: Fraction,
    as_json: bool,
) -> None:
    """Search, print the best layouts, the reasons of the others and the launch settings."""
    limits = Limits(
        tuple(_stage(text) for text in _names(stages)),
        _names(recompute),
        _names(schedules),
        whole("--most-micro-batch", most_micro_batch, 1, 1024),
        offload=_names(offload),
    )
    answer = plan(
        model_named(model), cluster_named(cluster), limits, recipe, whole("--best", best, 1, 100)
    )
    if as_json:
        print_json(
            {
                "sources": _sources(answer),
                "considered": answer.considered,
                "fitting": answer.fitting,
                "ranked": [_row(answer, each) for each in answer.ranked],
                "rejected": [_reason(each) for each in answer.rejected],
            }
        )
        return
    _print(answer, whole("--show", show, 1, 100))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _stage(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise InputError("--stages", text, "give some of 0,1,2,3")
    return int(text)


def _row(answer: Answer, each: Candidate) -> dict[str, Any]:
    layout = each.layout
    return {
        "tensor": layout.tensor,
        "context": layout.context,
        "expert": layout.expert,
        "pipeline": layout.pipeline,
        "data": layout.data,
        "stage": layout.stage,
        "recompute": layout.recompute,
        "micro_batch": layout.micro_batch,
        "micro_batches": each.micro_batches,
        "schedule": layout.schedule if layout.pipeline > 1 else None,
        "chunks": layout.chunks,
        "offload": layout.offload,
        "peak_bytes": each.peak.bytes,
        "memory": dict(each.peak.pieces),
        "host_bytes": each.peak.host_bytes,
        "nvme_bytes": each.peak.nvme_bytes,
        "seconds": each.seconds,
        "closed_form_seconds": each.time.seconds,
        "parts": {name: getattr(each.time, name) for name in each.time.__slots__},
        "bound": each.time.bound,
        "waits_most_for": each.time.waits_most_for,
        "tokens_per_second": answer.tokens_per_second(each),
        "model_flops_per_card": answer.model_flops(each),
        "dollars_per_million_tokens": answer.dollars_per_million_tokens(each),
        "launch": launch_settings(answer.model, answer.cluster, layout),
    }


def _sources(answer: Answer) -> dict[str, str]:
    return {"model": answer.model.source, "card": answer.cluster.card.source}


def _reason(each: Rejected) -> dict[str, Any]:
    return {
        "reason": each.reason,
        "count": each.count,
        "nearest": str(each.nearest),
        "nearest_bytes": each.nearest_bytes,
    }


def _print(answer: Answer, most: int) -> None:
    click.echo(f"{answer.considered:,} layouts on {answer.cluster.size:,} cards, ", nl=False)
    click.echo(f"{answer.fitting:,} fit by the ledger (no run has tested it)")
    if answer.ranked:
        click.echo()
        print_table(
            ["layout", "peak", "step", "TFLOP/s a card", "waits most for"],
            [
                [
                    str(each.layout),
                    format_bytes(each.peak.bytes, 3),
                    format_seconds(each.seconds),
                    f"{answer.model_flops(each) / 1e12:.0f}",
                    each.time.waits_most_for,
                ]
                for each in answer.ranked[:most]
            ],
        )
    if answer.rejected:
        click.echo("\nwhy the others fail:")
        for reason in answer.rejected:
            size = f", {format_bytes(reason.nearest_bytes, 3)}" if reason.nearest_bytes else ""
            click.echo(f"{reason.count:>7,}  {reason.reason}; nearest: {reason.nearest}{size}")
    if answer.ranked:
        click.echo("\nlaunch settings of the first:")
        best = answer.ranked[0].layout
        for tool, text in launch_settings(answer.model, answer.cluster, best).items():
            click.echo(f"  {tool}: {text}")
    click.echo("\nsources:")
    for name, source in _sources(answer).items():
        click.echo(f"  {name}: {source}")
