"""Tensor parallelism: which part of an MLP a rank has, and what it sends beside data parallelism."""

from fractions import Fraction
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.collectives.tensor import TensorTraffic, tensor_traffic
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes, format_count

_WIDTH: Final = 640
_BAR: Final = 300
#: top of the boxes, and of the bars below them
_BOXES: Final = 52
_BARS: Final = 248


def _draw(tensor_ranks: str, tokens: int, width: int, layers: int, data_ranks: int) -> View:
    ranks = int(tensor_ranks)
    traffic = tensor_traffic(tokens, width, layers, ranks, data_ranks)
    rows = (
        _row("tensor", "activations", traffic.tensor_bytes, traffic.blocking_all_reduces),
        _row("data", "gradients", traffic.data_bytes, 1 if data_ranks > 1 else 0),
    )
    return View(
        _figure(ranks, traffic),
        Table(
            f"What a rank sends in a step: {layers} layers of width {width:,}, {tokens:,} tokens",
            ("parallelism", "sends", "bytes", "all-reduces"),
            rows,
        ),
        _sentence(ranks, data_ranks, traffic),
    )


def _row(name: str, what: str, size: Fraction, times: int) -> tuple[str, ...]:
    return (name, what, _bytes(size), f"{times:,}")


def _bytes(size: Fraction) -> str:
    return format_bytes(float(size), 3)


def _figure(ranks: int, traffic: TensorTraffic) -> str:
    root = draw.canvas(_WIDTH, _BARS + 96)
    draw.hatches(root, EXPLORER.id)
    title = (
        "One rank has everything"
        if ranks == 1
        else f"What rank 0 of {ranks} has: filled, or hatched if every rank has it"
    )
    draw.words(root, 8, 22, title, class_="sb-strong")
    replicated = "owned" if ranks == 1 else "replicated"
    _box(root, "activations", 8, 54, 100, "input", texture=replicated)
    _sign(root, 76, "×")
    _box(root, "weights", 92, 140, 54, "columns of A", columns=ranks)
    _sign(root, 246, "=")
    _box(root, "activations", 262, 140, 100, "hidden", columns=ranks)
    _sign(root, 416, "×")
    _box(root, "weights", 432, 54, 140, "rows of B", rows=ranks)
    _sign(root, 512, "=" if ranks == 1 else "= Σ")
    label = "output" if ranks == 1 else "output, summed"
    _box(root, "activations", 540, 54, 100, label, texture=replicated)
    draw.words(root, 8, _BARS, "A rank sends in a step", class_="sb-strong")
    most = max(traffic.tensor_bytes, traffic.data_bytes)
    for i, (label, category, size) in enumerate(
        (
            ("tensor: activations", "activations", traffic.tensor_bytes),
            ("data: gradients", "gradients", traffic.data_bytes),
        )
    ):
        y = _BARS + 18 + 38 * i
        length = float(size / most) * _BAR if most else 0.0
        draw.words(root, 8, y + 19, label)
        draw.block(root, EXPLORER.id, category, 160, y, length, 28)
        draw.words(root, 168 + length, y + 19, _bytes(size), class_="sb-strong")
    return draw.text_of(root)


def _sign(root: Element, x: float, text: str) -> None:
    draw.words(root, x, _BOXES + 56, text, anchor="middle" if len(text) == 1 else "start")


def _box(
    root: Element,
    category: str,
    x: float,
    width: float,
    height: float,
    label: str,
    *,
    columns: int = 1,
    rows: int = 1,
    texture: str = "owned",
) -> None:
    """An array, centred on the line of signs; the first of its columns or rows is filled."""
    y = _BOXES + 52 - height / 2 + 18
    wide, high = width / columns, height / rows
    draw.block(root, EXPLORER.id, category, x, y, wide, high, texture=texture)
    for i in range(1, columns):
        draw.line(root, x + i * wide, y, x + i * wide, y + height, "sb-faint")
    for i in range(1, rows):
        draw.line(root, x, y + i * high, x + width, y + i * high, "sb-faint")
    draw.outline(root, x, y, width, height)
    draw.words(root, x + width / 2, _BOXES + 160, label, anchor="middle", class_="sb-small")


def _sentence(ranks: int, replicas: int, traffic: TensorTraffic) -> str:
    data = f"data parallelism among {replicas:,} replicas sends {_bytes(traffic.data_bytes)} of gradients"
    if replicas == 1:
        data = "with one replica no gradients are sent"
    if ranks == 1:
        return f"Nothing is cut, so no activations are sent; {data}."
    times = (
        ""
        if traffic.ratio is None
        else f", {format_count(float(1 / traffic.ratio), 3)} times as much"
    )
    if traffic.ratio is not None and traffic.ratio >= 1:
        ratio = format_count(float(traffic.ratio), 3)
        times = f": tensor parallelism sends {ratio} times as much"
    return (
        f"Cut among {ranks} ranks, each sends {_bytes(traffic.tensor_bytes)} of activations in "
        f"{traffic.blocking_all_reduces:,} all-reduces, and the computation waits for each; "
        f"{data}{times}."
    )


EXPLORER = Explorer(
    "tensor-parallel",
    "Tensor parallelism: a rank's part, and its traffic beside data parallelism's",
    (
        Choice("tensor_ranks", "Ranks that share a layer, T", "4", tuple((n, n) for n in doublings(4))),
        Number("tokens", "Tokens of a replica", "16384", doublings(20)[8:], 1, 1 << 30),
        Number(
            "width", "Width, h", "4096",
            ("1024", "2048", "4096", "5120", "8192", "12288", "16384", "25600"), 1, 1e6,
        ),
        Number("layers", "Layers", "32", ("1", "8", "16", "32", "48", "80", "96", "128"), 1, 1000),
        Number("data_ranks", "Replicas", "8", doublings(10), 1, 65_536),
    ),
    _draw,
)  # fmt: skip
