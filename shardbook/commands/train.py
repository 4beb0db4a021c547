"""`shardbook train`: five strategies on simulated devices, every byte logged."""

import math
from typing import Any

import click

from shardbook.commands.options import COUNT, json_option, print_json, print_table, refuse_idle
from shardbook.errors import InputError, whole
from shardbook.training.faults import FAULTS, Fault
from shardbook.training.incident import Incident, Sight, investigate
from shardbook.training.optimizers import Adam
from shardbook.training.programs import Options
from shardbook.training.settings import LAYERS, Settings
from shardbook.training.strategies import STRATEGIES
from shardbook.training.trainer import StepReport, Trainer


@click.command("train")
@click.option("--strategy", default="zero3", show_default=True, help=", ".join(STRATEGIES))
@click.option("--ranks", type=COUNT, default=4, show_default=True, help="Simulated devices.")
@click.option("--steps", type=COUNT, default=50, show_default=True)
@click.option("--seed", type=COUNT, default=0, show_default=True)
@click.option(
    "--layers", default=",".join(map(str, LAYERS)), show_default=True, help="Widths, input first."
)
@click.option("--samples", type=COUNT, default=16, show_default=True, help="Rows per rank.")
@click.option("--shard", type=COUNT, help="Ranks in a shard group of zero3 (hybrid sharding).")
@click.option("--micro-batches", type=COUNT, default=1, show_default=True)
@click.option("--reduce-each", is_flag=True, help="Reduce every micro-batch's gradient.")
@click.option("--tokens", help="Rows that count on each rank, such as 16,16,5,16.")
@click.option("--fault", help=", ".join(FAULTS))
@click.option("--fault-rank", type=COUNT, default=1, show_default=True)
@click.option("--fault-step", type=COUNT, default=0, show_default=True)
@json_option
def command(
    strategy: str,
    ranks: int,
    steps: int,
    seed: int,
    layers: str,
    samples: int,
    shard: int | None,
    micro_batches: int,
    reduce_each: bool,
    tokens: str | None,
    fault: str | None,
    fault_rank: int,
    fault_step: int,
    as_json: bool,
) -> None:
    """Train a small network on simulated devices and log every byte.

    Bytes, rounds and peaks are those of one step on rank 0.
    """
    settings = Settings(
        strategy=strategy,
        ranks=whole("ranks", ranks, 1, 64),
        seed=whole("seed", seed, 0, 2**63 - 1),
        layers=_widths("layers", layers),
        samples=whole("samples", samples, 1, 4096),
        shard=None if shard is None else whole("shard", shard, 1, 64),
        optimizer=Adam(),
        tokens=None if tokens is None else _widths("tokens", tokens),
        options=Options(whole("micro-batches", micro_batches, 1, 1024), reduce_each),
    )
    if settings.options.micro_batches == 1:
        refuse_idle(["reduce_each"], "with one micro-batch")
    if fault is None:
        refuse_idle(["fault_rank", "fault_step"], "without --fault")
    steps = whole("steps", steps, 1, 10_000)
    if fault is None:
        trainer = Trainer(settings)
        report = [trainer.step() for _ in range(steps)][-1]
        result = _result(trainer, report)
    else:
        which = Fault(
            fault,
            whole("fault rank", fault_rank, 0, 63),
            whole("fault step", fault_step, 0, steps - 1),
        )
        incident = investigate(which, settings, steps)
        result = _result(incident.trainer, incident.last) | {"fault": _fault(incident)}
    if as_json:
        print_json(result)
    else:
        _print(result)


def _widths(argument: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        allowed = "give whole numbers with commas between them, such as 32,96,16"
        raise InputError(argument, text, allowed) from None


def _result(trainer: Trainer, report: StepReport | None) -> dict[str, Any]:
    """The contract's keys; None for what a run that stopped in its first step never had."""
    rank = report.ranks[0] if report else None
    return {
        "strategy": trainer.settings.strategy,
        "ranks": trainer.settings.ranks,
        "steps": trainer.steps_done,
        "parameters": trainer.settings.parameters,
        "padded_parameters": trainer.settings.padded_parameters,
        "weights_sha256": trainer.weights_sha256(),
        "loss": _finite(report.loss) if report else None,
        "bytes_after_backward": rank.bytes_after_backward if rank else None,
        "peak_bytes": rank.peak_bytes if rank else None,
        "peak_at": rank.peak_at if rank else None,
        "alive_at_peak": {str(n): b for n, b in rank.alive_at_peak.items()} if rank else None,
        "sent_bytes_per_rank": rank.sent_bytes if rank else None,
        "rounds": rank.rounds if rank else None,
    }


def _fault(incident: Incident) -> dict[str, Any]:
    first = incident.found[0] if incident.found else None
    return {
        "name": incident.fault.name,
        "what": incident.what,
        "seen": incident.seen,
        "silent": incident.stopped is None,
        "stopped": incident.stopped,
        "faulty": _sight(incident.faulty),
        "healthy": _sight(incident.healthy),
        "found_by": first.check if first else None,
        "findings": [
            {"check": f.check, "step": f.step, "rank": f.rank, "text": f.text}
            for f in incident.found
        ],
    }


def _sight(sight: Sight) -> dict[str, float | int | None]:
    return {
        "steps": sight.steps,
        "loss": _finite(sight.loss),
        "gradient_norm": _finite(sight.gradient_norm),
        "weights_spread": _finite(sight.weights_spread),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _print(result: dict[str, Any]) -> None:
    shown = {k: v for k, v in result.items() if k not in ("fault", "alive_at_peak")}
    print_table(
        ["one step, rank 0", ""], [[k.replace("_", " "), _cell(v)] for k, v in shown.items()]
    )
    if result["alive_at_peak"]:
        click.echo(f"\nalive at the peak ({result['peak_at']}):")
        print_table(
            ["array", "bytes"],
            [[n, f"{b:,}"] for n, b in sorted(result["alive_at_peak"].items())],
        )
    if "fault" not in result:
        return
    fault = result["fault"]
    click.echo(f"\nfault {fault['name']}: {fault['what']}\nseen: {fault['seen']}")
    if fault["stopped"]:
        click.echo(fault["stopped"])
    for finding in fault["findings"]:
        click.echo(
            f"found by {finding['check']}: step {finding['step']}, rank {finding['rank']}:"
            f" {finding['text']}"
        )
    if not fault["findings"]:
        click.echo("no check finds it in these steps")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
