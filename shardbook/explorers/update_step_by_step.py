"""The update, object by object: what is there in each moment of one step, and until when."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, Steps, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.ledger.lifetimes import (
    ACROSS_LAYERS,
    ACROSS_STEPS,
    IN_AN_OPERATOR,
    OneStep,
    Thing,
    one_step,
    total,
)

_NETWORKS: Final = (
    ("32,96,96,96,96,16", "32→96→96→96→96→16: the lecture's"),
    ("32,384,16", "32→384→16: wide"),
    ("784,512,256,10", "784→512→256→10: reads digits"),
    ("32,16", "32→16: a single layer"),
)
_OPTIMIZERS: Final = (
    ("adam", "Adam: momentum and variance"),
    ("momentum", "SGD with momentum"),
    ("sgd", "SGD: nothing but the master weights"),
)
_KEPT: Final = {"adam": ("momentum", "variance"), "momentum": ("momentum",), "sgd": ()}
#: a step of five layers
_LAST: Final = 18

#: category → (label, the book's category whose colour it has)
_KINDS: Final = {
    "weights": ("weights", "weights"),
    "master_weights": ("master weights", "master_weights"),
    "momentum": ("momentum", "momentum"),
    "variance": ("variance", "variance"),
    "activations": ("activations", "activations"),
    "gradients": ("gradients", "gradients"),
    "targets": ("targets", "buffers"),
    "outputs": ("outputs", "activations"),
    "output_gradients": ("gradients of outputs", "gradients"),
    "update_gradient": ("FP32 gradient", "gradients"),
}
_EACH_LAYER: Final = ("activations", "gradients")
_ORDER: Final = (ACROSS_STEPS, ACROSS_LAYERS, IN_AN_OPERATOR)

_LEFT: Final = 160
_WIDTH: Final = 476
_BARS: Final = 120
_TOP: Final = 34
_ROW: Final = 17

#: colour, texture, whether it is still to come → places
_Boxes = dict[tuple[str, str, bool], list[draw.Box]]


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the figure and the table: one object, or those of all layers."""

    label: str
    category: str
    things: tuple[Thing, ...]

    @property
    def scope(self) -> str:
        return self.things[0].scope

    @property
    def most(self) -> int:
        """The most bytes (B) of it that are there at once: a backward has two output gradients."""
        return max(
            total([each for each in self.things if each.first <= thing.first <= each.last])
            for thing in self.things
        )

    def now(self, moment: int) -> str:
        """What becomes of it in a moment."""
        there = [thing for thing in self.things if thing.first <= moment <= thing.last]
        if not there:
            return "not there"
        return "used" if any(moment in thing.uses for thing in there) else "stored"


@dataclass(frozen=True, slots=True)
class _Whole:
    """What no moment changes: the lines, and for each moment bytes (B) by category; the peak."""

    walked: OneStep
    lines: tuple[_Row, ...]
    sizes: tuple[dict[str, int], ...]
    peak: int

    def held(self, moment: int) -> int:
        """All bytes (B) in a moment."""
        return sum(self.sizes[moment].values())


def _draw(step: int, network: str, rows: int, optimizer: str) -> View:
    whole = _whole(network, rows, optimizer)
    moment = min(step, len(whole.sizes) - 1)
    return View(_figure(whole, moment), _table(whole, moment), _sentence(whole, moment))


@lru_cache(maxsize=8)
def _whole(network: str, rows: int, optimizer: str) -> _Whole:
    walked = one_step([int(width) for width in network.split(",")], rows, _KEPT[optimizer])
    sizes = tuple(dict.fromkeys(_KINDS, 0) for _ in walked.moments)
    for thing in walked.things:
        for moment in range(thing.first, thing.last + 1):
            sizes[moment][thing.category] += thing.bytes
    return _Whole(walked, tuple(_lines(walked)), sizes, walked.peak)


def _lines(walked: OneStep) -> list[_Row]:
    found: dict[tuple[str, int], list[Thing]] = {}
    for thing in walked.things:
        layer = thing.layer if thing.category in _EACH_LAYER else -1
        found.setdefault((thing.category, layer), []).append(thing)
    lines = []
    for (category, layer), things in found.items():
        label = _KINDS[category][0] + (f" of layer {layer}" if layer >= 0 else "")
        lines.append(_Row(label, category, tuple(things)))
    scopes, kinds = _ORDER.index, list(_KINDS).index
    return sorted(
        lines, key=lambda row: (scopes(row.scope), kinds(row.category), row.things[0].layer)
    )


def _figure(whole: _Whole, moment: int) -> str:
    walked, lines = whole.walked, whole.lines
    height = _TOP + _BARS + 46 + _ROW * (len(lines) + len(_ORDER)) + 34
    root = draw.canvas(_LEFT + _WIDTH + 8, height)
    column = _WIDTH / len(walked.moments)
    title = f"Step {moment}: {walked.moments[moment]}"
    draw.words(root, 0, 16, title, class_="sb-strong")
    _memory(root, whole, moment, column)
    _heads(root, walked, column)
    y = _TOP + _BARS + 46
    boxes: _Boxes = {}
    for scope in _ORDER:
        draw.words(root, 0, y + 13, scope, class_="sb-small sb-strong")
        draw.line(root, 0, y - 1, _LEFT + _WIDTH, y - 1, "sb-faint")
        y += _ROW
        for line in lines:
            if line.scope == scope:
                draw.words(root, 10, y + 12, line.label, class_="sb-small")
                _life(boxes, line, y, moment, column)
                y += _ROW
    _blocks(root, boxes)
    lives = _TOP + _BARS + 46
    draw.outline(root, _LEFT + moment * column, _TOP - 4, column, _BARS + 5)
    draw.outline(root, _LEFT + moment * column, lives + 2, column, y - lives)
    _key(root, y + 22)
    return draw.text_of(root)


