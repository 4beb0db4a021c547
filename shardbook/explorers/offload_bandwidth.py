"""How much bandwidth keeps a device busy when what it needs lies in a slower tier."""

from dataclasses import dataclass
from math import log10
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes, format_count
from shardbook.planner.bandwidth import efficiency, intensity, required_bandwidth

_LEFT, _TOP, _WIDTH, _HEIGHT = 50, 40, 410, 260
#: what is drawn: 10 MB/s to 10 TB/s
_FIRST, _LAST = 7, 13
_POINTS: Final = [10 ** (_FIRST + step / 5) for step in range((_LAST - _FIRST) * 5 + 1)]
#: kind of what is fetched → (label, dashes)
_KINDS: Final = {
    "weights-and-gradients": ("weights and gradients", ""),
    "optimizer-states": ("optimizer states", "9 4"),
    "activation-checkpoints": ("checkpoints", "2 4"),
}
_WANTED: Final = (0.5, 0.9)


@dataclass(frozen=True, slots=True)
class _Case:
    """Intensities in FLOP/B by kind, beside a device of ``peak`` FLOP/s at ``bandwidth`` B/s."""

    intensities: dict[str, float]
    bandwidth: float
    peak: float

    def efficiency(self, kind: str, bandwidth: float) -> float:
        return efficiency(self.intensities[kind], bandwidth, self.peak)

    def needed(self, kind: str, wanted: float) -> float:
        return required_bandwidth(self.intensities[kind], wanted, self.peak)


def _draw(
    what: str,
    sequence: int,
    batch: int,
    hidden: int,
    interval: int,
    peak: float,
    bandwidth: float,
) -> View:
    shape = {"sequence": sequence, "batch": batch, "hidden": hidden, "interval": interval}
    case = _Case({kind: intensity(kind, **shape) for kind in _KINDS}, bandwidth, peak * 1e12)
    return View(_figure(what, case), _table(case), _sentence(what, case))


def _x(bandwidth: float) -> float:
    inside = min(max(log10(bandwidth), _FIRST), _LAST)
    return _LEFT + _WIDTH * (inside - _FIRST) / (_LAST - _FIRST)


def _y(part: float) -> float:
    return _TOP + _HEIGHT * (1 - part)


def _figure(what: str, case: _Case) -> str:
    root = draw.canvas(648, _TOP + _HEIGHT + 50)
    draw.words(root, 0, 16, "part of the time that the device computes", class_="sb-strong")
    _axes(root)
    ends = {}
    for kind, (_, dashes) in _KINDS.items():
        points = [(_x(place), _y(case.efficiency(kind, place))) for place in _POINTS]
        draw.add(
            root,
            "polyline",
            points=" ".join(f"{draw.number(x)},{draw.number(y)}" for x, y in points),
            fill="none",
            stroke="currentColor",
            stroke_width=3.5 if kind == what else 1.8,
            stroke_dasharray=dashes or "none",
        )
        ends[kind] = points[-1][1]
    _names(root, ends, what)
    x = _x(case.bandwidth)
    draw.line(root, x, _TOP, x, _TOP + _HEIGHT, "sb-limit")
    here = case.efficiency(what, case.bandwidth)
    draw.add(root, "circle", cx=x, cy=_y(here), r=6, fill="currentColor")
    # Left of a rising curve there is room above it; at the left edge there is not.
    right = x < _LEFT + 70
    side, anchor = (14, "start") if right else (-14, "end")
    draw.words(root, x + side, _y(here) - 10, f"{here:.1%}", anchor=anchor, class_="sb-strong")
    return draw.text_of(root)


