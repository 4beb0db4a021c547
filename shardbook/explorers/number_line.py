"""Drawing of one update in a number format: the numbers around a weight, and the update repeated."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.numbers.formats import FP32, Format, encode, neighbours, round_to
from shardbook.numbers.swallowed import add, path, smallest_surviving_update

_LEFT: Final = 20
_WIDTH: Final = 600
_LINE: Final = 112
_PATH: Final = 262
_HIGH: Final = 150
#: numbers of the format on either side of what happens, and the most shown at once
_MARGIN, _MOST = 2, 9


@dataclass(frozen=True, slots=True)
class Case:
    """One format's answer; ``update`` has its sign, ``alone`` and ``kept`` start before the first."""

    fmt: Format
    start: float
    update: float
    threshold: float  #: an update survives above
    landed: float  #: what the sum is rounded to
    alone: tuple[float, ...]  #: the weight under repeated updates
    kept: tuple[float, ...]  #: the same, rounded from an FP32 master

    @property
    def survives(self) -> bool:
        """Whether the update changes the weight."""
        return self.landed != self.start

    @property
    def steps(self) -> int:
        """How many numbers of the format lie between, plus one."""
        return abs(encode(self.fmt, self.landed) - encode(self.fmt, self.start))


@lru_cache(maxsize=64)
def case_of(fmt: Format, weight: float, update: float, count: int) -> Case:
    """Compute one format's answer; raises `InputError` for a weight that it does not have."""
    threshold, _ = smallest_surviving_update(fmt, weight, down=update < 0)
    start = round_to(fmt, weight)
    return Case(
        fmt,
        start,
        update,
        threshold,
        add(fmt, start, update),
        path(fmt, weight, update, count),
        tuple([round_to(fmt, total) for total in _master(weight, update, count)]),
    )


@lru_cache(maxsize=4)
def _master(weight: float, update: float, count: int) -> tuple[float, ...]:
    """The FP32 master weight, which is the same for every format of the working weight."""
    return path(FP32, weight, update, count)


def figure(case: Case, master: bool, count: int) -> str:
    """Draw the update on the number line, and the weight after each of ``count`` updates."""
    root = draw.canvas(_LEFT + _WIDTH + 20, _PATH + _HIGH + 34)
    title = f"{case.fmt} has these numbers and none between them"
    draw.words(root, _LEFT, 18, title, class_="sb-strong")
    _number_line(root, case, master)
    _repeats(root, case, master, count)
    return draw.text_of(root)


def _number_line(root: Element, case: Case, master: bool) -> None:
    shown = _window(case)
    exact = case.start + case.update
    low, high = shown[0], shown[-1]

    def place(value: float) -> float:
        inside = min(max((value - low) / (high - low), 0.0), 1.0)
        return _LEFT + 36 + inside * (_WIDTH - 72)

    draw.line(root, _LEFT, _LINE, _LEFT + _WIDTH, _LINE)
    every = 1 + (len(shown) - 1) // (5 if case.fmt.mantissa_bits > 12 else 8)
    for number, value in enumerate(shown):
        x = place(value)
        draw.line(root, x, _LINE - 9, x, _LINE + 9)
        if number % every == 0:
            draw.words(
                root, x, _LINE + 26, say(value, case.fmt), anchor="middle", class_="sb-small"
            )
    if low <= case.start <= high:
        _dot(root, place(case.start), _LINE, "sb-weights", 7)
        half = case.start + math.copysign(case.threshold, case.update)
        if low <= half <= high:
            draw.line(root, place(half), _LINE - 34, place(half), _LINE + 6, "sb-limit")
            # On the side that the arrow does not come down on.
            right = (case.update > 0) != case.survives
            where = place(half) + (8 if right else -8)
            anchor = "start" if right else "end"
            draw.words(root, where, _LINE - 24, "half way", anchor=anchor, class_="sb-small")
    else:
        away = f"the weight, {say(case.start, case.fmt)}, is {case.steps:,} numbers away"
        at_left = case.update > 0
        x = _LEFT if at_left else _LEFT + _WIDTH
        draw.words(
            root, x, _LINE - 24, away, anchor="start" if at_left else "end", class_="sb-small"
        )
    if not math.isfinite(case.landed):
        note = f"beyond {say(case.fmt.largest, case.fmt)}, the largest number: overflow"
        draw.words(root, _LEFT + _WIDTH, _LINE - 56, note, anchor="end")
        return
    _arrow(root, case, place(max(low, min(high, case.start))), place(exact), place(case.landed))
    if master:
        note = f"the master weight keeps {say(round_to(FP32, exact))}, the working weight is "
        draw.words(root, _LEFT, 48, f"{note}{say(case.landed, case.fmt)}")
    else:
        fate = "the update is lost" if not case.survives else "the update survives"
        draw.words(root, _LEFT, 48, f"the sum rounds to {say(case.landed, case.fmt)}: {fate}")


