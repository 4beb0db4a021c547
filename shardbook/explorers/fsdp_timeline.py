"""FSDP's two streams: when units are gathered, computed and reduced, and the buffers alive."""

from functools import lru_cache
from math import fsum
from typing import Final

from shardbook.errors import InputError
from shardbook.explorers.controls import Choice, Number, Switch
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.fsdp_drawing import figure, parts
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_seconds
from shardbook.schedules.core import Plan, Run, simulate
from shardbook.schedules.fsdp import (
    PARAMETERS,
    Policy,
    compute_seconds,
    equal_units,
    fsdp_plan,
)
from shardbook.schedules.timeline import Span, spans

#: units × passes that are drawn
_MOST: Final = 48


def _draw(
    overlap: bool,
    backward_prefetch: int,
    forward_prefetch: int,
    limit: str,
    issue: str,
    units: int,
    forward: float,
    backward: float,
    all_gather: float,
    reduce_scatter: float,
    reshard: bool,
    passes: str,
    all_reduce: str,
    regather_last: bool,
) -> View:
    number, _, reduced = passes.partition("-")
    micro_batches = int(number)
    if units * micro_batches > _MOST:
        raise InputError("passes", passes, f"give at most {_MOST} units × passes")
    policy = Policy(
        overlap=overlap,
        backward_prefetch=backward_prefetch,
        forward_prefetch=forward_prefetch,
        limit=None if limit == "none" else int(limit),
        issue=float(issue),
        reshard=reshard,
        regather_last=regather_last,
        micro_batches=micro_batches,
        accumulate=reduced == "last",
    )
    layers = equal_units(units, forward, backward, all_gather, reduce_scatter, float(all_reduce))
    plan = _plan(units, policy, replicas=float(all_reduce) > 0)
    lasts = {"F": forward, "B": backward, "AG": all_gather, "RS": reduce_scatter}
    lasts["AR"] = float(all_reduce)
    seconds = [lasts[parts(action.name)[1]] for action in plan.actions]
    run = simulate(plan, seconds, allocate="issue")
    # The scale of everything in one queue: what a switch saves is seen as a shorter picture.
    longest = max(run.makespan, fsum(seconds) + policy.issue * len(seconds))
    compute = compute_seconds(layers, policy)
    done = spans(run)
    return View(
        figure(EXPLORER.id, run, done, longest, overlap=overlap),
        _table(run, done, units, policy),
        _sentence(run, units, compute, policy),
    )


@lru_cache(maxsize=8)
def _plan(units: int, policy: Policy, *, replicas: bool) -> Plan:
    """The compiled step, which other times do not change."""
    return fsdp_plan(equal_units(units, 1, 1, 1, 1, int(replicas)), policy)


def _table(run: Run, done: tuple[Span, ...], units: int, policy: Policy) -> Table:
    times: dict[tuple[int, str, int], list[str]] = {}
    for span in done:
        times.setdefault(parts(span.name), []).append(f"{span.start:.4g} to {span.end:.4g}")
    passes, replicas = policy.micro_batches, any(kind == "AR" for _, kind, _ in times)
    rows = []
    for at in range(passes):
        for unit in range(units):
            gathers = times[at, "AG", unit]
            row = [
                f"pass {at}, unit {unit}" if passes > 1 else f"unit {unit}",
                gathers[0],
                *times[at, "F", unit],
                gathers[1] if len(gathers) > 1 else "kept",
                *times[at, "B", unit],
                *times.get((at, "RS", unit), ["not yet"]),
            ]
            rows.append((*row, *times.get((at, "AR", unit), ["not yet"])[: int(replicas)]))
    header = ("unit", "all-gather", "forward", "again", "backward", "reduce-scatter")
    return Table(
        f"When each unit is gathered, computed and reduced, s; {_told(run, policy)}",
        (*header, *(["all-reduce"] if replicas else [])),
        tuple(rows),
    )


