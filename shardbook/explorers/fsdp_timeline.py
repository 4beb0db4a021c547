"""FSDP's two streams: when units are gathered, computed and reduced, and the buffers alive."""

from math import fsum
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, Switch
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_seconds
from shardbook.schedules.core import COMMUNICATION, Run
from shardbook.schedules.fsdp import (
    ALL_REDUCE,
    PARAMETERS,
    Policy,
    compute_seconds,
    equal_units,
    fsdp_run,
)
from shardbook.schedules.timeline import Span, memory, spans

_LEFT, _WIDTH, _ROW, _TOP = 126, 506, 34, 46
_CURVE: Final = 96
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
    run = fsdp_run(layers, policy)
    # The scale of everything in one queue: what a switch saves is seen as a shorter picture.
    longest = max(run.makespan, fsum(run.plan.seconds))
    compute = compute_seconds(layers, policy)
    return View(
        _figure(run, overlap, longest),
        _table(run, units, policy),
        _sentence(run, units, compute, policy),
    )


def _figure(run: Run, overlap: bool, longest: float) -> str:
    done = spans(run)
    streams = ["compute", *([COMMUNICATION] if overlap else [])]
    streams += [ALL_REDUCE] if any(span.stream == ALL_REDUCE for span in done) else []
    rows = {stream: _TOP + at * (_ROW + 8) for at, stream in enumerate(streams)}
    host = _TOP + len(rows) * (_ROW + 8)
    foot = host + 40 + _CURVE
    root = draw.canvas(648, foot + 28)
    scale = _WIDTH / longest
    _legend(root)
    for stream, y in rows.items():
        label = stream if overlap else "one stream"
        draw.words(root, _LEFT - 8, y + 22, label, anchor="end")
    _waits(root, [span for span in done if span.stream == "compute"], rows["compute"], scale)
    for span in done:
        _block(root, span, rows[span.stream], scale)
    draw.words(root, _LEFT - 8, host + 13, "host issues", anchor="end")
    draw.line(root, _LEFT, host + 9, _LEFT + run.makespan * scale, host + 9, "sb-faint")
    for issued in sorted({run.taken_at(index) for index in range(len(done))}):
        x = _LEFT + issued * scale
        draw.line(root, x, host + 2, x, host + 16)
    _curve(root, run, foot, scale)
    end = _LEFT + run.makespan * scale
    draw.line(root, end, _TOP - 6, end, foot, "sb-limit")
    label = format_seconds(run.makespan, 4)
    draw.words(root, min(end + 30, 644), foot + 20, label, anchor="end", class_="sb-strong")
    return draw.text_of(root)


def _parts(name: str) -> tuple[int, str, int]:
    """The pass, the kind and the unit of an action: ``m1:AG2`` is (1, AG, 2)."""
    before, _, action = name.rpartition(":")
    unit = action.lstrip("AGFBRS")
    return int(before.removeprefix("m") or 0), action.removesuffix(unit), int(unit)


def _legend(root: Element) -> None:
    x: float = 0
    for label, kind in (
        ("F forward", "F"),
        ("B backward", "B"),
        ("all-gather", "AG"),
        ("reduce-scatter", "RS"),
        ("compute waits", ""),
    ):
        _shape(root, kind, x, 6, 18, 16)
        draw.words(root, x + 24, 19, label, class_="sb-small")
        x += 44 + 6.6 * len(label)


def _shape(root: Element, kind: str, x: float, y: float, width: float, height: float) -> None:
    if kind in ("AG", "RS", "AR"):
        category = "gathered_parameters" if kind == "AG" else "gradients"
        draw.block(root, EXPLORER.id, category, x, y, width, height, texture="temporary")
        return
    place = {"x": x, "y": y, "width": max(width, 0), "height": height}
    if not kind:
        dashed = {"stroke_dasharray": "4 4", "stroke_opacity": "0.6"}
        draw.add(root, "rect", fill="none", stroke="currentColor", **dashed, **place)
        return
    opacity = "0.1" if kind == "F" else "0.28"
    style = {"fill": "currentColor", "fill_opacity": opacity, "stroke": "currentColor"}
    draw.add(root, "rect", **style, **place)


def _block(root: Element, span: Span, y: float, scale: float) -> None:
    x, width = _LEFT + span.start * scale, (span.end - span.start) * scale
    _, kind, unit = _parts(span.name)
    _shape(root, kind, x, y, width, _ROW)
    for label in (span.name, f"{kind}{unit}", str(unit)):
        if 7.4 * len(label) <= width:
            middle = x + width / 2
            draw.words(root, middle, y + 21, label, anchor="middle", class_="sb-small")
            return


def _waits(root: Element, busy: list[Span], y: float, scale: float) -> None:
    """Frame the gaps of the compute stream."""
    at = 0.0
    for span in busy:
        if (span.start - at) * scale > 1:
            _shape(root, "", _LEFT + at * scale, y, (span.start - at) * scale, _ROW)
        at = span.end


def _curve(root: Element, run: Run, foot: float, scale: float) -> None:
    """The residency: gathered buffers alive over time, from when the host issues their gather."""
    peak = run.peaks[PARAMETERS]
    high = _CURVE / peak
    steps = 1 if peak <= 6 else -(-peak // 4)
    for count in (*range(0, peak, steps), peak):
        y = foot - count * high
        if count == peak or peak - count >= steps:
            draw.line(root, _LEFT, y, _LEFT + _WIDTH, y, "sb-faint")
            draw.words(root, _LEFT - 8, y + 4, str(count), anchor="end", class_="sb-small")
    draw.words(root, 0, foot - _CURVE + 16, "gathered")
    draw.words(root, 0, foot - _CURVE + 33, "buffers alive")
    points, level = [f"{draw.number(_LEFT)},{draw.number(foot)}"], foot
    for time, held in memory(run, PARAMETERS):
        x = draw.number(_LEFT + time * scale)
        points.append(f"{x},{draw.number(level)}")
        level = foot - held * high
        points.append(f"{x},{draw.number(level)}")
    points.append(f"{draw.number(_LEFT + run.makespan * scale)},{draw.number(level)}")
    fill = draw.CATEGORIES["gathered_parameters"][1]
    draw.add(
        root,
        "polygon",
        points=" ".join(
            [*points, f"{draw.number(_LEFT + run.makespan * scale)},{draw.number(foot)}"]
        ),
        class_="sb-gathered_parameters sb-temporary",
        fill=fill,
        fill_opacity="0.2",
        stroke=fill,
        stroke_width=2,
    )
    draw.line(root, _LEFT, foot, _LEFT + _WIDTH, foot)
    draw.words(root, _LEFT, foot + 18, "0", anchor="middle", class_="sb-small")


def _table(run: Run, units: int, policy: Policy) -> Table:
    times: dict[tuple[int, str, int], list[str]] = {}
    for span in spans(run):
        times.setdefault(_parts(span.name), []).append(f"{span.start:.4g} to {span.end:.4g}")
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
        f"When each unit is gathered, computed and reduced, s; {_told(policy)}",
        (*header, *(["all-reduce"] if replicas else [])),
        tuple(rows),
    )


def _told(policy: Policy) -> str:
    limit = "no limiter" if policy.limit is None else f"limiter {policy.limit}"
    return (
        f"{'two streams' if policy.overlap else 'one stream'}, prefetch "
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
