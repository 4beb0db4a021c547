"""A step of ZeRO-3, action by action: what one rank holds meanwhile, and where the peak is."""

from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number, Steps
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.schedules.cases import MLP_UNITS
from shardbook.schedules.storyboard import (
    ACTIVATIONS,
    GRADIENTS,
    OPTIMIZER,
    WEIGHTS,
    Frame,
    storyboard,
)
from shardbook.schedules.units import flat_parameter

_LEFT, _WIDTH, _TOP, _HIGH = 80, 560, 72, 230
_STAGE: Final = 3
#: B of a 16-bit number
_HALF: Final = 2
_LAST: Final = 5 * len(MLP_UNITS)

_DOES: Final = {
    "AG": "gathers the weights of unit {}",
    "F": "runs the forward of unit {}",
    "B": "runs the backward of unit {}",
    "RS": "reduce-scatters the gradient of unit {}",
    "Adam": "updates its own parts",
}
#: what a part of a bar is, from the bottom: label, colour, texture
_PARTS: Final = (
    ("master weights and moments, own part", "master_weights", "owned"),
    ("weights, own part", "weights", "owned"),
    ("gradients, own part", "gradients", "owned"),
    ("gathered weights", "gathered_parameters", "temporary"),
    ("one full gradient", "gradients", "temporary"),
    ("activations", "activations", "owned"),
)


def _draw(step: int, ranks: int, kept: int) -> View:
    frames = storyboard(_STAGE, MLP_UNITS, ranks, kept)
    peak = max(range(len(frames)), key=lambda place: _total(frames[place]))
    sizes = [_sizes(frame, frames[-1].held[WEIGHTS], ranks) for frame in frames]
    return View(
        _figure(frames, sizes, step, peak),
        _table(frames, sizes, step, peak),
        _sentence(frames, step, peak),
    )


def _total(frame: Frame) -> int:
    return sum(frame.held.values())


def _split(action: str) -> tuple[str, str]:
    """The kind of an action and its unit: ``RS`` and ``3``."""
    kind = action.rstrip("0123456789")
    return kind, action.removeprefix(kind)


def _sizes(frame: Frame, own: int, ranks: int) -> tuple[int, ...]:
    """The bytes of each of `_PARTS`; a full gradient lives in its backward and its reduction."""
    kind, unit = _split(frame.action)
    full = (
        _HALF * flat_parameter({unit: MLP_UNITS[int(unit)]}, ranks).shard * ranks
        if kind in ("B", "RS")
        else 0
    )
    held = frame.held
    gathered, gradients = held[WEIGHTS] - own, held[GRADIENTS] - full
    return held[OPTIMIZER], own, gradients, gathered, full, held[ACTIVATIONS]


def _figure(frames: tuple[Frame, ...], sizes: list[tuple[int, ...]], step: int, peak: int) -> str:
    root = draw.canvas(648, _TOP + _HIGH + 76)
    _legend(root)
    scale, column, foot = _HIGH / sum(sizes[peak]), _WIDTH / len(frames), _TOP + _HIGH
    level = foot - sum(sizes[step]) * scale
    draw.line(root, _LEFT - 4, level, _LEFT + _WIDTH, level, "sb-faint")
    for place, parts in enumerate(sizes):
        x, y = _LEFT + place * column, float(foot)
        for (_, category, texture), size in zip(_PARTS, parts, strict=True):
            high = size * scale
            y -= high
            if high > 0.2:
                draw.block(
                    root, EXPLORER.id, category, x + 1.5, y, column - 3, high, texture=texture
                )
        if place == step:
            draw.outline(root, x, y - 2, column, foot - y + 4)
    middle = _LEFT + (peak + 0.5) * column
    draw.words(root, middle, _TOP - 6, "peak", anchor="middle", class_="sb-small sb-strong")
    for row, (label, place) in enumerate((("peak", peak), ("now", step))):
        draw.words(root, 0, _TOP + 10 + 44 * row, label, class_="sb-strong")
        draw.words(root, 0, _TOP + 26 + 44 * row, f"{sum(sizes[place]):,} B", class_="sb-small")
    _heads(root, frames, column, foot, step)
    return draw.text_of(root)


def _legend(root: Element) -> None:
    x: float = 0
    for place, (label, category, texture) in enumerate(_PARTS):
        if place == 3:
            x = 0
        y = 4 + 22 * (place // 3)
        draw.block(root, EXPLORER.id, category, x, y, 14, 14, texture=texture)
        draw.words(root, x + 20, y + 12, label, class_="sb-small")
        x += 40 + 6.6 * len(label)


def _heads(root: Element, frames: tuple[Frame, ...], column: float, foot: float, step: int) -> None:
    """What runs, as text on its side under each bar, and the phases below."""
    for place, frame in enumerate(frames):
        x = _LEFT + (place + 0.5) * column
        strong = "sb-strong" if place == step else ""
        label = draw.words(root, 0, 0, frame.action, anchor="end", class_=f"sb-small {strong}")
        label.set(
            "transform", f"translate({draw.number(x + 4)} {draw.number(foot + 8)}) rotate(-90)"
        )
    units = len(MLP_UNITS)
    for name, start, end in (
        ("forward", 0, 2 * units),
        ("backward", 2 * units, 5 * units),
        ("update", 5 * units, 5 * units + 1),
    ):
        middle = _LEFT + (start + end) / 2 * column
        anchor = "end" if name == "update" else "middle"
        x = _LEFT + _WIDTH + 6 if name == "update" else middle
        draw.words(root, x, foot + 64, name, anchor=anchor)
        line = _LEFT + end * column
        draw.line(root, line, _TOP, line, foot + 44, "sb-faint")


def _table(frames: tuple[Frame, ...], sizes: list[tuple[int, ...]], step: int, peak: int) -> Table:
    rows = [
        (label, f"{now:,}", f"{most:,}")
        for (label, _, _), now, most in zip(_PARTS, sizes[step], sizes[peak], strict=True)
    ]
    rows.append(("all", f"{sum(sizes[step]):,}", f"{sum(sizes[peak]):,}"))
    return Table(
        "What the rank holds, B",
        ("array", f"now, {frames[step].action}", f"at the peak, {frames[peak].action}"),
        tuple(rows),
    )


def _sentence(frames: tuple[Frame, ...], step: int, peak: int) -> str:
    kind, unit = _split(frames[step].action)
    does = _DOES[kind].format(unit)
    held, most = _total(frames[step]), _total(frames[peak])
    if step == peak:
        return f"While the rank {does}, it holds {held:,} B: this is the peak of the step."
    return (
        f"While the rank {does}, it holds {held:,} B; the peak of the step is {most:,} B, "
        f"in {frames[peak].action}."
    )


EXPLORER = Explorer(
    "sharded-step",
    "One step of ZeRO-3, as a rank sees it",
    (
        Steps("step", "Step", "0", _LAST),
        Number("ranks", "Ranks", "4", ("2", "3", "4", "8", "16", "64"), 2, 1024),
        Number(
            "kept",
            "Activations each unit keeps",
            "0",
            ("0", "1000", "3000", "10000", "30000", "100000"),
            0,
            1e12,
            kind="bytes",
            unit="B",
        ),
    ),
    _draw,
)
