"""Memory against ranks: a curve for each stage on log axes, cards as lines, where each stage fits."""

from dataclasses import dataclass
from math import ceil, floor, log2, log10
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.ledger_controls import card_memory, recipe_choice
from shardbook.explorers.view import Table, View
from shardbook.ledger.fits import floor_bytes, smallest_ranks
from shardbook.ledger.recipes import RECIPES
from shardbook.ledger.stages import bytes_per_rank
from shardbook.numbers.units import GB, format_bytes, format_count

_LEFT, _WIDTH, _TOP, _HEIGHT = 66, 464, 96, 280
_LABELS, _GAP = 20, 17
_DOUBLINGS = 12
_RANKS: Final = tuple(sorted({round(2 ** (step / 2)) for step in range(2 * _DOUBLINGS + 1)}))
#: the ranks that the axis and the table name
_NAMED: Final = tuple(4**power for power in range(_DOUBLINGS // 2 + 1))
_OTHER_CARDS: Final = (24 * GB, 80 * GB)
#: stage → stroke-dasharray
_DASHES: Final = ("1 0", "10 5", "10 4 2 4", "2 4")


@dataclass(frozen=True, slots=True)
class Curve:
    """The states of one stage: bytes (B) of the fullest rank for each of `_RANKS`."""

    stage: int
    bytes: dict[int, int]
    fits_from: int | None
    floor: int


@dataclass(frozen=True, slots=True)
class _Scale:
    """The decades of bytes that the figure shows."""

    low: int
    high: int

    def x(self, ranks: int) -> float:
        return _LEFT + _WIDTH * log2(ranks) / _DOUBLINGS

    def y(self, size: float) -> float:
        return _TOP + _HEIGHT * (self.high - log10(size)) / (self.high - self.low)


def _draw(parameters: int, recipe: str, card: int) -> View:
    curves = [
        Curve(
            stage,
            {n: bytes_per_rank(parameters, n, stage, recipe).fullest_rank_bytes for n in _RANKS},
            smallest_ranks(parameters, card, stage, recipe),
            floor_bytes(parameters, stage, recipe),
        )
        for stage in range(4)
    ]
    caption = (
        f"Bytes on the fullest rank, {format_count(parameters)} parameters, {RECIPES[recipe].title}"
    )
    return View(
        _figure(curves, card), _table(curves, card, caption), _sentence(curves, card, parameters)
    )


def _figure(curves: list[Curve], card: int) -> str:
    sizes = [size for curve in curves for size in curve.bytes.values()] + [card]
    scale = _Scale(floor(log10(min(sizes))), ceil(log10(max(sizes) * 1.2)))
    root = draw.canvas(_LEFT + _WIDTH + 116, _TOP + _HEIGHT + 52)
    _too_much(root, scale, card)
    _axes(root, scale)
    labels = _cards(root, scale, card)
    for curve in curves:
        _legend(root, curve)
        _curve(root, scale, curve)
        labels.append((scale.y(curve.bytes[_RANKS[-1]]), f"stage {curve.stage}", "sb-strong"))
    _spread(root, labels)
    return draw.text_of(root)


def _too_much(root: Element, scale: _Scale, card: int) -> None:
    """Shade what is above the chosen card."""
    height = scale.y(card) - _TOP
    draw.add(
        root,
        "rect",
        x=_LEFT,
        y=_TOP,
        width=_WIDTH,
        height=height,
        fill="currentColor",
        fill_opacity="0.1",
    )


def _axes(root: Element, scale: _Scale) -> None:
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    for decade in range(scale.low, scale.high + 1):
        y = scale.y(10**decade)
        draw.line(root, _LEFT, y, right, y, "sb-faint")
        draw.words(
            root, _LEFT - 8, y + 4, format_bytes(10**decade), anchor="end", class_="sb-small"
        )
    for ranks in _NAMED:
        x = scale.x(ranks)
        draw.line(root, x, bottom, x, bottom + 5)
        draw.words(root, x, bottom + 20, f"{ranks:,}", anchor="middle", class_="sb-small")
    draw.line(root, _LEFT, bottom, right, bottom)
    draw.words(
        root,
        _LEFT + _WIDTH / 2,
        bottom + 42,
        "ranks (shaded: more than the card has)",
        anchor="middle",
    )


def _cards(root: Element, scale: _Scale, card: int) -> list[tuple[float, str, str]]:
    """Draw the chosen card and two others for comparison; return their labels."""
    labels = []
    for size in (card, *(other for other in _OTHER_CARDS if other != card)):
        y = scale.y(size)
        if _TOP <= y <= _TOP + _HEIGHT:
            chosen = size == card
            draw.line(root, _LEFT, y, _LEFT + _WIDTH, y, "sb-limit" if chosen else "")
            name = f"card, {format_bytes(size)}" if chosen else format_bytes(size)
            labels.append((y, name, "" if chosen else "sb-small"))
    return labels


def _curve(root: Element, scale: _Scale, curve: Curve) -> None:
    points = " ".join(
        f"{draw.number(scale.x(ranks))},{draw.number(scale.y(size))}"
        for ranks, size in curve.bytes.items()
    )
    _stroke(root, curve.stage, points)
    ranks = curve.fits_from
    if ranks is not None and ranks <= _RANKS[-1]:
        x, bottom = scale.x(ranks), _TOP + _HEIGHT
        at = curve.bytes.get(ranks) or _between(curve, ranks)
        draw.line(root, x, scale.y(at), x, bottom, "sb-faint")
        draw.add(root, "circle", cx=x, cy=scale.y(at), r=6, fill="currentColor")


def _stroke(root: Element, stage: int, points: str) -> None:
    draw.add(
        root,
        "polyline",
        points=points,
        fill="none",
        stroke="currentColor",
        stroke_width=3,
        stroke_dasharray=_DASHES[stage],
    )


def _legend(root: Element, curve: Curve) -> None:
    """Say above the plot, where a narrow screen shows it, from how many ranks a stage fits."""
    y = 12 + 20 * curve.stage
    _stroke(root, curve.stage, f"{_LEFT},{y} {_LEFT + 52},{y}")
    draw.words(root, _LEFT + 62, y + 5, _said(curve), class_="sb-strong")


def _between(curve: Curve, ranks: int) -> float:
    """The curve's height at ``ranks`` as it is drawn: straight between its neighbours."""
    before = max(n for n in curve.bytes if n < ranks)
    after = min(n for n in curve.bytes if n > ranks)
    part = log2(ranks / before) / log2(after / before)
    return float(curve.bytes[before] ** (1 - part) * curve.bytes[after] ** part)


def _said(curve: Curve) -> str:
    if curve.fits_from is None:
        return f"stage {curve.stage}: never fits"
    unit = "rank" if curve.fits_from == 1 else "ranks"
    return f"stage {curve.stage}: fits from {curve.fits_from:,} {unit} on"


def _spread(root: Element, labels: list[tuple[float, str, str]]) -> None:
    """Write labels right of the plot, moved apart where they would overlap, tied to their lines."""
    right, lowest = _LEFT + _WIDTH, float(_TOP - _GAP)
    ordered = sorted(labels, key=lambda label: label[0])
    # What the labels above need must leave room for those below.
    room = [_TOP + _HEIGHT - _GAP * below for below in range(len(ordered) - 1, -1, -1)]
    for (y, text, class_), most in zip(ordered, room, strict=True):
        lowest = max(lowest + _GAP, min(y, most))
        draw.line(root, right + 2, y, right + _LABELS - 4, lowest, "sb-faint")
        draw.words(root, right + _LABELS, lowest + 5, text, class_=class_)


def _table(curves: list[Curve], card: int, caption: str) -> Table:
    rows = [
        (f"{ranks:,}", *(format_bytes(curve.bytes[ranks]) for curve in curves)) for ranks in _NAMED
    ]
    rows.append(("floor, however many ranks", *(format_bytes(curve.floor) for curve in curves)))
    fits = ("never" if c.fits_from is None else f"{c.fits_from:,}" for c in curves)
    rows.append((f"fewest ranks for {format_bytes(card)}", *fits))
    return Table(caption, ("ranks", *(f"stage {curve.stage}" for curve in curves)), tuple(rows))


def _sentence(curves: list[Curve], card: int, parameters: int) -> str:
    found = [c for c in curves if c.fits_from is not None]
    never = [c for c in curves if c.fits_from is None]
    states, cards = f"The states of {format_count(parameters)} parameters", format_bytes(card)
    if not found:
        return f"{states} fit {cards} cards at no stage, on any number of ranks up to a million."
    text = f"{states} fit {cards} cards " + ", ".join(
        f"at stage {c.stage} from {c.fits_from:,}" for c in found
    )
    text += " rank on" if found[-1].fits_from == 1 else " ranks on"
    if never:
        keeps = ", ".join(f"at stage {c.stage} ({format_bytes(c.floor)})" for c in never)
        text += f"; never {keeps}, where every rank keeps that much"
    return f"{text}."


EXPLORER = Explorer(
    "memory-against-ranks",
    "From how many ranks on does it fit?",
    (
        Number(
            "parameters",
            "Parameters",
            "13e9",
            (
                *("1e6", "1e7", "1e8", "340e6", "1.5e9", "3e9", "7e9", "8e9", "13e9", "30e9"),
                *("70e9", "175e9", "405e9", "1e12", "3e12", "1e13"),
            ),
            1e6,
            1e13,
        ),
        recipe_choice(),
        card_memory("80GB"),
    ),
    _draw,
)
