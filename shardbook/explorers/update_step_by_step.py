"""The update, object by object: what is there in each moment of one step, and until when."""

from dataclasses import dataclass
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


def _draw(step: int, network: str, rows: int, optimizer: str) -> View:
    layers = [int(width) for width in network.split(",")]
    walked = one_step(layers, rows, _KEPT[optimizer])
    moment = min(step, len(walked.moments) - 1)
    lines = _lines(walked)
    return View(
        _figure(walked, lines, moment), _table(walked, lines, moment), _sentence(walked, moment)
    )


def _lines(walked: OneStep) -> list[_Row]:
    found: dict[tuple[str, int], list[Thing]] = {}
    for thing in walked.things:
        layer = thing.layer if thing.category in _EACH_LAYER else -1
        found.setdefault((thing.category, layer), []).append(thing)
    lines = []
    for (category, layer), things in found.items():
        label = _KINDS[category][0] + (f" of layer {layer}" if layer >= 0 else "")
        lines.append(_Row(label, category, tuple(things)))
    kinds = list(_KINDS)
    return sorted(
        lines,
        key=lambda line: (
            _ORDER.index(line.scope),
            kinds.index(line.category),
            line.things[0].layer,
        ),
    )


def _figure(walked: OneStep, lines: list[_Row], moment: int) -> str:
    height = _TOP + _BARS + 46 + _ROW * (len(lines) + len(_ORDER)) + 34
    root = draw.canvas(_LEFT + _WIDTH + 8, height)
    column = _WIDTH / len(walked.moments)
    title = f"Step {moment}: {walked.moments[moment]}"
    draw.words(root, 0, 16, title, class_="sb-strong")
    _memory(root, walked, moment, column)
    _heads(root, walked, column)
    y = _TOP + _BARS + 46
    for scope in _ORDER:
        draw.words(root, 0, y + 13, scope, class_="sb-small sb-strong")
        draw.line(root, 0, y - 1, _LEFT + _WIDTH, y - 1, "sb-faint")
        y += _ROW
        for line in lines:
            if line.scope == scope:
                draw.words(root, 10, y + 12, line.label, class_="sb-small")
                _life(root, line, y, moment, column)
                y += _ROW
    lives = _TOP + _BARS + 46
    draw.outline(root, _LEFT + moment * column, _TOP - 4, column, _BARS + 5)
    draw.outline(root, _LEFT + moment * column, lives + 2, column, y - lives)
    _key(root, y + 22)
    return draw.text_of(root)


def _memory(root: Element, walked: OneStep, moment: int, column: float) -> None:
    """One stacked bar a moment: what is there while it runs."""
    most = total(walked.during(walked.peak))
    foot = _TOP + _BARS
    draw.line(root, _LEFT, foot, _LEFT + _WIDTH, foot)
    draw.words(root, 0, _TOP + 12, "memory", class_="sb-small sb-strong")
    draw.words(root, 10, _TOP + 30, f"peak {most:,} B", class_="sb-small")
    draw.words(root, 10, _TOP + 46, f"in {walked.moments[walked.peak]}", class_="sb-small")
    draw.words(root, 10, _TOP + 72, f"now {total(walked.during(moment)):,} B", class_="sb-small")
    for number in range(len(walked.moments)):
        y: float = foot
        there = walked.during(number)
        for category, (_, colour) in _KINDS.items():
            size = sum(thing.bytes for thing in there if thing.category == category)
            if size:
                high = size / most * _BARS
                y -= high
                x = _LEFT + number * column
                box = draw.block(root, EXPLORER.id, colour, x + 3, y, column - 6, high)
                _dim(box, later=number > moment)


def _heads(root: Element, walked: OneStep, column: float) -> None:
    """The phases, and under them the layer."""
    y = _TOP + _BARS + 16
    names = [name.partition(" ") for name in walked.moments]
    for number, (phase, _, layer) in enumerate(names):
        middle = _LEFT + (number + 0.5) * column
        if not number:
            draw.words(root, middle, y, "rest", anchor="middle", class_="sb-small")
            continue
        under = layer or phase
        draw.words(root, middle, y + 16, under, anchor="middle", class_="sb-small")
    start = 0
    while start < len(names):
        phase = names[start][0]
        end = start
        while end < len(names) and names[end][0] == phase:
            end += 1
        middle = _LEFT + (start + end) / 2 * column
        if phase in ("forward", "backward", "update"):
            draw.words(root, middle, y, phase, anchor="middle", class_="sb-small")
            if start:
                draw.line(
                    root, _LEFT + start * column, _TOP, _LEFT + start * column, y + 18, "sb-faint"
                )
            draw.line(root, _LEFT + end * column, _TOP, _LEFT + end * column, y + 18, "sb-faint")
        start = end


def _life(root: Element, line: _Row, y: float, moment: int, column: float) -> None:
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
        x, wide = _LEFT + columns[0] * column, len(columns) * column
        top = y + (_ROW - high) / 2
        box = draw.block(root, EXPLORER.id, colour, x, top, wide, high, texture=texture)
        _dim(box, later=later)


def _dim(box: Element, *, later: bool) -> None:
    if later:
        box.set("opacity", "0.3")


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


def _table(walked: OneStep, lines: list[_Row], moment: int) -> Table:
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
    rows.append(("all, while it runs", f"{total(walked.during(moment)):,} B", "", ""))
    rows.append(("all, after it", f"{total(walked.after(moment)):,} B", "", ""))
    return Table(
        f"The objects of one step, and what becomes of them in step {moment}, {name}",
        ("object", "size", "there", f"in {name}"),
        tuple(rows),
    )


def _sentence(walked: OneStep, moment: int) -> str:
    there = walked.during(moment)
    held = total(there)
    used = total([thing for thing in there if moment in thing.uses])
    name = walked.moments[moment]
    peak = f"the step's peak is {total(walked.during(walked.peak)):,} B, in {walked.moments[walked.peak]}"
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
