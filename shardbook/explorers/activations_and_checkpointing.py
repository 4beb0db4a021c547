"""Activations and checkpointing: the peak for every interval, the least of them, its price."""

from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.ledger.activations import Shape, layer_bytes, lower_bound_layer_bytes, shape
from shardbook.ledger.checkpointing import (
    Interval,
    best_interval,
    extra_compute,
    intervals,
    selective_extra_compute,
)
from shardbook.numbers.units import format_bytes

_LEFT: Final = 74
_WIDTH: Final = 556
_TOP: Final = 100
_HEIGHT: Final = 200
_FORWARD: Final = 96

#: formula → (label, what it keeps of a layer)
_FORMULAS: Final = {
    "lower-bound": "lower bound: four tensors a layer",
    "published": "published: all that backward reads",
    "fused": "published, attention matrix never stored",
    "selective": "published, attention matrix recomputed (selective)",
}


@dataclass(frozen=True, slots=True)
class _State:
    """What one state of the controls comes to; bytes (B) on one tensor-parallel rank."""

    model: Shape
    tensor_parallel: int
    published: int
    layer: int
    checkpoint: int
    rows: tuple[Interval, ...]
    chosen: Interval
    best: Interval
    recomputed_layers: float
    recomputed_attention: float

    @property
    def everything(self) -> int:
        return self.model.layers * self.layer

    @property
    def extra(self) -> float:
        return self.recomputed_layers + self.recomputed_attention


def _draw(
    batch: int,
    sequence: int,
    hidden: int,
    layers: int,
    heads: int,
    formula: str,
    tensor_parallel: int,
    interval: int,
) -> View:
    model = shape(batch, sequence, hidden, layers, heads)
    published = _layer(model, tensor_parallel, "none")
    checkpoint = _layer(model, tensor_parallel, "full")
    layer = published
    if formula == "lower-bound":
        layer = lower_bound_layer_bytes(model)
    elif formula != "published":
        layer = _layer(model, tensor_parallel, "selective")
    rows = intervals(layers, layer, checkpoint)
    state = _State(
        model,
        tensor_parallel,
        published,
        layer,
        checkpoint,
        rows,
        rows[min(interval, layers) - 1],
        best_interval(layers, layer, checkpoint),
        extra_compute(),
        selective_extra_compute(sequence, hidden) if formula == "selective" else 0,
    )
    return View(_figure(state), _table(state), _sentence(state))


def _layer(model: Shape, tensor_parallel: int, recompute: str) -> int:
    try:
        return layer_bytes(model, tensor_parallel=tensor_parallel, recompute=recompute)
    except InputError as error:
        raise InputError("tensor_parallel", tensor_parallel, error.allowed) from error