def _axes(root: Element) -> None:
    for part in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0):
        draw.line(root, _LEFT, _y(part), _LEFT + _WIDTH, _y(part), "sb-faint")
        draw.words(root, _LEFT - 8, _y(part) + 4, f"{part:.0%}", anchor="end", class_="sb-small")
    foot = _TOP + _HEIGHT
    for power in range(_FIRST, _LAST + 1):
        x = _x(10**power)
        draw.line(root, x, _TOP, x, foot, "sb-faint")
        label = f"{format_bytes(10**power)}/s"
        draw.words(root, x, foot + 18, label, anchor="middle", class_="sb-small")
    draw.words(root, _LEFT + _WIDTH / 2, foot + 42, "bandwidth of a device", anchor="middle")


def _names(root: Element, ends: dict[str, float], what: str) -> None:
    """Name each curve at the right, in the order of their ends, with its dashes."""
    last = _TOP + 0.0
    for kind in sorted(ends, key=ends.__getitem__):
        label, dashes = _KINDS[kind]
        last = max(last + 22, min(ends[kind], _TOP + _HEIGHT - 60))
        x, strong = _LEFT + _WIDTH + 8, kind == what
        sample = draw.line(root, x, last, x + 20, last)
        sample.set("stroke-width", "3.5" if strong else "1.8")
        sample.set("stroke-dasharray", dashes or "none")
        weight = "sb-small sb-strong" if strong else "sb-small"
        draw.words(root, x + 24, last + 4, label, class_=weight)


def _rate(bandwidth: float) -> str:
    return f"{format_bytes(bandwidth, 3)}/s"


def _table(case: _Case) -> Table:
    return Table(
        f"A device of {format_count(case.peak / 1e12)} TFLOP/s that fetches what it needs once",
        (
            "what lies in the slower tier",
            "FLOP a byte",
            f"busy at {_rate(case.bandwidth)}",
            *(f"busy {wanted:.0%} needs" for wanted in _WANTED),
        ),
        tuple(
            (
                label,
                format_count(case.intensities[kind]),
                f"{case.efficiency(kind, case.bandwidth):.1%}",
                *(_rate(case.needed(kind, wanted)) for wanted in _WANTED),
            )
            for kind, (label, _) in _KINDS.items()
        ),
    )


def _sentence(what: str, case: _Case) -> str:
    half, most = (_rate(case.needed(what, wanted)) for wanted in _WANTED)
    return (
        f"With {_KINDS[what][0]} in a tier of {_rate(case.bandwidth)}, a device of"
        f" {format_count(case.peak / 1e12)} TFLOP/s computes"
        f" {case.efficiency(what, case.bandwidth):.1%} of the time if nothing is overlapped;"
        f" {_WANTED[0]:.0%} needs {half} and {_WANTED[1]:.0%} nine times that, {most}."
    )


EXPLORER = Explorer(
    "offload-bandwidth",
    "How much bandwidth hides how much?",
    (
        Choice(
            "what", "What lies in the slower tier", "weights-and-gradients",
            tuple((kind, label) for kind, (label, _) in _KINDS.items()),
        ),
        Number("sequence", "Tokens of a sequence", "1024", doublings(17)[7:], 1, 10**7),
        Number("batch", "Sequences a device", "1", doublings(6), 1, 10**5),
        Number("hidden", "Width of the transformer", "2048", doublings(16)[9:], 1, 10**6),
        Number("interval", "Layers between two checkpoints", "1", ("1", "2", "4", "8"), 1, 1000),
        Number(
            "peak", "What the device reaches when it does not wait", "70",
            ("20", "40", "70", "100", "150", "300", "500", "1000"), 0.1, 1e5,
            integer=False, unit="TFLOP/s",
        ),
        Number(
            "bandwidth", "Bandwidth of a device to that tier", "70GB/s",
            ("1GB/s", "2GB/s", "3GB/s", "6GB/s", "12GB/s", "25GB/s", "50GB/s", "70GB/s", "150GB/s",
             "308GB/s", "600GB/s", "1.5TB/s", "3TB/s"),
            10**_FIRST, 10**_LAST, integer=False, kind="rate", unit="B/s",
        ),
    ),
    _draw,
)  # fmt: skip
