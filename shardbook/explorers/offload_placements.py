"""Where each object of a training step lies: what crosses between GPU and CPU, and what stays."""

from collections import Counter
from functools import cache
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Switch
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.planner.placements import (
    EDGES,
    FORWARD_BACKWARD,
    ONE_WAY_EDGES,
    STATES,
    Placement,
    at_least_as_good,
    placement,
    placements,
)

#: node → category (None: a computation), in the order in which a step passes them
_NODES: Final = {
    "float2half": None,
    "p16": "weights",
    FORWARD_BACKWARD: None,
    "g16": "gradients",
    "update": None,
    "p32": "master_weights",
    "m32": "momentum",
    "v32": "variance",
}
_EDGES: Final = {"two-way": EDGES, "one-way": ONE_WAY_EDGES}
_EVERY: Final = {name: placements(edges) for name, edges in _EDGES.items()}
_LINKS: Final = {
    name: tuple(dict.fromkeys(tuple(sorted(edge[:2], key=list(_NODES).index)) for edge in edges))
    for name, edges in _EDGES.items()
}
_TOP, _ROW, _BOX, _HIGH = 54, 42, 128, 30
#: left sides of the boxes on the GPU and on the CPU
_GPU, _CPU = 84, 436
_FOOT: Final = _TOP + len(_NODES) * _ROW
#: the small grid of all placements
_LEFT, _WIDTH, _DEEP, _BASE = 84, 480, 150, _FOOT + 214


def _draw(
    p16: bool,
    g16: bool,
    p32: bool,
    m32: bool,
    v32: bool,
    update: bool,
    float2half: bool,
    edges: str,
) -> View:
    switches = {
        "p16": p16,
        "g16": g16,
        "p32": p32,
        "m32": m32,
        "v32": v32,
        "update": update,
        "float2half": float2half,
    }
    gpu = frozenset(name for name, on in switches.items() if on)
    chosen = placement(gpu, _EDGES[edges])
    return View(_figure(gpu, chosen, edges), _table(gpu, chosen, edges), _sentence(chosen, edges))


def _figure(gpu: frozenset[str], chosen: Placement, edges: str) -> str:
    root = draw.canvas(648, _BASE + 44)
    for title, x in (("GPU", _GPU), ("CPU", _CPU)):
        draw.words(root, x + _BOX / 2, 24, title, anchor="middle", class_="sb-strong")
    draw.line(root, 324, 34, 324, _FOOT, "sb-limit")
    here = gpu | {FORWARD_BACKWARD}
    crossing = [link for link in _LINKS[edges] if (link[0] in here) != (link[1] in here)]
    for one, other in _LINKS[edges]:
        if (one, other) not in crossing:
            _arc(root, one, other, on_gpu=one in here)
    _cut(root, [(one, other) if one in here else (other, one) for one, other in crossing], edges)
    for node in _NODES:
        _box(root, node, here)
    _grid(root, chosen, edges)
    return draw.text_of(root)


def _middle(node: str) -> float:
    return _TOP + list(_NODES).index(node) * _ROW + _HIGH / 2


def _box(root: Element, node: str, here: frozenset[str]) -> None:
    x, y, category = _GPU if node in here else _CPU, _middle(node) - _HIGH / 2, _NODES[node]
    round_ = 0 if category else 14
    draw.add(
        root, "rect", x=x, y=y, width=_BOX, height=_HIGH, rx=round_, fill="none",
        stroke="currentColor", stroke_width=1.5,
    )  # fmt: skip
    if category:
        draw.block(root, EXPLORER.id, category, x + 8, y + 8, 14, 14)
        draw.words(root, x + 30, y + 20, f"{node}, {STATES[node]} B")
    else:
        middle = x + _BOX / 2
        draw.words(root, middle, y + 20, node, anchor="middle", class_="sb-small")