def _figure(state: _State) -> str:
    root = draw.canvas(_LEFT + _WIDTH + 10, _TOP + _HEIGHT + 112)
    _legend(root)
    draw.words(root, _LEFT, 60, _of_a_layer(state), class_="sb-small")
    step = _tick(max(state.everything, state.rows[-1].peak_bytes))
    ticks = -(-max(state.everything, state.rows[-1].peak_bytes) // step)
    scale = _HEIGHT / (ticks * step)
    bottom = _TOP + _HEIGHT
    for tick in range(ticks + 1):
        y = bottom - tick * step * scale
        draw.line(root, _LEFT, y, _LEFT + _WIDTH, y, "sb-faint")
        label = format_bytes(tick * step, binary=True) if tick else "0"
        draw.words(root, _LEFT - 8, y + 4, label, anchor="end", class_="sb-small")
    pitch = (_WIDTH - 60) / len(state.rows)
    draw.block(
        root, EXPLORER.id, "activations",
        _LEFT + 8, bottom - state.everything * scale, 30, state.everything * scale,
    )  # fmt: skip
    draw.words(root, _LEFT + 23, bottom + 17, "all kept", anchor="middle", class_="sb-small")
    _bars(root, state, pitch, scale)
    _marks(root, state, pitch, scale)
    _compute(root, state, bottom + 72)
    return draw.text_of(root)


def _legend(root: Element) -> None:
    for y, texture, label in (
        (16, "owned", "solid: kept (checkpoints; in the first bar, everything)"),
        (38, "temporary", "outlined: layers recomputed, alive during their backward"),
    ):
        draw.block(root, EXPLORER.id, "activations", _LEFT, y - 11, 14, 14, texture=texture)
        draw.words(root, _LEFT + 22, y + 1, label, class_="sb-small")


def _of_a_layer(state: _State) -> str:
    layer, checkpoint, published = (
        format_bytes(size, binary=True) for size in (state.layer, state.checkpoint, state.published)
    )
    return f"one layer {layer} (by the published formula {published}), a checkpoint {checkpoint}"


def _tick(top: int) -> int:
    """The power of two (B) that makes three to six ticks up to ``top``."""
    return 1 << max(0, (top // 3).bit_length() - 1)


def _x(interval: int, pitch: float) -> float:
    return _LEFT + 60 + (interval - 1) * pitch


def _bars(root: Element, state: _State, pitch: float, scale: float) -> None:
    """Two paths for all bars: a hundred layers stay one small figure."""
    bottom, width = _TOP + _HEIGHT, pitch - min(3, pitch / 4)
    kept, recomputed = [], []
    for row in state.rows:
        x = draw.number(_x(row.interval, pitch))
        held = row.held * state.checkpoint * scale
        rest = row.recomputed * state.layer * scale
        kept.append(_bar(x, bottom, width, held))
        recomputed.append(_bar(x, bottom - held, width, rest))
    fill = draw.CATEGORIES["activations"][1]
    draw.add(root, "path", d="".join(kept), class_="sb-activations", fill=fill)
    draw.add(
        root, "path", d="".join(recomputed), class_="sb-activations sb-temporary",
        fill=fill, fill_opacity="0.12", stroke=fill, stroke_width=min(1.5, pitch / 4),
    )  # fmt: skip


def _bar(x: str, y: float, width: float, height: float) -> str:
    across, up = draw.number(width), draw.number(height)
    return f"M{x} {draw.number(y)}v-{up}h{across}v{up}z"


def _marks(root: Element, state: _State, pitch: float, scale: float) -> None:
    bottom, last = _TOP + _HEIGHT, -100.0
    for interval in (1, *(2**power for power in range(1, 8)), len(state.rows)):
        x = _x(interval, pitch) + pitch / 2
        if interval <= len(state.rows) and x - last > 22:
            draw.words(root, x, bottom + 17, str(interval), anchor="middle", class_="sb-small")
            last = x
    draw.words(
        root, _LEFT + _WIDTH, bottom + 36, "a checkpoint every … layers", anchor="end",
        class_="sb-small",
    )  # fmt: skip
    height = state.chosen.peak_bytes * scale
    draw.outline(
        root, _x(state.chosen.interval, pitch) - 2, bottom - height - 2, pitch + 2, height + 4
    )
    x = _x(state.best.interval, pitch) + pitch / 2
    y = bottom - state.best.peak_bytes * scale - 6
    # The bars rise to the right: at the top there is room for the words.
    draw.line(root, x, _TOP + 4, x, y - 8)
    draw.add(root, "path", d=f"M{draw.number(x)} {draw.number(y)}l-6 -10h12z", fill="currentColor")
    least = format_bytes(state.best.peak_bytes, binary=True)
    label = f"least: every {state.best.interval}, {least}"
    draw.words(root, x + 8, _TOP + 16, label, class_="sb-strong")


def _compute(root: Element, state: _State, y: float) -> None:
    draw.words(root, _LEFT - 8, y + 18, "compute", anchor="end")
    parts = [
        ("forward", 1.0, False),
        ("backward", 2.0, False),
        ("forward again", 3 * state.recomputed_layers, True),
        ("attention", 3 * state.recomputed_attention, True),
    ]
    x: float = _LEFT
    for label, share, again in parts:
        width = share * _FORWARD
        if width:
            box = draw.outline(root, x, y, width, 28)
            if again:
                box.set("stroke-dasharray", "5 3")
            if width > 7 * len(label):
                draw.words(root, x + width / 2, y + 18, label, anchor="middle", class_="sb-small")
            x += width
    draw.words(root, x + 8, y + 18, f"+{state.extra:.1%}", class_="sb-strong")


def _table(state: _State) -> Table:
    wanted = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, len(state.rows)}
    wanted |= {state.chosen.interval, state.best.interval}
    rows = [("all kept", "", "", format_bytes(state.everything, binary=True), "0%")]
    rows += [
        (
            f"{row.interval}{_remark(row, state)}",
            f"{_alive(row)}, {format_bytes(state.checkpoint, binary=True)} each",
            f"{row.recomputed} × {format_bytes(state.layer, binary=True)}",
            format_bytes(row.peak_bytes, binary=True),
            f"{state.extra:.1%}",
        )
        for row in state.rows
        if row.interval in wanted
    ]
    return Table(
        f"Peak of the activations by checkpoint interval, {state.model.layers} layers of"
        f" {state.model.heads} head{'s' * (state.model.heads > 1)}{_split(state)}: {_of_a_layer(state)}",
        ("interval", "checkpoints at the peak", "layers at the peak", "peak", "extra compute"),
        tuple(rows),
    )


def _split(state: _State) -> str:
    ranks = state.tensor_parallel
    return f" on {ranks} tensor-parallel ranks" if ranks > 1 else ""


def _alive(row: Interval) -> str:
    """How many checkpoints are alive at the peak; "10 of 11" if backward has passed the last segment."""
    return f"{row.held}" if row.held == row.checkpoints else f"{row.held} of {row.checkpoints}"


def _remark(row: Interval, state: _State) -> str:
    chosen, least = row.interval == state.chosen.interval, row.interval == state.best.interval
    return {(1, 1): " (chosen, least)", (1, 0): " (chosen)", (0, 1): " (least)"}.get(
        (chosen, least), ""
    )


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _sentence(state: _State) -> str:
    chosen, best = state.chosen, state.best
    where = "at every layer" if chosen.interval == 1 else f"every {chosen.interval} layers"
    found = (
        f"With a checkpoint {where} the activations peak at"
        f" {format_bytes(chosen.peak_bytes, binary=True)} ({_alive(chosen)}"
        f" checkpoint{_s(chosen.checkpoints)} and {chosen.recomputed} layer{_s(chosen.recomputed)}),"
        " where keeping all takes"
        f" {format_bytes(state.everything, binary=True)}, for {state.extra:.1%} more compute"
    )
    if chosen.peak_bytes == best.peak_bytes:
        return f"{found}; no other interval needs less."
    least = format_bytes(best.peak_bytes, binary=True)
    return f"{found}; an interval of {best.interval} needs least, {least}."


EXPLORER = Explorer(
    "activations-and-checkpointing",
    "Activations and checkpointing",
    (
        Number("interval", "A checkpoint every … layers", "1", tuple(map(str, range(1, 33))), 1, 128),
        Choice("formula", "What a layer keeps", "lower-bound", tuple(_FORMULAS.items())),
        Number("batch", "Batch", "1", doublings(8), 1, 512, unit="sequences"),
        Number(
            "sequence", "Sequence", "2048", tuple(str(2**p) for p in range(7, 18)), 1, 2**20,
            unit="tokens",
        ),
        Number(
            "hidden", "Hidden", "4096", ("1024", "2048", "4096", "5120", "8192", "12288", "16384"),
            1, 65536,
        ),
        Number(
            "layers", "Layers", "32", ("1", "2", "4", "8", "16", "24", "32", "40", "64", "96", "128"),
            1, 128,
        ),
        Number("heads", "Heads", "32", ("16", "32", "64", "128"), 1, 1024),
        Number("tensor_parallel", "Tensor-parallel ranks", "1", doublings(4), 1, 1024),
    ),
    _draw,
)  # fmt: skip
