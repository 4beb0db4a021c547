"""What is the limit: the questions of the selection tree, the path taken, and the ledger beside it."""

from dataclasses import replace
from textwrap import wrap
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.planner_controls import (
    CARD_NAMES,
    MODEL_NAMES,
    between,
    card_choice,
    model_choice,
)
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes, format_seconds
from shardbook.planner.choosing import QUESTIONS, Choice, Step, cards_for_states, choose
from shardbook.planner.layouts import Layout
from shardbook.planner.presets import MODELS, cluster_named

_WIDTH: Final = 640
_LEFT, _BOX, _LEAF, _HIGH, _PITCH = 4, 380, 426, 64, 88
_BAR, _ROW = 22, 48
#: letters in a line of a leaf
_LETTERS: Final = 27
#: a bar may be so many times as long as what a card may hold; longer ones are cut
_MOST: Final = 2

#: question → its words, and what a yes is called
_WORDS: Final = {
    "replica": ("Does a whole replica fit?", "data parallelism"),
    "states": ("States cut, activations computed again?", "stage 1–3, recompute"),
    "layer": ("Layers cut or dealt out?", "TP, CP, EP, PP"),
    "host": ("States on the host or its drives?", "offload"),
}
_WIRES: Final = "Do the wires keep up?"
#: category of a peak → the book's category, and whether it is there for a moment only
_CATEGORY: Final = {
    "weights": ("weights", False),
    "gradients": ("gradients", False),
    "master_weights": ("master_weights", False),
    "momentum": ("momentum", False),
    "variance": ("variance", False),
    "gathered_layers": ("gathered_parameters", True),
    "layer_gradient": ("gradients", True),
    "activations": ("activations", False),
    "logits": ("activations", True),
}
_STATES: Final = ("weights", "gradients", "master_weights", "momentum", "variance")
_WHOLE: Final = ("gathered_layers", "layer_gradient")
#: category → the stage from which on a rank holds only its part
_CUT_FROM: Final = {"weights": 3, "gradients": 2}


def _draw(
    model: str, card: str, cards: int, nodes: int, sequence: int, batch: int, between: float
) -> View:
    shape = replace(MODELS[model], sequence=sequence, batch=sequence * batch)
    cluster = replace(cluster_named(card), cards=cards, nodes=nodes, between=between)
    choice = choose(shape, cluster)
    return View(_figure(choice), _table(choice), _sentence(choice))


def layout_words(layout: Layout) -> str:
    """A layout's splits and choices; the micro-batch, always of one sequence, is left out."""
    return str(layout).replace(", micro-batch 1", "")


def _figure(choice: Choice) -> str:
    root = draw.canvas(_WIDTH, 5 * _PITCH + 130 + _ROW * len(choice.steps))
    draw.hatches(root, EXPLORER.id)
    asked = {step.question: step for step in choice.steps}
    for place, question in enumerate(QUESTIONS):
        _question(root, place * _PITCH + 4, question, asked.get(question), choice.budget)
    _wires(root, 4 * _PITCH + 4, choice)
    _ledgers(root, 5 * _PITCH + 20, choice)
    return draw.text_of(root)


def _question(root: Element, y: float, question: str, step: Step | None, budget: int) -> None:
    words, leaf = _WORDS[question]
    taken = step is not None and step.fits
    _box(root, _LEFT, y, _BOX, [words, _answer(step, budget)], strong=step is not None)
    lines = (
        [leaf, *wrap(layout_words(step.layout), _LETTERS)] if step is not None and taken else [leaf]
    )
    _box(root, _LEAF, y, _WIDTH - _LEAF - 4, lines, strong=taken)
    _arrow(root, _LEFT + _BOX, y + _HIGH / 2, _LEAF, y + _HIGH / 2, "yes", strong=taken)
    down = step is not None and not step.fits
    if question != "host":
        _arrow(root, 40, y + _HIGH, 40, y + _PITCH, "no", strong=down)


