"""ZeRO-Offload's step: what the GPU, the CPU and the link between them do, and who waits for whom."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number, Switch, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_count, format_seconds
from shardbook.schedules.core import Plan, simulate
from shardbook.schedules.offload import CPU, DOWN, GPU, UP, OffloadStep, offload_plan

_LEFT, _WIDTH, _BAR, _ROW, _TOP = 96, 540, 34, 50, 66
#: FLOP a parameter and token: forward, and backward with the forward run again for it
_FORWARD, _BACKWARD, _USEFUL = 2, 6, 6
#: kind of action → (row, label, category of what is copied, how dark)
_KINDS: Final = {
    "F": (GPU, "forward", "", "0.1"),
    "B": (GPU, "backward", "", "0.3"),
    "D": (DOWN, "gradients leave", "gradients", ""),
    "Adam": (CPU, "Adam", "", "0.2"),
    "U": (UP, "weights return", "weights", ""),
}
_ROWS: Final = {GPU: "GPU", DOWN: "GPU to CPU", CPU: "CPU", UP: "CPU to GPU"}
#: below this width a block has no number
_DIGIT: Final = 14
#: pieces below this width that touch are drawn as one
_NARROW: Final = 2.0
#: steps that are simulated: the last ones are steady, also with delayed updates
_STEPS: Final = 6


@dataclass(frozen=True, slots=True)
class _Way:
    """The three ways to hide time: gradients under the backward, weights under Adam, Adam itself."""

    download: bool
    upload: bool
    delayed: bool


_PLAIN: Final = _Way(download=False, upload=False, delayed=False)


@dataclass(frozen=True, slots=True)
class _Steady:
    """A run read off in its steady state.

    ``spans``: (step, kind) → its pieces' starts and ends; ``begins``: of the last three steps, in s.
    """

    spans: dict[tuple[int, str], list[tuple[float, float]]]
    begins: tuple[float, float, float]

    @property
    def seconds(self) -> float:
        """A step, from its first forward to the next one's."""
        return self.begins[2] - self.begins[1]


@lru_cache(maxsize=32)
def _plan(way: _Way, pieces: int) -> tuple[Plan, tuple[tuple[int, str], ...]]:
    """The plan of a way, compiled once for all times, and each action's step and kind."""
    step = OffloadStep(1, 1, 1, 1, 1, _layers(way, pieces), pieces, way.upload)
    plan = offload_plan(step, _STEPS, delayed_from=0 if way.delayed else None)
    named = [action.name.partition(":") for action in plan.actions]
    return plan, tuple((int(step[1:]), kind.rstrip("0123456789")) for step, _, kind in named)


def _layers(way: _Way, pieces: int) -> int:
    return pieces if way.download else 1


def _steady(way: _Way, pieces: int, times: dict[str, float]) -> _Steady:
    """Run a way; ``times``: kind → its time in a step, s."""
    plan, kinds = _plan(way, pieces)
    cut = {kind: pieces if kind in ("Adam", "U") else _layers(way, pieces) for kind in times}
    each = {kind: time / cut[kind] for kind, time in times.items()}
    run = simulate(plan, [each[kind] for _, kind in kinds])
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for key, start, end in zip(kinds, run.starts, run.ends, strict=True):
        spans.setdefault(key, []).append((start, end))
    one, two, three = (spans[step, "F"][0][0] for step in range(_STEPS - 3, _STEPS))
    return _Steady(spans, (one, two, three))


def _draw(
    download: bool,
    upload: bool,
    delayed: bool,
    parameters: int,
    tokens: int,
    compute: float,
    bandwidth: float,
    adam: float,
    pieces: int,
) -> View:
    work = parameters * tokens / (compute * 1e12)
    copy = 2 * parameters / bandwidth
    times = {
        "F": _FORWARD * work,
        "B": _BACKWARD * work,
        "D": copy,
        "Adam": adam * parameters / 1e9,
        "U": copy,
    }
    way = _Way(download, upload, delayed)
    shown = _steady(way, pieces, times)
    plain = _steady(_PLAIN, pieces, times)
    useful = _USEFUL * parameters * tokens / shown.seconds / 1e12
    return View(
        _figure(shown),
        _table(shown, times, parameters, tokens),
        _sentence(shown, plain, times, useful, way),
    )


def _figure(shown: _Steady) -> str:
    foot = _TOP + len(_ROWS) * _ROW
    root = draw.canvas(648, foot + 24)
    _legend(root)
    tops = {stream: _TOP + at * _ROW for at, stream in enumerate(_ROWS)}
    for stream, label in _ROWS.items():
        y = tops[stream] + _BAR
        draw.words(root, _LEFT - 8, y - 12, label, anchor="end")
        draw.line(root, _LEFT, y, _LEFT + _WIDTH, y, "sb-faint")
    first, _, last = shown.begins
    scale = _WIDTH / (last - first)
    for (step, kind), pieces in shown.spans.items():
        inside = [
            (_LEFT + (max(start, first) - first) * scale, _LEFT + (min(end, last) - first) * scale)
            for start, end in pieces
            if end > first and start < last and end > start
        ]
        if inside:
            _blocks(root, kind, inside, tops[_KINDS[kind][0]])
            left, right = inside[0][0], inside[-1][1]
            if right - left > _DIGIT:
                y, label = tops[_KINDS[kind][0]] + 22, str(step - (_STEPS - 4))
                draw.words(root, (left + right) / 2, y, label, anchor="middle", class_="sb-strong")
    for at, begin in enumerate(shown.begins):
        x = _LEFT + (begin - first) * scale
        draw.line(root, x, _TOP - 8, x, foot - 4, "sb-limit")
        label = format_seconds(begin - first, 4) if at else "0"
        anchor = ("start", "middle", "end")[at]
        draw.words(root, x, foot + 14, label, anchor=anchor, class_="sb-small")
    return draw.text_of(root)


