"""How far ahead to read: each layer's way from NVMe over host memory and the GPU to its compute."""

from functools import lru_cache
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_seconds
from shardbook.schedules.core import Plan, Run, simulate
from shardbook.schedules.offload import (
    GPU,
    GPU_POOL,
    HOST_POOL,
    NETWORK,
    NVME,
    UP,
    PrefetchLayer,
    prefetch_plan,
)

_LEFT, _WIDTH, _BAR, _ROW, _TOP = 106, 530, 30, 40, 34
#: stream → (label, category of what moves, how dark if it computes)
_STAGES: Final = {
    NVME: ("NVMe to CPU", "buffers", ""),
    UP: ("CPU to GPU", "weights", ""),
    NETWORK: ("all-gather", "gathered_parameters", ""),
    GPU: ("compute", "", "0.25"),
}
#: depths that are compared
_DEEPEST: Final = 5
_DIGIT: Final = 8
#: part of the width that the longest of the compared bars has, with its words behind it
_SHORT: Final = 0.42


@lru_cache(maxsize=256)
def _plan(layers: int, depth: int) -> Plan:
    """A pass compiled once for all times."""
    return prefetch_plan((PrefetchLayer(1, 1, 1, 1),) * layers, depth)


def _draw(
    depth: int, layers: int, nvme: float, copy: float, all_gather: float, compute: float
) -> View:
    times = {NVME: nvme, UP: copy, NETWORK: all_gather, GPU: compute}
    seconds = [nvme, copy, all_gather, compute] * layers
    runs = [simulate(_plan(layers, each), seconds) for each in range(_DEEPEST + 1)]
    return View(
        _figure(runs, depth),
        _table(runs, layers, times),
        _sentence(runs, depth, layers, times),
    )


def _figure(runs: list[Run], depth: int) -> str:
    run = runs[depth]
    foot = _TOP + len(_STAGES) * _ROW
    below = foot + 66
    root = draw.canvas(648, below + len(runs) * 26 + 4)
    draw.words(root, 0, 16, "One pass; a number is a layer", class_="sb-strong")
    scale = _WIDTH / runs[0].makespan
    tops = {stream: _TOP + at * _ROW for at, stream in enumerate(_STAGES)}
    for stream, (label, _, _) in _STAGES.items():
        draw.words(root, _LEFT - 8, tops[stream] + 20, label, anchor="end")
    _blocks(root, run, tops, scale)
    end = _LEFT + run.makespan * scale
    draw.line(root, end, _TOP - 6, end, foot, "sb-limit")
    label = format_seconds(run.makespan, 4)
    draw.words(root, end, foot + 16, label, anchor="end", class_="sb-small")
    draw.words(root, 0, below - 14, "Read ahead of the layer that computes", class_="sb-strong")
    for each, other in enumerate(runs):
        y, weight = below + each * 26, "sb-strong" if each == depth else ""
        name = f"{each} layers" if each != 1 else "1 layer"
        draw.words(root, _LEFT - 8, y + 14, name, anchor="end", class_=weight)
        wide = other.makespan * scale * _SHORT
        draw.block(root, EXPLORER.id, "buffers", _LEFT, y, wide, 18)
        told = f"{format_seconds(other.makespan, 4)}, {_held(other)}"
        draw.words(root, _LEFT + wide + 8, y + 14, told, class_=f"sb-small {weight}")
    return draw.text_of(root)


def _held(run: Run) -> str:
    host, gpu = run.peaks[HOST_POOL], run.peaks[GPU_POOL]
    return f"{host} in host memory, {gpu} on the GPU"


def _blocks(root: Element, run: Run, tops: dict[str, int], scale: float) -> None:
    paths: dict[str, str] = {}
    for at, (action, start, end) in enumerate(
        zip(run.plan.actions, run.starts, run.ends, strict=True)
    ):
        x, wide, y = _LEFT + start * scale, (end - start) * scale, tops[action.stream]
        place = f"M{draw.number(x)} {y}h{draw.number(wide)}v{_BAR}h-{draw.number(wide)}z"
        paths[action.stream] = paths.get(action.stream, "") + place
        number = str(at // len(_STAGES))
        if wide > _DIGIT * len(number) + 2:
            draw.words(root, x + wide / 2, y + 20, number, anchor="middle", class_="sb-small")
    for stream, path in paths.items():
        _, category, dark = _STAGES[stream]
        fill = draw.CATEGORIES[category][1] if category else "currentColor"
        style = {"fill": fill, "fill_opacity": dark or "0.2", "stroke": fill}
        if category:
            style["class_"] = f"sb-{category} sb-temporary"
        draw.add(root, "path", d=path, **style)


def _table(runs: list[Run], layers: int, times: dict[str, float]) -> Table:
    each = ", ".join(
        f"{label} {format_seconds(times[stream])}" for stream, (label, _, _) in _STAGES.items()
    )
    return Table(
        f"A pass over {layers} layers; a layer's times: {each}",
        ("read ahead", "time", "GPU computes", "layers in host memory", "layers on the GPU"),
        tuple(
            (
                str(depth),
                format_seconds(run.makespan, 4),
                f"{layers * times[GPU] / run.makespan:.1%}",
                str(run.peaks[HOST_POOL]),
                str(run.peaks[GPU_POOL]),
            )
            for depth, run in enumerate(runs)
        ),
    )


def _sentence(runs: list[Run], depth: int, layers: int, times: dict[str, float]) -> str:
    run, best = runs[depth], runs[-1]
    slowest = max(times, key=times.__getitem__)
    enough = next(
        at for at, other in enumerate(runs) if other.makespan <= best.makespan * (1 + 1e-9)
    )
    start = (
        f"With {depth} {'layer' if depth == 1 else 'layers'} read ahead, {layers} layers take"
        f" {format_seconds(run.makespan, 4)} and the GPU computes"
        f" {layers * times[GPU] / run.makespan:.1%} of it"
    )
    if depth < enough:
        return f"{start}; {enough} ahead would take {format_seconds(best.makespan, 4)}."
    more = "" if depth == enough else f", {enough} would do"
    pace = f"the slowest stage, {_STAGES[slowest][0]}, sets the pace"
    return f"{start}; {pace}, and more does not help{more}."


def _stage(name: str, label: str, default: str) -> Number:
    stops = (
        "1ms",
        "2ms",
        "4ms",
        "6ms",
        "8ms",
        "10ms",
        "15ms",
        "20ms",
        "30ms",
        "45ms",
        "60ms",
        "100ms",
    )
    return Number(name, label, default, stops, 1e-6, 100, integer=False, kind="seconds", unit="s")


EXPLORER = Explorer(
    "offload-prefetch",
    "How far ahead to read",
    (
        Number("depth", "Layers read ahead", "1", tuple(map(str, range(_DEEPEST + 1))), 0, _DEEPEST),
        Number("layers", "Layers", "8", ("2", "4", "6", "8", "12", "16", "24"), 2, 24),
        _stage("nvme", "A layer from NVMe to the CPU", "8ms"),
        _stage("copy", "A layer from the CPU to the GPU", "4ms"),
        _stage("all_gather", "Its all-gather among the GPUs", "2ms"),
        _stage("compute", "Its compute", "10ms"),
    ),
    _draw,
)  # fmt: skip
