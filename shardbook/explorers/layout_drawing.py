"""A layout drawn: what its fullest card holds at the peak, and what runs when."""

from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.ledger.recipes import SHARDED_FROM
from shardbook.planner.blocks import BACKWARD, FORWARD, GATHER, SCATTER, Block, Blocks
from shardbook.planner.layouts import Layout
from shardbook.planner.memory import Peak

#: the planner's category → the book's; all but the recipe's are temporary
_CATEGORY: Final = {
    "gathered_layers": "gathered_parameters",
    "layer_gradient": "gradients",
    "logits": "buffers",
}
_LABEL: Final = {
    "gathered_layers": "gathered layers",
    "layer_gradient": "a layer's gradient",
    "logits": "logits",
}
_BUSY: Final = "busy"
#: kind → (label, how dark, or the category whose colour it has)
KINDS: Final = {
    FORWARD: ("forward", "0.12"),
    BACKWARD: ("backward", "0.4"),
    GATHER: ("all-gather", "gathered_parameters"),
    SCATTER: ("gradients' sum", "gradients"),
    _BUSY: ("in turn", "0.25"),
}
_LEFT, _WIDTH, _BAR, _LANE, _MOST = 70, 560, 26, 26, 8
#: below this width blocks of one kind that touch are drawn as one
_THIN: Final = 3.0
#: with more than these in a lane, blocks that touch are drawn as one whatever their kind
_CROWD: Final = 400


def ledger(root: Element, scope: str, peak: Peak, layout: Layout, room: float, top: float) -> None:
    """Draw the peak's pieces as one bar against ``room``, the B of a card that may be filled."""
    draw.hatches(root, scope)
    scale = _WIDTH / max(room, peak.bytes)
    x, key = 0.0, 0.0
    for name, size in peak.pieces:
        if not size:
            continue
        category = _CATEGORY.get(name, name)
        texture = "temporary"
        if name in SHARDED_FROM:
            whole = layout.replicas > 1 and layout.stage < SHARDED_FROM[name]
            texture = "replicated" if whole else "owned"
        draw.block(root, scope, category, x, top, size * scale, _BAR, texture=texture)
        x += size * scale
        label = _LABEL.get(name, draw.CATEGORIES[category][0])
        wide = 36 + 7.4 * len(label)
        line, place = divmod(key, 640)
        if place + wide > 640:
            line, place = line + 1, 0
            key = line * 640
        y = top + _BAR + 26 + 18 * line
        draw.block(root, scope, category, place, y - 10, 14, 12, texture=texture)
        draw.words(root, place + 20, y, label, class_="sb-small")
        key += wide
    draw.line(root, room * scale, top - 5, room * scale, top + _BAR + 5, "sb-limit")


def legend(root: Element, made: Blocks, top: float) -> None:
    """Name the kinds of work that are drawn."""
    x: float = 0
    present = {block.kind for block in made.blocks}
    if len(made.blocks) > _CROWD * len(made.lanes):
        present.add(_BUSY)
    for kind, (label, _) in KINDS.items():
        if kind in present:
            draw.add(root, "rect", x=x, y=top, width=16, height=14, **_style(kind))
            draw.words(root, x + 22, top + 12, label, class_="sb-small")
            x += 44 + 6.8 * len(label)


def timeline(root: Element, made: Blocks, top: float) -> None:
    """Draw at most eight lanes: all ranks of a pipeline, or as many evenly from first to last."""
    last = len(made.lanes) - 1
    lanes = (
        sorted({round(at * last / (_MOST - 1)) for at in range(_MOST)})
        if last >= _MOST
        else (range(last + 1))
    )
    scale = _WIDTH / made.seconds
    for at, lane in enumerate(lanes):
        y = top + at * _LANE
        draw.words(root, _LEFT - 8, y + 15, made.lanes[lane], anchor="end", class_="sb-small")
        _lane(root, [each for each in made.blocks if each.lane == lane], y, scale)


def _lane(root: Element, blocks: list[Block], y: float, scale: float) -> None:
    """One path a kind: hundreds of blocks redraw at once."""
    thin = any((block.end - block.start) * scale < _THIN for block in blocks)
    paths: dict[str, list[str]] = {}
    for kind, start, end in _joined(blocks, 0.5 / scale) if thin else _plain(blocks):
        x, width = draw.number(_LEFT + start * scale), draw.number((end - start) * scale)
        paths.setdefault(kind, []).append(f"M{x} {draw.number(y)}h{width}v20h-{width}z")
    for kind, path in paths.items():
        style = _style(kind) | ({"stroke_width": 0.4} if thin else {})
        draw.add(root, "path", d="".join(path), **style)


def _plain(blocks: list[Block]) -> list[tuple[str, float, float]]:
    return [(block.kind, block.start, block.end) for block in blocks]


def _joined(blocks: list[Block], gap: float) -> list[tuple[str, float, float]]:
    """Blocks as (kind, start, end) in s, those joined that touch."""
    crowd = len(blocks) > _CROWD
    spans: list[tuple[str, float, float]] = []
    for kind, start, end in _plain(blocks):
        if spans and start - spans[-1][2] < gap and (crowd or kind == spans[-1][0]):
            before, start, _ = spans.pop()
            kind = kind if kind == before else _BUSY
        spans.append((kind, start, end))
    return spans


def _style(kind: str) -> dict[str, float | str]:
    if kind in (GATHER, SCATTER):
        category = KINDS[kind][1]
        fill = draw.CATEGORIES[category][1]
        return {
            "class_": f"sb-{category} sb-temporary", "fill": fill, "fill_opacity": "0.3",
            "stroke": fill,
        }  # fmt: skip
    return {"fill": "currentColor", "fill_opacity": KINDS[kind][1], "stroke": "currentColor"}