def _said(one: str, other: str, edges: str) -> str:
    """A link's bytes, and which way they go from ``one`` on the left: ``↔ 4 + 4 B``."""
    there = [size for *pair, size in _EDGES[edges] if pair == [one, other]]
    back = [size for *pair, size in _EDGES[edges] if pair == [other, one]]
    arrow = "↔" if there and back else "→" if there else "←"
    return f"{arrow} {' + '.join(map(str, there + back))} B"


def _arc(root: Element, one: str, other: str, *, on_gpu: bool) -> None:
    """A link that stays on its side: a thin arc on the outside, over the boxes between."""
    x, out = (_GPU, -1) if on_gpu else (_CPU + _BOX, 1)
    low, high = _middle(one), _middle(other)
    bend = x + out * min(22 + 0.3 * (high - low), 80)
    a, b = draw.number(low), draw.number(high)
    edge, out_ = draw.number(x), draw.number(bend)
    draw.add(
        root, "path", d=f"M{edge} {a}C{out_} {a} {out_} {b} {edge} {b}", fill="none", stroke="currentColor",
        stroke_opacity="0.45", stroke_width=1.2,
    )  # fmt: skip


def _cut(root: Element, links: list[tuple[str, str]], edges: str) -> None:
    """Links that cross, each a pair (on the GPU, on the CPU): thick lines, then their bytes."""
    x, end = _GPU + _BOX, _CPU
    for left, right in links:
        draw.line(root, x, _middle(left), end, _middle(right)).set("stroke-width", "2.5")
    placed: list[tuple[float, float]] = []
    for left, right in links:
        y, foot = _middle(left), _middle(right)
        places = [(x + (end - x) * part, y + (foot - y) * part) for part in _PARTS]
        at = max(places, key=lambda place: min((_apart(place, put) for put in placed), default=0))
        placed.append(at)
        text = _said(left, right, edges)
        wide = 7.4 * len(text) + 6
        draw.add(
            root, "rect", x=at[0] - wide / 2, y=at[1] - 9, width=wide, height=18, rx=4,
            class_="sb-paper", fill="#ffffff", stroke="currentColor",
        )  # fmt: skip
        draw.words(root, *at, text, anchor="middle", class_="sb-small").set("dy", "4")


#: where along a line its label may stand
_PARTS: Final = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)


def _apart(one: tuple[float, float], other: tuple[float, float]) -> float:
    """How far two labels are from touching: beside each other, or one above the other."""
    return min(max(abs(one[0] - other[0]) / 74, abs(one[1] - other[1]) / 20), 1)


def _grid(root: Element, chosen: Placement, edges: str) -> None:
    """All placements by what crosses and what stays; as large as there are many in a place."""
    every = _EVERY[edges]
    most = max(each.traffic for each in every)
    across, up = _WIDTH / most, _DEEP / sum(STATES.values())
    title = f"All {len(every)} placements: bytes a parameter on the GPU, and bytes that cross"
    draw.words(root, 4, _BASE - _DEEP - 20, title, class_="sb-strong")
    draw.words(root, 4, _BASE - _DEEP / 2 + 4, "on GPU", class_="sb-small")
    for stored in range(0, 17, 4):
        y = _BASE - stored * up
        draw.line(root, _LEFT, y, _LEFT + _WIDTH, y, "sb-faint")
        draw.words(root, _LEFT - 14, y + 4, str(stored), anchor="end", class_="sb-small")
    for crossing in range(0, most + 1, 4):
        x = _LEFT + crossing * across
        draw.words(root, x, _BASE + 24, str(crossing), anchor="middle", class_="sb-small")
    draw.words(root, _LEFT + _WIDTH + 14, _BASE + 24, "cross", class_="sb-small")
    draw.add(root, "path", d=_dots(edges), fill="currentColor", fill_opacity="0.45")
    x, y = _LEFT + chosen.traffic * across, _BASE - chosen.gpu_bytes * up
    draw.add(root, "circle", cx=x, cy=y, r=9, fill="none", stroke="currentColor", stroke_width=2.5)
    near = x > _LEFT + _WIDTH - 60
    draw.words(root, x + (-14 if near else 14), y - 4, "this one",
               anchor="end" if near else "start", class_="sb-small sb-strong")  # fmt: skip