def _memory(root: Element, whole: _Whole, moment: int, column: float) -> None:
    """One stacked bar a moment: what is there while it runs."""
    most = whole.held(whole.peak)
    foot = _TOP + _BARS
    draw.line(root, _LEFT, foot, _LEFT + _WIDTH, foot)
    draw.words(root, 0, _TOP + 12, "memory", class_="sb-small sb-strong")
    draw.words(root, 10, _TOP + 30, f"peak {most:,} B", class_="sb-small")
    draw.words(root, 10, _TOP + 46, f"in {whole.walked.moments[whole.peak]}", class_="sb-small")
    draw.words(root, 10, _TOP + 72, f"now {whole.held(moment):,} B", class_="sb-small")
    boxes: _Boxes = {}
    for number, sizes in enumerate(whole.sizes):
        y: float = foot
        x = _LEFT + number * column + 3
        for category, size in sizes.items():
            if size:
                high = size / most * _BARS
                y -= high
                look = (_KINDS[category][1], "owned", number > moment)
                boxes.setdefault(look, []).append((x, y, column - 6, high))
    _blocks(root, boxes)


def _heads(root: Element, walked: OneStep, column: float) -> None:
    """The phases, and under them the layer."""
    y = _TOP + _BARS + 16
    names = [name.partition(" ") for name in walked.moments]
    for number, (phase, _, layer) in enumerate(names):
        middle = _LEFT + (number + 0.5) * column
        text, foot = (layer or phase, y + 16) if number else ("rest", y)
        draw.words(root, middle, foot, text, anchor="middle", class_="sb-small")
    start = 0
    while start < len(names):
        phase = names[start][0]
        end = start
        while end < len(names) and names[end][0] == phase:
            end += 1
        middle = _LEFT + (start + end) / 2 * column
        if phase in ("forward", "backward", "update"):
            draw.words(root, middle, y, phase, anchor="middle", class_="sb-small")
            for edge in filter(None, (start, end)):
                x = _LEFT + edge * column
                draw.line(root, x, _TOP, x, y + 18, "sb-faint")
        start = end


def _life(boxes: _Boxes, line: _Row, y: float, moment: int, column: float) -> None:
    """A thick piece where the object is used, a thin one where it is only stored."""
    colour = _KINDS[line.category][1]
    texture = "temporary" if line.scope == IN_AN_OPERATOR else "owned"
    first, last = min(t.first for t in line.things), max(t.last for t in line.things)
    pieces = groupby(range(first, last + 1), key=lambda n: (line.now(n), n > moment))
    for (state, later), numbers in pieces:
        if state == "not there":
            continue
        columns = list(numbers)
        high = 13 if state == "used" else 4
        x, top = _LEFT + columns[0] * column, y + (_ROW - high) / 2
        place = (x, top, len(columns) * column, high)
        boxes.setdefault((colour, texture, later), []).append(place)


def _blocks(root: Element, boxes: _Boxes) -> None:
    for (colour, texture, later), places in boxes.items():
        drawn = draw.blocks(root, EXPLORER.id, colour, places, texture=texture)
        if later:
            drawn.set("opacity", "0.3")


def _key(root: Element, y: float) -> None:
    x = 10.0
    for high, opacity, label in (
        (13, "1", "used"),
        (4, "1", "stored, not used"),
        (13, "0.3", "still to come"),
    ):
        box = draw.block(root, EXPLORER.id, "buffers", x, y - 4 - high / 2, 26, high)
        box.set("opacity", opacity)
        draw.words(root, x + 34, y, label, class_="sb-small")
        x += 64 + 7 * len(label)


def _table(whole: _Whole, moment: int) -> Table:
    walked, lines = whole.walked, whole.lines
    name = walked.moments[moment]
    rows = []
    for line in lines:
        together = line.scope == ACROSS_STEPS
        size = f"{line.most:,} B"
        first = walked.moments[min(thing.first for thing in line.things)]
        last = walked.moments[max(thing.last for thing in line.things)]
        several = not together and len(line.things) > 1
        rows.append(
            (
                line.label,
                f"{size} at most" if several else size,
                "always" if together else f"{first} to {last}",
                line.now(moment),
            )
        )
    rows.append(("all, while it runs", f"{whole.held(moment):,} B", "", ""))
    rows.append(("all, after it", f"{total(walked.after(moment)):,} B", "", ""))
    return Table(
        f"The objects of one step, and what becomes of them in step {moment}, {name}",
        ("object", "size", "there", f"in {name}"),
        tuple(rows),
    )


def _sentence(whole: _Whole, moment: int) -> str:
    walked, held = whole.walked, whole.held(moment)
    used = total([thing for thing in walked.during(moment) if moment in thing.uses])
    name = walked.moments[moment]
    peak = f"the step's peak is {whole.held(whole.peak):,} B, in {walked.moments[whole.peak]}"
    if name == "at rest":
        return f"Between two steps {held:,} B stay, and nothing uses them; {peak}."
    if name == "clear":
        left = total(walked.after(moment))
        return f"Clear frees the gradients: of {held:,} B there stay {left:,} B for the next step; {peak}."
    return (
        f"While {name} runs, {held:,} B are there and it uses {used:,} B of them "
        f"({100 * used / held:.3g}%); {peak}."
    )


EXPLORER = Explorer(
    "update-step-by-step",
    "The update, object by object",
    (
        Steps("step", "Step", "9", _LAST),
        Choice("network", "Network", _NETWORKS[0][0], _NETWORKS),
        Number("rows", "Batch", "16", doublings(16), 1, 2**20, unit="rows"),
        Choice("optimizer", "Optimizer", "adam", _OPTIMIZERS),
    ),
    _draw,
)