def _told(run: Run, policy: Policy) -> str:
    limit = "no limiter" if policy.limit is None else f"limiter {policy.limit}"
    return (
        f"{_streams(run)}, prefetch "
        f"{policy.forward_prefetch} forward and {policy.backward_prefetch} backward, {limit}, "
        f"{policy.issue:g} s to issue an action"
        f"{'' if policy.reshard else ', kept after the forward'}"
    )


def _sentence(run: Run, units: int, compute: float, policy: Policy) -> str:
    waits = max(0.0, run.makespan - compute)
    peak = run.peaks[PARAMETERS]
    return (
        f"{units} {'unit' if units == 1 else 'units'} on {_streams(run)} "
        f"take{'s' if units == 1 else ''} "
        f"{format_seconds(run.makespan, 4)}: {format_seconds(compute, 4)} of compute, and "
        f"{format_seconds(waits, 4)} in which nothing computes; at most {peak} gathered "
        f"{'buffer is' if peak == 1 else 'buffers are'} in memory at once{_passes(policy)}."
    )


def _streams(run: Run) -> str:
    count = len({action.stream for action in run.plan.actions})
    return ("one stream", "two streams", "three streams")[count - 1]


def _passes(policy: Policy) -> str:
    if policy.micro_batches == 1:
        return ""
    if policy.accumulate:
        return "; gradients are reduced in the last pass, and stay whole until then"
    return f"; gradients are reduced in each of the {policy.micro_batches} passes"


def _seconds(name: str, label: str, default: str, stops: tuple[str, ...]) -> Number:
    return Number(name, label, default, stops, 1e-6, 3600, integer=False, kind="seconds", unit="s")


_AHEAD: Final = ("0", "1", "2", "3")
_COMPUTE: Final = ("0.5", "1", "1.5", "2", "3", "4", "6", "8")
_COMMUNICATION: Final = ("0.25", "0.5", "1", "1.5", "2", "3", "4", "6", "8")

EXPLORER = Explorer(
    "fsdp-timeline",
    "Two streams",
    (
        Switch("overlap", "Communication has a stream of its own", "on"),
        Number("backward_prefetch", "Backward prefetch, units ahead", "0", _AHEAD, 0, 3),
        Number("forward_prefetch", "Forward prefetch, units ahead", "0", _AHEAD, 0, 3),
        Choice(
            "limit",
            "Rate limiter: gathered buffers alive",
            "none",
            (("none", "no limit"), *((str(count), f"at most {count}") for count in (1, 2, 3, 4))),
        ),
        Choice(
            "issue",
            "The host's time to issue an action",
            "0",
            tuple(
                (text, format_seconds(float(text)) if float(text) else "nothing")
                for text in ("0", "0.0001", "0.001", "0.1", "0.25", "0.5", "1")
            ),
        ),
        Number("units", "Units", "4", ("1", "2", "3", "4", "5", "6", "8", "12", "24", "40"), 1, 40),
        _seconds("forward", "Forward of a unit", "2", _COMPUTE),
        _seconds("backward", "Backward of a unit", "4", _COMPUTE),
        _seconds("all_gather", "All-gather of a unit", "1.5", _COMMUNICATION),
        _seconds("reduce_scatter", "Reduce-scatter of a unit", "1.5", _COMMUNICATION),
        Switch("reshard", "Free a unit after its forward", "on"),
        Choice(
            "passes",
            "Passes (micro-batches) in a step",
            "1",
            (
                ("1", "one"),
                ("2-each", "two, gradients reduced in each"),
                ("2-last", "two, gradients reduced in the last"),
                ("4-each", "four, gradients reduced in each"),
                ("4-last", "four, gradients reduced in the last"),
            ),
        ),
        Choice(
            "all_reduce",
            "Hybrid sharding: all-reduce of a unit among replicas",
            "0",
            (("0", "no replicas"), *((text, f"{text} s") for text in _COMMUNICATION)),
        ),
        Switch("regather_last", "Gather the last unit again, too", "off"),
    ),
    _draw,
)
