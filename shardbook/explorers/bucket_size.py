"""Bucket size: when DDP's all-reduces run beside the backward, and the tail that is left."""

from functools import lru_cache
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.network_controls import bandwidth, latency
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes, format_seconds
from shardbook.schedules.buckets import MIB, BucketRun, Layer, Reduction, ddp_step
from shardbook.schedules.core import COMMUNICATION
from shardbook.schedules.timeline import Span, spans

LAYERS: Final = 24
#: BF16 gradients of a layer of width 1024: query, key and value; projection; two of the MLP
TENSORS: Final = (6 * MIB, 2 * MIB, 8 * MIB, 8 * MIB)
#: the sizes compared in the lower figure, MiB
SIZES: Final = (1, 4, 16, 25, 50, 100, 200, 600)

_LEFT, _WIDTH, _ROW, _TOP = 92, 520, 32, 40
_BARS: Final = 96


def _draw(
    bucket: int,
    ranks: int,
    backward: float,
    latency: float,
    bandwidth: float,
    slow: str,
    contention: str,
) -> View:
    setting = (ranks, backward, latency, bandwidth, float(slow), float(contention))
    sizes = sorted({bucket, *(size * MIB for size in SIZES)})
    runs = {size: _step(size, *setting) for size in sizes}
    chosen = runs[bucket]
    return View(
        _figure(runs, bucket, float(slow)),
        _table(runs, bucket, ranks),
        _sentence(runs, chosen, bucket, ranks),
    )


@lru_cache(maxsize=256)
def _step(
    bucket: int,
    ranks: int,
    backward: float,
    latency: float,
    bandwidth: float,
    slow: float,
    contention: float,
) -> BucketRun:
    share = backward / (LAYERS * sum(TENSORS))
    layers = [Layer(size * share / 2, size * share, size) for size in TENSORS] * LAYERS
    return ddp_step(
        layers,
        Reduction(ranks, latency, bandwidth),
        capacity=bucket,
        first=None,
        slowdown=(1.0,) if slow == 1 else (1.0, slow),
        contention=contention,
    )


def _figure(runs: dict[int, BucketRun], bucket: int, slow: float) -> str:
    step = runs[bucket]
    rows = ["rank 0", "slow rank"] if slow > 1 else ["rank 0"]
    network = _TOP + len(rows) * (_ROW + 8)
    root = draw.canvas(648, network + _ROW + 64 + _BARS + 66)
    scale = _WIDTH / max(step.makespan, runs[max(runs)].makespan)
    done = spans(step.run)
    draw.words(root, 0, 16, f"One step with buckets of {_size(bucket)}", class_="sb-strong")
    for rank, label in enumerate(rows):
        y = _TOP + rank * (_ROW + 8)
        draw.words(root, _LEFT - 8, y + 21, label, anchor="end")
        _compute(root, [span for span in done if span.stream == f"rank {rank}"], y, scale)
    draw.words(root, _LEFT - 8, network + 21, "all-reduce", anchor="end")
    reduced = [span for span in done if span.kind == COMMUNICATION]
    places = [(_LEFT + s.start * scale, (s.end - s.start) * scale) for s in reduced]
    fill = draw.CATEGORIES["gradients"][1]
    boxes = _boxes(places, network, _ROW)
    style = {"fill": fill, "fill_opacity": "0.15", "stroke": fill}
    draw.add(root, "path", d=boxes, class_="sb-gradients sb-temporary", **style)
    ends = (step.makespan - step.tail, step.makespan)
    for time in ends:
        x = _LEFT + time * scale
        draw.line(root, x, _TOP - 6, x, network + _ROW + 6, "sb-limit")
    tail = f"tail {format_seconds(step.tail)}"
    _label(root, ends[0], scale, network + _ROW + 22, tail, "sb-strong")
    _bars(root, runs, bucket, network + _ROW + 60)
    return draw.text_of(root)


def _label(root: Element, time: float, scale: float, y: float, text: str, class_: str) -> None:
    """Write beside a time, on the side where there is room."""
    x = _LEFT + time * scale
    room = x + 9 * len(text) < 640
    draw.words(
        root, x if room else x - 4, y, text, anchor="start" if room else "end", class_=class_
    )


def _compute(root: Element, done: list[Span], y: float, scale: float) -> None:
    """Two blocks, forward and backward, with a mark where a layer's gradients are complete."""
    for kind, label, opacity in (("F", "forward", "0.1"), ("B", "backward", "0.28")):
        part = [span for span in done if span.name.startswith(kind)]
        start, end = part[0].start * scale, part[-1].end * scale
        style = {"fill": "currentColor", "fill_opacity": opacity, "stroke": "currentColor"}
        width = end - start
        draw.add(root, "rect", x=_LEFT + start, y=y, width=width, height=_ROW, **style)
        if kind == "B":
            marks = [_LEFT + s.end * scale for s in part[len(TENSORS) - 1 :: len(TENSORS)]]
            path = "".join(f"M{draw.number(x)} {y + _ROW - 7}v7" for x in marks)
            draw.add(root, "path", d=path, stroke="currentColor", stroke_width=1, fill="none")
        if 8 * len(label) < width:
            draw.words(root, _LEFT + start + width / 2, y + 18, label, anchor="middle")