def _answer(step: Step | None, budget: int) -> str:
    if step is None:
        return "not asked"
    if step.peak is None:
        return f"no: {step.reason}"
    if step.peak.bytes <= budget and not step.fits:
        return f"no: {step.reason}"
    text = f"{format_bytes(step.peak.bytes, 3)} of {format_bytes(budget, 3)} a card"
    if step.fits:
        return f"yes: {text}"
    return f"no: {text}" if step.question == "replica" else f"no: at least {text}"


def _wires(root: Element, y: float, choice: Choice) -> None:
    found = choice.layout is not None
    _box(root, _LEFT, y, _BOX, [_WIRES, _wait(choice)], strong=found)
    slow = choice.network_is_limit
    _arrow(root, _LEFT + _BOX, y + _HIGH / 2, _LEAF, y + _HIGH / 2, "no", strong=slow)
    lines = ["send less over slow wires"]
    if slow:
        best = choice.remedies[0]
        lines = [*wrap(best.name, 20), f"{format_seconds(best.seconds, 3)} a step"]
    _box(root, _LEAF, y, _WIDTH - _LEAF - 4, lines, strong=slow)


def _wait(choice: Choice) -> str:
    if choice.time is None:
        return "not asked"
    said = "no" if choice.network_is_limit else "yes"
    step = format_seconds(choice.time.seconds, 3)
    return f"{said}: cards wait {_share(choice.waiting)} of a step of {step}"


def _share(part: float) -> str:
    return f"{part:.0%}" if part >= 0.01 or not part else "less than 1%"


def _box(
    root: Element, x: float, y: float, width: float, lines: list[str], *, strong: bool
) -> None:
    style: dict[str, float | str] = {"fill": "none", "stroke": "currentColor"}
    if not strong:
        style["stroke_dasharray"] = "3 4"
    draw.add(
        root, "rect", x=x, y=y, width=width, height=_HIGH, rx=8, stroke_width=2 if strong else 1,
        **style,
    )  # fmt: skip
    pitch = 18 if len(lines) < 4 else 15
    first = y + _HIGH / 2 + 5 - pitch / 2 * (len(lines) - 1)
    for place, text in enumerate(lines):
        small = "sb-small" if place else ("sb-strong" if strong else "")
        draw.words(root, x + 10, first + pitch * place, text, class_=small)


def _arrow(
    root: Element, x1: float, y1: float, x2: float, y2: float, text: str, *, strong: bool
) -> None:
    style: dict[str, float | str] = {} if strong else {"stroke_dasharray": "3 4"}
    draw.add(
        root, "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke="currentColor",
        stroke_width=3 if strong else 1, **style,
    )  # fmt: skip
    weight = "sb-strong sb-small" if strong else "sb-small"
    if y1 == y2:
        draw.words(root, (x1 + x2) / 2, y1 - 6, text, anchor="middle", class_=weight)
    else:
        draw.words(root, x1 + 8, (y1 + y2) / 2 + 4, text, class_=weight)


def _ledgers(root: Element, y: float, choice: Choice) -> None:
    draw.words(root, _LEFT, y, "The fullest card at its peak, for each question asked")
    shown = ["weights", "gradients", "master_weights", "momentum", "variance"]
    draw.legend(root, EXPLORER.id, shown, _LEFT, y + 24)
    draw.block(root, EXPLORER.id, "activations", _LEFT, y + 62, 14, 14)
    draw.words(root, _LEFT + 20, y + 74, "activations", class_="sb-small")
    for x, name in ((110, "gathered_parameters"), (130, "gradients"), (150, "activations")):
        draw.block(root, EXPLORER.id, name, x, y + 62, 14, 14, texture="temporary")
    text = "outlined, for a moment: gathered layers, a layer's gradient, logits"
    draw.words(root, 172, y + 74, text, class_="sb-small")
    scale = (_WIDTH - 2 * _LEFT) / (_MOST * choice.budget)
    top = y + 88
    for place, step in enumerate(choice.steps):
        _ledger(root, top + _ROW * place, step, scale)
    room = _LEFT + choice.budget * scale
    label = f"may be filled: {format_bytes(choice.budget, 3)}"
    draw.limit(root, room, top, top + _ROW * len(choice.steps), label)