@cache
def _dots(edges: str) -> str:
    """A dot for each pair of what crosses and what stays, the same for every placement."""
    every = _EVERY[edges]
    across, up = _WIDTH / max(each.traffic for each in every), _DEEP / sum(STATES.values())
    path = ""
    for (crossing, stored), count in sorted(
        Counter((each.traffic, each.gpu_bytes) for each in every).items()
    ):
        radius = 2.5 + 0.8 * (count - 1)
        x, y = draw.number(_LEFT + crossing * across - radius), draw.number(_BASE - stored * up)
        round_, wide = draw.number(radius), draw.number(2 * radius)
        path += f"M{x} {y}a{round_} {round_} 0 1 0 {wide} 0a{round_} {round_} 0 1 0 -{wide} 0"
    return path


def _table(gpu: frozenset[str], chosen: Placement, edges: str) -> Table:
    here = gpu | {FORWARD_BACKWARD}
    rows = [
        (
            f"{source} to {target}",
            f"{'GPU' if source in here else 'CPU'} to {'GPU' if target in here else 'CPU'}",
            str(size),
            str(size) if (source in here) != (target in here) else "0",
        )
        for source, target, size in _EDGES[edges]
    ]
    total = sum(size for _, _, size in _EDGES[edges])
    rows.append(("all", "", str(total), str(chosen.traffic)))
    return Table(
        f"What a step moves; on the GPU stay {chosen.gpu_bytes} B a parameter",
        ("edge", "from and to", "B a parameter", "of it crossing"),
        tuple(rows),
    )


def _sentence(chosen: Placement, edges: str) -> str:
    every = _EVERY[edges]
    kept = _listed(chosen.gpu)
    start = (
        f"With {kept} beside forward and backward on the GPU, {chosen.traffic} B a parameter cross"
        f" in a step and {chosen.gpu_bytes} B stay there"
    )
    better = at_least_as_good(chosen, every)
    if better:
        other = better[0]
        return (
            f"{start}; {len(better)} of {len(every)} placements {'is' if len(better) == 1 else 'are'}"
            f" better in one and no worse in the other, such as {_listed(other.gpu)} with"
            f" {other.traffic} and {other.gpu_bytes} B."
        )
    within = sum(each.traffic <= chosen.traffic for each in every)
    if within == 1:
        return f"{start}: no other placement crosses so little."
    return f"{start}: {within} placements cross no more, and none of them stores less on the GPU."


def _listed(gpu: tuple[str, ...]) -> str:
    if not gpu:
        return "nothing"
    if len(gpu) == len(_NODES) - 1:
        return "everything"
    *first, last = gpu
    return f"{', '.join(first)} and {last}" if first else f"only {last}"


EXPLORER = Explorer(
    "offload-placements",
    "What stays on the GPU?",
    (
        Switch("p16", "p16, FP16 weights, on the GPU", "on"),
        Switch("g16", "g16, FP16 gradients, on the GPU", "off"),
        Switch("update", "The update computed on the GPU", "off"),
        Switch("p32", "p32, FP32 master weights, on the GPU", "off"),
        Switch("m32", "m32, momentum, on the GPU", "off"),
        Switch("v32", "v32, variance, on the GPU", "off"),
        Switch("float2half", "float2half, the rounding to FP16, on the GPU", "off"),
        Choice(
            "edges", "The update's edges to p32, m32 and v32", "two-way",
            (("two-way", "read and written: 4 + 4 B"), ("one-way", "counted once: 4 B")),
        ),
    ),
    _draw,
)  # fmt: skip
