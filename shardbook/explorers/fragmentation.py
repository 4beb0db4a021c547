"""Fragmentation, step by step: holes that fit nothing, and the area that keeps them together."""

from typing import Final
from xml.etree.ElementTree import Element

from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Number, Steps, Switch
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.ledger.fragmentation import Action, Heap, Step, forward_pass, run

_LAYERS: Final = 9
_LEFT: Final = 10
_WIDTH: Final = 620
_BAR: Final = 104
_PAST: Final = 196
_ROW: Final = 6

#: three actions a layer and the request
_LAST: Final = 3 * _LAYERS + 1


def _draw(
    step: int, area: bool, capacity: int, checkpoint: int, temporary: int, growth: int, request: int
) -> View:
    kept = _LAYERS * checkpoint if area else 0
    if kept > capacity:
        allowed = f"give at most {capacity // _LAYERS}: {_LAYERS} checkpoints must fit the capacity"
        raise InputError("checkpoint", checkpoint, allowed)
    program = forward_pass(_LAYERS, checkpoint, temporary, growth, request, keep=area)
    steps = _shown(run(capacity, program, kept))[: max(step, 1)]
    if step == 0:
        empty = Heap(capacity, kept)
        return View(_figure((), empty, request), _table((), empty), _sentence((), empty))
    heap = steps[-1].heap
    return View(_figure(steps, heap, request), _table(steps, heap), _sentence(steps, heap))


