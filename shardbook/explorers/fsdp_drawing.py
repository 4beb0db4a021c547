"""The timeline of FSDP's units drawn: streams, the host's issues, and the buffers alive."""

from functools import cache
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.numbers.units import format_seconds
from shardbook.schedules.core import COMMUNICATION, Run
from shardbook.schedules.fsdp import ALL_REDUCE, PARAMETERS
from shardbook.schedules.timeline import Span, memory

_LEFT, _WIDTH, _ROW, _TOP = 126, 506, 34, 46
_CURVE: Final = 96
_WAIT: Final = ""
#: width of a capital letter in a block
_LETTER: Final = 8.4


@cache
def parts(name: str) -> tuple[int, str, int]:
    """The pass, the kind and the unit of an action: ``m1:AG2`` is (1, AG, 2)."""
    before, _, action = name.rpartition(":")
    unit = action.lstrip("AGFBRS")
    return int(before.removeprefix("m") or 0), action.removesuffix(unit), int(unit)


def figure(scope: str, run: Run, done: tuple[Span, ...], longest: float, *, overlap: bool) -> str:
    """Draw ``run``, whose spans are ``done``, where ``longest`` seconds are the whole width."""
    streams = ["compute", *([COMMUNICATION] if overlap else [])]
    streams += [ALL_REDUCE] if any(span.stream == ALL_REDUCE for span in done) else []
    rows = {stream: _TOP + at * (_ROW + 8) for at, stream in enumerate(streams)}
    host = _TOP + len(rows) * (_ROW + 8)
    foot = host + 40 + _CURVE
    root = draw.canvas(648, foot + 28)
    scale = _WIDTH / longest
    _legend(root, scope)
    for stream, y in rows.items():
        label = stream if overlap else "one stream"
        draw.words(root, _LEFT - 8, y + 22, label, anchor="end")
    _actions(root, scope, done, rows, scale)
    draw.words(root, _LEFT - 8, host + 13, "host issues", anchor="end")
    draw.line(root, _LEFT, host + 9, _LEFT + run.makespan * scale, host + 9, "sb-faint")
    times = sorted({run.taken_at(index) for index in range(len(done))})
    ticks = "".join([f"M{draw.number(_LEFT + time * scale)} {host + 2}v14" for time in times])
    draw.add(root, "path", d=ticks, fill="none", stroke="currentColor")
    _curve(root, run, foot, scale)
    end = _LEFT + run.makespan * scale
    draw.line(root, end, _TOP - 6, end, foot, "sb-limit")
    label = format_seconds(run.makespan, 4)
    draw.words(root, min(end + 30, 644), foot + 20, label, anchor="end", class_="sb-strong")
    return draw.text_of(root)


def _legend(root: Element, scope: str) -> None:
    x: float = 0
    for label, kind in (
        ("F forward", "F"),
        ("B backward", "B"),
        ("all-gather", "AG"),
        ("reduce-scatter", "RS"),
        ("compute waits", _WAIT),
    ):
        _boxes(root, scope, kind, [(x, 6, 18, 16)])
        draw.words(root, x + 24, 19, label, class_="sb-small")
        x += 44 + 6.6 * len(label)


def _boxes(root: Element, scope: str, kind: str, boxes: list[draw.Box]) -> None:
    """Draw all boxes of a kind at once: a long timeline has hundreds."""
    if kind in ("AG", "RS", "AR"):
        category = "gathered_parameters" if kind == "AG" else "gradients"
        draw.blocks(root, scope, category, boxes, texture="temporary")
        return
    path = draw.path_of(boxes)
    if kind == _WAIT:
        dashed = {"stroke_dasharray": "4 4", "stroke_opacity": "0.6"}
        draw.add(root, "path", d=path, fill="none", stroke="currentColor", **dashed)
        return
    opacity = "0.1" if kind == "F" else "0.28"
    style = {"fill": "currentColor", "fill_opacity": opacity, "stroke": "currentColor"}
    draw.add(root, "path", d=path, **style)


def _actions(
    root: Element, scope: str, done: tuple[Span, ...], rows: dict[str, int], scale: float
) -> None:
    """Draw what runs on each stream, and frame the gaps of the compute stream."""
    boxes: dict[str, list[draw.Box]] = {}
    labels = []
    at = 0.0
    for span in done:
        y, width = rows[span.stream], (span.end - span.start) * scale
        x = _LEFT + span.start * scale
        if span.stream == "compute":
            if (span.start - at) * scale > 1:
                boxes.setdefault(_WAIT, []).append(
                    (_LEFT + at * scale, y, x - _LEFT - at * scale, _ROW)
                )
            at = span.end
        _, kind, unit = parts(span.name)
        boxes.setdefault(kind, []).append((x, y, width, _ROW))
        if width < _LETTER:
            continue
        for label in (span.name, f"{kind}{unit}", str(unit)):
            if _LETTER * len(label) <= width:
                labels.append((x + width / 2, y + 21, label))
                break
    for kind in sorted(boxes):
        _boxes(root, scope, kind, boxes[kind])
    for x, y, label in labels:
        draw.words(root, x, y, label, anchor="middle", class_="sb-small")


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
