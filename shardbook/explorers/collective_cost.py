"""What an all-reduce costs: time against size, or against ranks, for five algorithms."""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, log10
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.collectives.bandwidth import algbw, busbw
from shardbook.collectives.closed_form import ALL_REDUCE, Cost, all_reduce_cost, equal_size
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.network_controls import bandwidth, latency
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes, format_seconds

_LEFT, _TOP, _WIDTH, _HEIGHT = 62, 34, 440, 300
_SIZES: Final = [10.0 ** (3 + step / 4) for step in range(31)]  # 1 kB to about 32 GB
_RANKS: Final = [2**power for power in range(1, 13)]
_DASHES: Final = {
    "ring": "",
    "halving-doubling": "9 4",
    "tree": "2 4",
    "naive": "14 4 2 4",
    "direct": "5 5",
}


@dataclass(frozen=True, slots=True)
class _Case:
    """One all-reduce of ``size`` B on links of ``latency`` s and ``bandwidth`` B/s."""

    ranks: int
    size: int
    latency: float
    bandwidth: float

    @property
    def costs(self) -> dict[str, Cost]:
        """Algorithm → rounds and bytes."""
        return {name: all_reduce_cost(name, self.ranks) for name in ALL_REDUCE}

    @property
    def times(self) -> dict[str, float]:
        """Algorithm → time in s."""
        return {
            name: cost.seconds(self.size, self.latency, self.bandwidth)
            for name, cost in self.costs.items()
        }


def _draw(across: str, ranks: int, size: int, latency: float, bandwidth: float) -> View:
    case = _Case(ranks, size, latency, bandwidth)
    if across == "size":
        places, here = _SIZES, float(size)
        curves = {
            name: [cost.seconds(place, latency, bandwidth) for place in places]
            for name, cost in case.costs.items()
        }
    else:
        places, here = [float(count) for count in _RANKS], float(ranks)
        curves = {
            name: [all_reduce_cost(name, n).seconds(size, latency, bandwidth) for n in _RANKS]
            for name in ALL_REDUCE
        }
    figure = _figure(across, places, curves, here, case.times)
    return View(figure, _table(case), _sentence(case))


def _figure(
    across: str,
    places: list[float],
    curves: dict[str, list[float]],
    here: float,
    times: dict[str, float],
) -> str:
    root = draw.canvas(648, _TOP + _HEIGHT + 52)
    every = [time for curve in curves.values() for time in curve]
    low, high = (_power(time) for time in (min(every), max(every)))
    left, right = log10(places[0]), log10(places[-1])

    def x(place: float) -> float:
        inside = min(max(log10(place), left), right)
        return _LEFT + _WIDTH * (inside - left) / (right - left)

    def y(time: float) -> float:
        inside = min(max(log10(time), low), high + 1)
        return _TOP + _HEIGHT * (high + 1 - inside) / (high + 1 - low)

    title = "message size" if across == "size" else "ranks"
    draw.words(root, 0, 16, "time of one all-reduce", class_="sb-strong")
    draw.words(root, _LEFT + _WIDTH / 2, _TOP + _HEIGHT + 42, title, anchor="middle")
    _axes(root, across, places, x, y, low, high)
    for name, curve in curves.items():
        points = " ".join(
            f"{draw.number(x(place))},{draw.number(y(time))}"
            for place, time in zip(places, curve, strict=True)
        )
        draw.add(
            root,
            "polyline",
            points=points,
            fill="none",
            stroke="currentColor",
            stroke_width=3.5 if name == "ring" else 1.8,
            stroke_dasharray=_DASHES[name] or "none",
        )
    draw.line(root, x(here), _TOP, x(here), _TOP + _HEIGHT, "sb-limit")
    for time in times.values():
        draw.add(root, "circle", cx=x(here), cy=y(time), r=4, fill="currentColor")
    _names(root, {name: y(curve[-1]) for name, curve in curves.items()})
    return draw.text_of(root)