def _blocks(root: Element, kind: str, places: list[tuple[float, float]], y: float) -> None:
    """Draw the pieces of one step and kind, as one path; many thin ones with thin edges."""
    path = ""
    edge = 1.0 if places[-1][1] - places[0][0] > 8 * len(places) else 0.3
    for left, right in _joined(places):
        wide = draw.number(right - left)
        path += f"M{draw.number(left)} {draw.number(y)}h{wide}v{_BAR}h-{wide}z"
    _shape(root, kind, path, edge)


def _joined(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Pieces as they are, but those as one that are narrow and touch: edges would hide them."""
    joined: list[tuple[float, float]] = []
    for left, right in places:
        if joined and right - left < _NARROW and left - joined[-1][1] < _NARROW / 4:
            left = joined.pop()[0]
        joined.append((left, right))
    return joined


def _shape(root: Element, kind: str, path: str, edge: float = 1.0) -> None:
    _, _, category, dark = _KINDS[kind]
    if category:
        fill = draw.CATEGORIES[category][1]
        draw.add(
            root, "path", d=path, class_=f"sb-{category} sb-temporary", fill=fill,
            fill_opacity="0.25", stroke=fill, stroke_width=edge,
        )  # fmt: skip
    else:
        draw.add(
            root, "path", d=path, fill="currentColor", fill_opacity=dark, stroke="currentColor",
            stroke_width=edge,
        )  # fmt: skip


def _legend(root: Element) -> None:
    draw.words(
        root,
        0,
        16,
        "Two steps in the steady state; a number is the step it belongs to",
        class_="sb-strong",
    )
    x = 0.0
    for kind, (_, label, _, _) in _KINDS.items():
        _shape(root, kind, f"M{draw.number(x)} 30h16v14h-16z")
        draw.words(root, x + 22, 42, label, class_="sb-small")
        x += 40 + 6.6 * len(label)


def _table(shown: _Steady, times: dict[str, float], parameters: int, tokens: int) -> Table:
    _, begin, end = shown.begins
    rows = []
    for kind, (stream, label, _, _) in _KINDS.items():
        pieces = shown.spans[_STEPS - 2, kind]
        when = [_said(time - begin) for time in (pieces[0][0], pieces[-1][1])]
        rows.append((label, _ROWS[stream], format_seconds(times[kind], 4), *when))
    rows.append(("next step", "GPU", "", format_seconds(end - begin, 4), ""))
    return Table(
        f"{format_count(parameters)} parameters and {tokens:,} token{'s' * (tokens > 1)} a GPU;"
        " times from a step's begin",
        ("what", "where", "takes", "starts at", "is done at"),
        tuple(rows),
    )


def _said(seconds: float) -> str:
    return format_seconds(seconds, 4) if seconds > 1e-9 else "0 s"


def _sentence(
    shown: _Steady, plain: _Steady, times: dict[str, float], useful: float, way: _Way
) -> str:
    compute = times["F"] + times["B"]
    idle = max(0.0, shown.seconds - compute)
    waits = f"waits {format_seconds(idle, 4)}" if idle > 1e-6 * compute else "never waits"
    start = (
        f"A step takes {format_seconds(shown.seconds, 4)}: the GPU computes"
        f" {format_seconds(compute, 4)} and {waits}, which makes {useful:,.3g} useful TFLOP/s"
    )
    if way == _PLAIN:
        return f"{start}; nothing is hidden."
    faster = plain.seconds / shown.seconds
    gain = f"{faster:.3g} times as fast as" if faster > 1.0005 else "no faster than"
    late = ", and computes with weights that are one update behind" if way.delayed else ""
    return f"{start}; that is {gain} with nothing hidden{late}."


EXPLORER = Explorer(
    "offload-timeline",
    "A step with the optimizer on the CPU",
    (
        Switch("download", "Gradients leave layer by layer during the backward", "on"),
        Switch("upload", "Weights return chunk by chunk during the update", "on"),
        Switch("delayed", "The update runs beside the next step (one step late)", "off"),
        Number("parameters", "Parameters a GPU", "10B",
               ("1B", "2B", "4B", "6B", "8B", "10B", "13B", "20B"), 1e6, 1e12),
        Number("tokens", "Tokens a step and GPU", "8192", doublings(16)[8:], 1, 10**8),
        Number(
            "compute", "What the GPU reaches", "62.5",
            ("30", "40", "62.5", "100", "150", "300", "500"), 0.1, 1e5,
            integer=False, unit="TFLOP/s",
        ),
        Number(
            "bandwidth", "Link between GPU and CPU, each way", "12GB/s",
            ("3GB/s", "6GB/s", "12GB/s", "25GB/s", "50GB/s", "100GB/s", "450GB/s"),
            1e6, 1e13, integer=False, kind="rate", unit="B/s",
        ),
        Number(
            "adam", "Adam's time for a billion parameters", "257ms",
            ("50ms", "100ms", "257ms", "500ms", "1s", "1.476s", "3s"),
            1e-6, 1000, integer=False, kind="seconds", unit="s",
        ),
        Number("pieces", "Layers, and chunks of an update", "32",
               ("1", "2", "4", "8", "16", "32", "64"), 1, 64),
    ),
    _draw,
)  # fmt: skip