def _boxes(places: list[tuple[float, float]], y: float, height: float) -> str:
    return "".join(
        f"M{draw.number(x)} {draw.number(y)}h{draw.number(width)}v{draw.number(height)}"
        f"h{draw.number(-width)}z"
        for x, width in places
    )


def _bars(root: Element, runs: dict[int, BucketRun], bucket: int, top: float) -> None:
    title = "Length of the step by bucket size: computing, and the tail (filled)"
    draw.words(root, 0, top, title, class_="sb-strong")
    foot = top + 30 + _BARS
    times = [run.makespan for run in runs.values()]
    high = _BARS / max(times)
    unit = format_seconds(min(times)).split()[1]
    in_unit = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[unit]
    room = (640 - _LEFT / 2) / len(runs)
    for place, (size, run) in enumerate(runs.items()):
        x = _LEFT / 2 + place * room + 6
        computing, whole = (run.makespan - run.tail) * high, run.makespan * high
        style = {"fill": "currentColor", "fill_opacity": "0.2"}
        width = room - 12
        draw.add(root, "rect", x=x, y=foot - computing, width=width, height=computing, **style)
        draw.block(root, EXPLORER.id, "gradients", x, foot - whole, width, whole - computing)
        weight = "sb-strong" if size == bucket else ""
        for text, y in (
            (_plain(run.makespan / in_unit), foot - whole - 6),
            (f"{size / MIB:.4g}", foot + 16),
        ):
            draw.words(root, x + width / 2, y, text, anchor="middle", class_=f"sb-small {weight}")
        if size == bucket:
            draw.outline(root, x - 3, foot - whole - 2, width + 6, whole + 4)
    draw.line(root, _LEFT / 2, foot, 640, foot)
    draw.words(root, 0, top + 26, unit, class_="sb-small")
    draw.words(root, 0, foot + 16, "MiB", class_="sb-small")


def _plain(value: float) -> str:
    return f"{value:.3g}" if value < 999 else f"{value:,.0f}"


def _table(runs: dict[int, BucketRun], bucket: int, ranks: int) -> Table:
    rows = [
        (
            _size(size) + (" (chosen)" if size == bucket else ""),
            str(len(run.buckets)),
            format_seconds(run.reducing),
            format_seconds(run.tail),
            format_seconds(run.makespan),
        )
        for size, run in runs.items()
    ]
    total = format_bytes(LAYERS * sum(TENSORS), binary=True)
    return Table(
        f"One step, {total} of gradients in {LAYERS * len(TENSORS)} arrays, {ranks:,} ranks",
        ("bucket size", "all-reduces", "all-reduce takes", "tail", "step"),
        tuple(rows),
    )


def _sentence(runs: dict[int, BucketRun], step: BucketRun, bucket: int, ranks: int) -> str:
    best = min(runs, key=lambda size: (runs[size].makespan, size))
    count = len(step.buckets)
    saved = (
        "the shortest of all sizes shown"
        if runs[best].makespan >= step.makespan
        else f"{_size(best)} would take {format_seconds(runs[best].makespan)}"
    )
    return (
        f"With buckets of {_size(bucket)}, {ranks:,} {'rank' if ranks == 1 else 'ranks'} run "
        f"{'one all-reduce, which' if count == 1 else f'{count} all-reduces, the last of which'} "
        f"ends {format_seconds(step.tail)} after the backward; the step takes "
        f"{format_seconds(step.makespan)}: {saved}."
    )


def _size(size: int) -> str:
    return format_bytes(size, 4, binary=True)


_SHARES: Final = (
    ("0", "none"),
    ("0.1", "10 %"),
    ("0.25", "25 %"),
    ("0.5", "50 %"),
)

EXPLORER = Explorer(
    "bucket-size",
    "Too small, too large",
    (
        Number(
            "bucket",
            "Bucket size",
            "25MiB",
            tuple(f"{size}MiB" for size in SIZES),
            1,
            2**40,
            kind="bytes",
        ),
        Number("ranks", "Ranks", "8", doublings(10)[1:], 1, 1024),
        Number(
            "backward",
            "Backward (forward takes half of it)",
            "25ms",
            ("5ms", "10ms", "15ms", "20ms", "25ms", "30ms", "40ms", "60ms", "100ms"),
            1e-4,
            10,
            integer=False,
            kind="seconds",
            unit="s",
        ),
        latency(),
        bandwidth(),
        Choice(
            "slow",
            "One rank takes longer to compute",
            "1",
            (("1", "no"), ("1.1", "10 % longer"), ("1.25", "25 % longer"), ("1.5", "50 % longer")),
        ),
        Choice("contention", "Speed that computing loses under an all-reduce", "0", _SHARES),
    ),
    _draw,
)