def _axes(
    root: Element,
    across: str,
    places: list[float],
    x: Callable[[float], float],
    y: Callable[[float], float],
    low: int,
    high: int,
) -> None:
    for power in range(low, high + 2):
        level = y(10.0**power)
        draw.line(root, _LEFT, level, _LEFT + _WIDTH, level, "sb-faint")
        label = format_seconds(10.0**power) if power < 5 else f"1e{power} s"
        draw.words(root, _LEFT - 6, level + 4, label, anchor="end", class_="sb-small")
    ticks = places[::4] if across == "size" else places
    for place in ticks:
        draw.line(root, x(place), _TOP, x(place), _TOP + _HEIGHT, "sb-faint")
        label = format_bytes(place, 3) if across == "size" else f"{place:.0f}"
        bottom = _TOP + _HEIGHT + 18
        draw.words(root, x(place), bottom, label, anchor="middle", class_="sb-small")


def _names(root: Element, ends: dict[str, float]) -> None:
    """Name each curve at its right end, pushed apart where they end together."""
    last = 0.0
    ordered = sorted(ends.items(), key=lambda item: item[1])
    room = _TOP + _HEIGHT - 16 * (len(ordered) - 1)
    for place, (name, level) in enumerate(ordered):
        last = max(last + 16, min(level + 4, room + 16 * place))
        strong = "sb-strong" if name == "ring" else ""
        draw.words(root, _LEFT + _WIDTH + 8, last, name.replace("-", "–"), class_=strong)


def _power(time: float) -> int:
    return floor(log10(time) + 1e-9)


def _table(case: _Case) -> Table:
    rows = []
    times = case.times
    ring = case.costs["ring"]
    for name, cost in case.costs.items():
        time = times[name]
        rates = algbw(case.size, time), busbw("all-reduce", case.ranks, case.size, time)
        beaten = equal_size(ring, cost, case.latency, case.bandwidth)
        rows.append(
            (
                name,
                f"{cost.rounds:,}",
                f"{float(cost.volume):.4g}",
                format_seconds(time),
                *(f"{format_bytes(rate or 0, 3)}/s" for rate in rates),
                "–" if beaten is None else format_bytes(beaten, 3),
            )
        )
    return Table(
        f"All-reduce of {format_bytes(case.size)} among {case.ranks:,} ranks",
        (
            "algorithm",
            "rounds",
            "busiest port, times the data",
            "time",
            "algbw",
            "busbw",
            "the ring is faster from",
        ),
        tuple(rows),
    )


def _sentence(case: _Case) -> str:
    times = case.times
    ring = times["ring"]
    waiting = case.costs["ring"].rounds * case.latency / ring
    rate = busbw("all-reduce", case.ranks, case.size, ring) or 0.0
    fastest = min(times.values())
    winners = [name for name, time in times.items() if time <= fastest * (1 + 1e-9)]
    names = " and ".join(winners)
    verb = "is" if len(winners) == 1 else "are"
    return (
        f"{format_bytes(case.size)} among {case.ranks:,} ranks: the ring needs {format_seconds(ring)}, "
        f"{waiting:.0%} of it latency; its busbw is {format_bytes(rate, 3)}/s of the port's "
        f"{format_bytes(case.bandwidth, 3)}/s; fastest {verb} {names} with {format_seconds(fastest)}."
    )


EXPLORER = Explorer(
    "collective-cost",
    "Latency or bandwidth",
    (
        Choice(
            "across",
            "Horizontal axis",
            "size",
            (("size", "message size"), ("ranks", "ranks (powers of two)")),
        ),
        Number(
            "size",
            "Message size",
            "64MB",
            (
                "1kB",
                "10kB",
                "100kB",
                "1MB",
                "4MB",
                "16MB",
                "64MB",
                "256MB",
                "1GiB",
                "4GB",
                "16GB",
            ),
            1,
            1e12,
            kind="bytes",
        ),
        Number("ranks", "Ranks", "8", doublings(12)[1:], 2, 4096),
        latency(),
        bandwidth(),
    ),
    _draw,
)