def _shown(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, a checkpoint that is copied into the area counted with its making."""
    copied = {step.action.name for step in steps if step.action.verb == "keep"}
    return tuple(
        step
        for step in steps
        if not (step.action.verb == "allocate" and step.action.name in copied)
    )


def _figure(steps: tuple[Step, ...], heap: Heap, request: int) -> str:
    root = draw.canvas(_LEFT + _WIDTH + 10, _PAST + _LAST * _ROW + 40)
    scale = _WIDTH / heap.capacity
    last = steps[-1] if steps else None
    title = f"Step {len(steps)}: {_said(last.action)}" if last else "Step 0: all memory is free"
    draw.words(root, _LEFT, 18, title, class_="sb-strong")
    if last and last.failure:
        _asked(root, last.failure.requested, scale)
    _area(root, heap, scale)
    _memory(root, heap, scale, last.action.name if last and not last.failure else "")
    _history(root, steps, heap, scale)
    _legend(root, _PAST + _LAST * _ROW + 26)
    return draw.text_of(root)


def _asked(root: Element, size: int, scale: float) -> None:
    """What could not be placed, to scale, above the memory."""
    width = min(size * scale, _WIDTH)
    box = draw.outline(root, _LEFT, 34, width, 26)
    box.set("stroke-dasharray", "5 3")
    x = _LEFT + 8 if width > _WIDTH / 2 else _LEFT + width + 8
    draw.words(root, x, 52, f"{size:,} MB asked for: no hole is as large")


def _area(root: Element, heap: Heap, scale: float) -> None:
    if heap.area:
        right = _LEFT + heap.area * scale
        draw.line(root, _LEFT, _BAR - 10, right, _BAR - 10)
        draw.line(root, right, _BAR - 18, right, _BAR + 56, "sb-limit")
        label = f"area set aside, {heap.area:,} MB"
        draw.words(root, _LEFT, _BAR - 16, label, class_="sb-small")


def _memory(root: Element, heap: Heap, scale: float, touched: str) -> None:
    draw.outline(root, _LEFT, _BAR, _WIDTH, 46)
    for block in heap.blocks:
        x, width = _LEFT + block.start * scale, block.size * scale
        draw.block(
            root, EXPLORER.id, _category(block.name), x, _BAR, width, 46,
            texture=_texture(block.name),
        )  # fmt: skip
        if block.name == touched:
            draw.outline(root, x, _BAR - 4, width, 54)
    end = -10.0
    for hole in heap.holes:
        text = f"{hole.size:,}"
        x, half = _LEFT + (hole.start + hole.size / 2) * scale, 4.2 * len(text)
        if x - half > end + 4:
            class_ = "sb-small sb-strong" if hole.size == heap.largest_hole else "sb-small"
            draw.words(root, x, _BAR + 64, text, anchor="middle", class_=class_)
            end = x + half


def _history(root: Element, steps: tuple[Step, ...], heap: Heap, scale: float) -> None:
    """One row a step, the latest below: where each block came to lie."""
    note = "free pieces above, in MB; below, one row for each step so far"
    draw.words(root, _LEFT, _BAR + 84, note, class_="sb-small")
    for place, step in enumerate(steps):
        y = _PAST + place * _ROW
        for block in step.heap.blocks:
            fill = draw.CATEGORIES[_category(block.name)][1]
            draw.add(
                root, "rect", x=_LEFT + block.start * scale, y=y, width=block.size * scale,
                height=_ROW - 1, class_=f"sb-{_category(block.name)}", fill=fill,
                fill_opacity="1" if _texture(block.name) == "owned" else "0.45",
            )  # fmt: skip
    draw.line(root, _LEFT, _PAST + _LAST * _ROW, _LEFT + _WIDTH, _PAST + _LAST * _ROW, "sb-faint")


def _legend(root: Element, y: float) -> None:
    x: float = _LEFT
    for category, texture, label, width in (
        ("activations", "owned", "checkpoint, stays", 160),
        ("activations", "temporary", "temporary of a layer, goes", 210),
        ("buffers", "owned", "the request, a buffer", 160),
    ):
        draw.block(root, EXPLORER.id, category, x, y - 11, 14, 14, texture=texture)
        draw.words(root, x + 22, y + 1, label, class_="sb-small")
        x += width


def _category(name: str) -> str:
    return "buffers" if name == "request" else "activations"


def _texture(name: str) -> str:
    return "temporary" if name.startswith("temporary") else "owned"


def _spaced(name: str) -> str:
    return name.replace("temporary", "temporary ").replace("checkpoint", "checkpoint ")


def _said(action: Action) -> str:
    name = _spaced(action.name)
    if action.verb == "keep":
        return f"make {name}, copy it into the area, free the original"
    if action.verb == "free":
        return f"free {name}"
    return f"allocate {name}, {action.size:,} MB"


def _table(steps: tuple[Step, ...], heap: Heap) -> Table:
    pieces = [(block.start, block.size, _spaced(block.name)) for block in heap.blocks]
    pieces += [(hole.start, hole.size, "free") for hole in heap.holes]
    pieces += [(hole.start, hole.size, "free, in the area") for hole in heap.area_holes]
    return Table(
        f"The memory of {heap.capacity:,} MB after step {len(steps)}, from its lowest address",
        ("from", "size in MB", "what"),
        tuple((f"{start:,}", f"{size:,}", what) for start, size, what in sorted(pieces)),
    )


def _sentence(steps: tuple[Step, ...], heap: Heap) -> str:
    free, largest = heap.free_bytes, heap.largest_hole
    state = f"{free:,} of {heap.capacity:,} MB are free ({100 * free / heap.capacity:.4g}%)"
    if heap.area:
        state += f" outside the area of {heap.area:,} MB"
    last = steps[-1] if steps else None
    if last and last.failure:
        why = (
            "yet the largest hole has" if free >= last.failure.requested else "the largest hole has"
        )
        return f"A request for {last.failure.requested:,} MB fails: {state}, {why} {largest:,} MB."
    if last and last.action.name == "request":
        before = f"The request for {last.action.size:,} MB succeeds"
        return f"{before}; {state} after it, and the largest hole has {largest:,} MB."
    after = f"After step {len(steps)}" if steps else "Before the first step"
    count = len(heap.holes)
    pieces = "1 piece" if count == 1 else f"{count} pieces"
    return f"{after}, {state}, in {pieces}, the largest {largest:,} MB."


EXPLORER = Explorer(
    "fragmentation",
    "Fragmentation, step by step",
    (
        Steps("step", "Step", str(_LAST), _LAST),
        Switch("area", "Copy checkpoints into an area set aside at the start", "off"),
        Number(
            "request", "Request at the end", "400",
            ("100", "150", "200", "250", "300", "400", "500", "600", "800", "1000", "1500"),
            1, 10**6, unit="MB",
        ),
        Number(
            "capacity", "Capacity", "4000", ("3000", "3500", "4000", "4500", "5000", "6000", "8000"),
            100, 10**6, unit="MB",
        ),
        Number(
            "checkpoint", "Checkpoint", "250", ("50", "100", "150", "200", "250", "300"),
            1, 10**5, unit="MB",
        ),
        Number(
            "temporary", "First temporary", "100", ("20", "50", "100", "150", "200", "300"),
            1, 10**5, unit="MB",
        ),
        Number(
            "growth", "Growth of the temporary per layer", "20", ("0", "5", "10", "20", "30", "50"),
            0, 10**5, unit="MB",
        ),
    ),
    _draw,
)  # fmt: skip