def _ledger(root: Element, y: float, step: Step, scale: float) -> None:
    size = "can't be set up" if step.peak is None else format_bytes(step.peak.bytes, 3)
    draw.words(root, _LEFT, y + 12, f"{layout_words(step.layout)}: {size}", class_="sb-small")
    x, end = float(_LEFT), _WIDTH - _LEFT
    for name, held in step.peak.pieces if step.peak else ():
        category, moment = _CATEGORY[name]
        width = min(held * scale, end - x)
        whole = name in _STATES and step.layout.stage < _CUT_FROM.get(name, 1)
        copies = whole and step.layout.replicas > 1
        texture = "temporary" if moment else "replicated" if copies else "owned"
        if width > 0:
            draw.block(
                root, EXPLORER.id, category, x, y + 18, width, _BAR, texture=texture
            )  # fmt: skip
        x += width
    if step.peak and step.peak.bytes * scale > end - _LEFT:
        draw.words(root, end - 2, y + 12, "goes on →", anchor="end", class_="sb-small sb-strong")


def _table(choice: Choice) -> Table:
    rows = []
    for step in choice.steps:
        sizes = dict(step.peak.pieces) if step.peak else {}
        states, whole = (sum(sizes.get(n, 0) for n in names) for names in (_STATES, _WHOLE))
        rest = sizes.get("activations", 0) + sizes.get("logits", 0)
        held = [format_bytes(each, 3) if step.peak else "–" for each in (states, whole, rest)]
        rows.append(
            (
                _WORDS[step.question][0],
                layout_words(step.layout),
                *held,
                _answer(step, choice.budget),
            )
        )
    rows.append((_WIRES, "", "", "", "", _wait(choice)))
    rows += [
        (f"instead: {each.name}", layout_words(each.layout), "", "", "",
         f"{format_seconds(each.seconds, 3)} a step")
        for each in choice.remedies if each.name != "as it is"
    ]  # fmt: skip
    return Table(
        f"{_where(choice)}, {choice.model.sequence:,} tokens a sequence",
        ("question", "simplest or nearest layout", "states", "whole layers", "activations",
         "answer"),
        tuple(rows),
    )  # fmt: skip


def _where(choice: Choice) -> str:
    card = CARD_NAMES[choice.cluster.card.name]
    return f"{MODEL_NAMES[choice.model.name]} on {choice.cluster.size:,} × {card}"


def _sentence(choice: Choice) -> str:
    layout, where = choice.layout, _where(choice)
    last = choice.steps[-1]
    if layout is None or last.peak is None or choice.time is None:
        fewest = cards_for_states(choice.model, choice.cluster)
        return (
            f"{where} does not fit, whatever is cut: {last.reason}; the states alone fill"
            f" {fewest:,} {'card' if fewest == 1 else 'cards'}."
        )
    limit = f"the limit is {choice.limit}" if len(choice.steps) > 1 else "a replica fits"
    start = (
        f"{where}: {limit}, and the simplest layout is {layout_words(layout)}, with"
        f" {format_bytes(last.peak.bytes, 3)} of the {format_bytes(choice.budget, 3)} that may be"
        " filled"
    )
    if not choice.network_is_limit:
        return f"{start}; cards wait {_share(choice.waiting)} of a step for each other."
    best = choice.remedies[0]
    step = format_seconds(choice.time.seconds, 3)
    spoken = f"{start}; but then cards wait {_share(choice.waiting)} of a step of {step}"
    if best.name == "as it is":
        return f"{spoken}, and no simple change helps."
    return f"{spoken}, and {best.name} would take {format_seconds(best.seconds, 3)}."


EXPLORER = Explorer(
    "which-limit",
    "What is the limit?",
    (
        model_choice("llama3-8b"),
        card_choice(),
        Number("cards", "Cards a node", "8", doublings(4), 1, 64),
        Number("nodes", "Nodes", "2", doublings(11), 1, 4096),
        Number("sequence", "Tokens a sequence", "8192",
               ("512", "1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072"),
               16, 1 << 20),
        Number("batch", "Sequences a step", "512", doublings(12), 1, 1 << 20),
        between(),
    ),
    _draw,
)  # fmt: skip