def _arrow(root: Element, case: Case, start: float, exact: float, landed: float) -> None:
    """From the weight to the exact sum, and down to the number it is rounded to."""
    y = _LINE - 46
    draw.line(root, start, y, exact, y)
    draw.line(root, start, y - 4, start, y + 4)
    _dot(root, exact, y, "sb-master_weights", 5)
    tip = draw.line(root, exact, y, landed, _LINE - 12)
    tip.set("stroke-dasharray", "2 3")
    draw.add(
        root,
        "circle",
        cx=landed,
        cy=_LINE,
        r=10,
        fill="none",
        stroke="currentColor",
        stroke_width=2,
    )
    _dot(root, _LEFT + 7, _LINE + 52, "sb-weights", 7)
    draw.words(root, _LEFT + 20, _LINE + 56, "weight", class_="sb-small")
    _dot(root, _LEFT + 87, _LINE + 52, "sb-master_weights", 5)
    draw.words(root, _LEFT + 98, _LINE + 56, "exact sum", class_="sb-small")
    draw.add(
        root,
        "circle",
        cx=_LEFT + 186,
        cy=_LINE + 52,
        r=8,
        fill="none",
        stroke="currentColor",
        stroke_width=2,
    )
    draw.words(root, _LEFT + 200, _LINE + 56, "number it is rounded to", class_="sb-small")


def _window(case: Case) -> list[float]:
    """The numbers of the format around the weight and the sum, around the sum if these are many."""
    finite = (
        case.landed if math.isfinite(case.landed) else math.copysign(case.fmt.largest, case.landed)
    )
    if math.isnan(finite):
        finite = case.fmt.largest
    far = not math.isfinite(case.landed) or case.steps > _MOST - 2 * _MARGIN
    ends = (finite, finite) if far else tuple(sorted((case.start, finite)))
    numbers = [ends[0]]
    while numbers[-1] < ends[1]:
        numbers.append(neighbours(case.fmt, numbers[-1])[1])
    for _ in range(_MARGIN):
        below = neighbours(case.fmt, numbers[0])[0]
        above = neighbours(case.fmt, numbers[-1])[1]
        numbers = [n for n in (below, *numbers, above) if math.isfinite(n)]
    return numbers


def _repeats(root: Element, case: Case, master: bool, count: int) -> None:
    """The working weight after each of the updates."""
    exact = [case.start + case.update * number for number in range(count + 1)]
    series = [("sb-weights", case.alone), ("sb-master_weights", case.kept)][: 1 + master]
    values = [v for _, points in series for v in points if math.isfinite(v)] + exact
    low, high = min(values), max(values)
    draw.words(
        root,
        _LEFT,
        _PATH - 64,
        "The same update once" if count == 1 else f"The same update {count} times",
        class_="sb-strong",
    )
    labels = [
        ("sb-weights", f"{case.fmt} alone: {say(case.alone[-1], case.fmt)}"),
        ("sb-master_weights", f"rounded from an FP32 master: {say(case.kept[-1], case.fmt)}"),
    ][: 1 + master]
    x = _LEFT + 6.0
    for class_, label in labels:
        _square(root, x, _PATH - 44, class_)
        draw.words(root, x + 12, _PATH - 40, label, class_="sb-small")
        x += 46 + 6.9 * len(label)
    x = _LEFT + _WIDTH / 2
    draw.line(root, x, _PATH - 69, x + 22, _PATH - 69).set("stroke-dasharray", "4 3")
    draw.words(root, x + 30, _PATH - 64, f"exact: {say(exact[-1])}", class_="sb-small")

    def point(number: int, value: float) -> tuple[float, float]:
        return (
            _LEFT + 6 + number / count * (_WIDTH - 12),
            _PATH + _HIGH - 12 - (value - low) / (high - low) * (_HIGH - 24),
        )

    start, end = point(0, exact[0]), point(count, exact[-1])
    draw.line(root, *start, *end).set("stroke-dasharray", "4 3")
    for class_, points in series:
        for number, value in enumerate(points):
            if math.isfinite(value):
                _square(root, *point(number, value), class_)
    foot = _PATH + _HIGH
    draw.line(root, _LEFT, foot, _LEFT + _WIDTH, foot)
    draw.words(root, _LEFT, foot + 18, "0 updates", class_="sb-small")
    draw.words(root, _LEFT + _WIDTH, foot + 18, f"{count}", anchor="end", class_="sb-small")


def _dot(root: Element, x: float, y: float, class_: str, radius: float) -> None:
    fill = draw.CATEGORIES[class_.removeprefix("sb-")][1]
    draw.add(root, "circle", cx=x, cy=y, r=radius, class_=class_, fill=fill)


def _square(root: Element, x: float, y: float, class_: str) -> None:
    fill = draw.CATEGORIES[class_.removeprefix("sb-")][1]
    side = 8 if class_ == "sb-weights" else 5
    draw.add(
        root,
        "rect",
        x=x - side / 2,
        y=y - side / 2,
        width=side,
        height=side,
        class_=class_,
        fill=fill,
    )


def say(value: float, fmt: Format = FP32) -> str:
    """Write a number with as many digits as tell the neighbours in ``fmt`` apart."""
    if not math.isfinite(value):
        return "overflow"
    digits = 2 + math.ceil((fmt.mantissa_bits + 1) * math.log10(2)) if fmt.mantissa_bits < 23 else 9
    return f"{value:.{digits}g}".replace("-", "−")


def short(value: float) -> str:
    """Write a distance with three digits."""
    return f"{value:.3g}".replace("-", "−")
