"""How large a unit: the peak of gathered parameters against the number and time of gathers."""

from collections import Counter
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes, format_count, format_seconds
from shardbook.schedules.units import (
    Granularity,
    all_gather_seconds,
    granularity,
    transformer_units,
)

_LEFT, _MIDDLE, _BAR, _ROW, _TOP = 112, 400, 180, 46, 74
#: B an element, as gathered
_WIDTH: Final = 2


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to cut the model: its memory, and the time (s) of a step's all-gathers.

    ``bare``: their time on a network without latency.
    """

    name: str
    cost: Granularity
    gathers: int
    seconds: float
    bare: float


def _ways(
    units: dict[str, tuple[int, ...]], ranks: int, latency: float, bandwidth: float, even: bool
) -> list[_Way]:
    ways = []
    for name, sizes in units.items():
        cost = granularity(sizes, ranks, bytes_per_element=_WIDTH, keep_last=False)
        padded = Counter(-(-size // ranks) * ranks * _WIDTH for size in sizes)
        seconds, bare = (
            2
            * sum(
                count * all_gather_seconds(size, ranks, alpha, bandwidth, even=even)
                for size, count in padded.items()
            )
            for alpha in (latency, 0.0)
        )
        ways.append(_Way(name, cost, 2 * len(sizes), seconds, bare))
    return ways


def _draw(
    cut: str,
    width: int,
    layers: int,
    ranks: int,
    latency: float,
    bandwidth: float,
    parts: str,
) -> View:
    units = transformer_units(width, layers, _VOCABULARY)
    ways = _ways(units, ranks, latency, bandwidth, parts == "even")
    chosen = next(way for way in ways if way.name == cut)
    parameters = sum(units[cut])
    return View(
        _figure(ways, chosen),
        _table(ways, parameters, ranks, parts),
        _sentence(ways[0], chosen, parameters, ranks),
    )


def _figure(ways: list[_Way], chosen: _Way) -> str:
    root = draw.canvas(648, _TOP + len(ways) * _ROW + 4)
    draw.words(root, _LEFT, 16, "parameters at the peak", class_="sb-strong")
    draw.words(root, _MIDDLE, 16, "all-gathers of a step", class_="sb-strong")
    _key(root)
    most = max(way.cost.peak_bytes for way in ways)
    longest = max(way.seconds for way in ways)
    for place, way in enumerate(ways):
        y = _TOP + place * _ROW
        weight = "sb-strong" if way is chosen else ""
        draw.words(root, _LEFT - 10, y + 19, way.name, anchor="end", class_=weight)
        _bytes(root, way, y, _BAR / most, weight)
        _seconds(root, way, y, _BAR * 0.5 / longest, weight)
    return draw.text_of(root)


def _key(root: Element) -> None:
    draw.block(root, EXPLORER.id, "weights", _LEFT, 30, 14, 14)
    draw.words(root, _LEFT + 20, 42, "own shard", class_="sb-small")
    x = _LEFT + 94
    draw.block(root, EXPLORER.id, "gathered_parameters", x, 30, 14, 14, texture="temporary")
    draw.words(root, x + 20, 42, "largest gathered unit", class_="sb-small")
    draw.block(root, EXPLORER.id, "buffers", _MIDDLE, 30, 14, 14)
    draw.words(root, _MIDDLE + 20, 42, "moving bytes", class_="sb-small")
    draw.block(root, EXPLORER.id, "buffers", _MIDDLE + 116, 30, 14, 14, texture="temporary")
    draw.words(root, _MIDDLE + 136, 42, "latency", class_="sb-small")


def _bytes(root: Element, way: _Way, y: float, scale: float, weight: str) -> None:
    shard, gathered = way.cost.shard_bytes * scale, way.cost.gathered_bytes * scale
    draw.block(root, EXPLORER.id, "weights", _LEFT, y, shard, 26)
    draw.block(
        root,
        EXPLORER.id,
        "gathered_parameters",
        _LEFT + shard,
        y,
        gathered,
        26,
        texture="temporary",
    )
    label = format_bytes(way.cost.peak_bytes, 3)
    end = _LEFT + shard + gathered
    draw.words(root, end + 8, y + 19, label, class_=weight)


def _seconds(root: Element, way: _Way, y: float, scale: float, weight: str) -> None:
    bare, waiting = way.bare * scale, (way.seconds - way.bare) * scale
    draw.block(root, EXPLORER.id, "buffers", _MIDDLE, y, bare, 26)
    draw.block(root, EXPLORER.id, "buffers", _MIDDLE + bare, y, waiting, 26, texture="temporary")
    label = f"{way.gathers:,} in {format_seconds(way.seconds)}"
    x = min(_MIDDLE + bare + waiting + 8, 644 - 8.5 * len(label))  # years still end on the canvas
    draw.words(root, x, y + 19, label, class_=weight)


def _table(ways: list[_Way], parameters: int, ranks: int, parts: str) -> Table:
    rows = tuple(
        (
            way.name,
            f"{way.cost.units:,}",
            format_bytes(way.cost.shard_bytes, 3),
            format_bytes(way.cost.gathered_bytes, 3),
            format_bytes(way.cost.peak_bytes, 3),
            f"{way.cost.padding:,}",
            f"{way.cost.collectives:,}",
            f"{way.gathers:,}",
            format_seconds(way.seconds),
            f"{1 - way.bare / way.seconds:.1%}",
        )
        for way in ways
    )
    return Table(
        f"{format_count(parameters)} parameters in 16 bits on {ranks:,} ranks, {parts} parts",
        (
            "unit",
            "units",
            "own shard",
            "largest unit",
            "peak",
            "padding, elements",
            "collectives",
            "all-gathers among them",
            "their time",
            "of it latency",
        ),
        rows,
    )


def _sentence(whole: _Way, chosen: _Way, parameters: int, ranks: int) -> str:
    peak = format_bytes(chosen.cost.peak_bytes, 3)
    told = (
        f"{format_count(parameters)} parameters on {ranks:,} ranks: with {_AS[chosen.name]} as a unit"
        f" {peak} of parameters are there at the peak"
    )
    if chosen is not whole:
        less = whole.cost.peak_bytes / chosen.cost.peak_bytes
        told += f", {less:.3g} times less than with a single unit"
    return (
        f"{told}; the step's {chosen.gathers} all-gathers take {format_seconds(chosen.seconds)}, "
        f"{1 - chosen.bare / chosen.seconds:.0%} of it latency."
    )


_VOCABULARY: Final = 32_000
_AS: Final = {
    "whole model": "the whole model",
    "blocks": "a block",
    "half blocks": "half a block",
    "linears": "each linear layer",
}

EXPLORER = Explorer(
    "unit-size",
    "How large a unit?",
    (
        Choice("cut", "One unit is", "blocks", tuple(_AS.items())),
        Number(
            "width",
            "Width of the transformer",
            "5120",
            ("512", "1024", "2048", "4096", "5120", "8192", "12288"),
            64,
            65_536,
        ),
        Number("layers", "Layers", "40", ("4", "8", "16", "24", "40", "80", "96"), 1, 200),
        Number("ranks", "Ranks", "64", (*doublings(10)[1:],), 2, 4096),
        Number(
            "latency",
            "Latency of a round",
            "10us",
            ("1us", "5us", "10us", "20us", "50us", "100us"),
            1e-7,
            1,
            integer=False,
            kind="seconds",
            unit="s",
        ),
        Number(
            "bandwidth",
            "Bandwidth of a port, one way",
            "50GB/s",
            ("12.5GB/s", "25GB/s", "50GB/s", "100GB/s", "200GB/s", "450GB/s"),
            1e6,
            1e13,
            integer=False,
            kind="rate",
            unit="B/s",
        ),
        Choice(
            "parts",
            "The ranks' parts",
            "even",
            (("even", "equally long, one all-gather"), ("uneven", "unequal, one broadcast a rank")),
        ),
    ),
    _draw,
)
