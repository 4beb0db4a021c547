"""Hybrid sharding: for every group size F, the states on a rank and what leaves a node."""

from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.collectives.hybrid import NodeEgress, node_egress
from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, decades, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.ledger_controls import card_memory
from shardbook.explorers.view import Table, View
from shardbook.ledger.stages import Ledger, bytes_per_rank
from shardbook.numbers.units import format_bytes, format_count

_LEFT, _MIDDLE, _WIDTH, _ROW, _TOP = 74, 384, 164, 34, 78
_WEIGHT_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class _Point:
    """One position of the dial."""

    shard: int
    ledger: Ledger
    egress: NodeEgress

    @property
    def states(self) -> int:
        return self.ledger.fullest_rank_bytes

    @property
    def leaves(self) -> float:
        return float(self.egress.total)


def _draw(parameters: int, nodes: int, per_node: str, shard: int, card: int) -> View:
    width = int(per_node)
    ranks = nodes * width
    if shard & (shard - 1):
        raise InputError("shard", shard, "give a power of two, as the ranks are")
    if nodes & (nodes - 1):
        raise InputError("nodes", nodes, "give a power of two")
    points = [_point(parameters, ranks, 2**power, width) for power in range(ranks.bit_length())]
    # a group can't be larger than all ranks
    chosen = points[min(shard, ranks).bit_length() - 1]
    return View(
        _figure(points, chosen, card),
        _table(points, parameters, nodes, width),
        _sentence(points, chosen, width),
    )


def _point(parameters: int, ranks: int, shard: int, per_node: int) -> _Point:
    padded = -(-parameters // ranks) * ranks
    egress = node_egress(padded * _WEIGHT_BYTES, ranks, shard, per_node)
    return _Point(shard, bytes_per_rank(parameters, shard, 3), egress)


def _figure(points: list[_Point], chosen: _Point, card: int) -> str:
    bottom = _TOP + len(points) * _ROW
    root = draw.canvas(_MIDDLE + _WIDTH + 92, bottom + 34)
    draw.words(root, _LEFT, 20, "states on a rank", class_="sb-strong")
    draw.words(root, _MIDDLE, 20, "leaves a node in a step", class_="sb-strong")
    _key(root)
    most = max(card, points[0].states) / _WIDTH
    furthest = max(point.leaves for point in points) / _WIDTH
    for row, point in enumerate(points):
        y = _TOP + row * _ROW
        weight = "sb-strong" if point == chosen else ""
        draw.words(root, _LEFT - 8, y + 18, f"F = {point.shard}", anchor="end", class_=weight)
        x: float = _LEFT
        for line in point.ledger.lines_of(0):
            draw.block(root, EXPLORER.id, line.category, x, y + 3, line.bytes / most, 22)
            x += line.bytes / most
        said = format_bytes(point.states, 3)
        if x + 6 < _LEFT + card / most < x + 14 + 9 * len(said):
            x = _LEFT + card / most  # not across the card's line
        draw.words(root, x + 6, y + 18, said, class_=weight)
        x = _MIDDLE
        for size, category in (
            (point.egress.group, "gathered_parameters"),
            (point.egress.replicas, "gradients"),
        ):
            high = float(size) / furthest if furthest else 0.0
            draw.block(root, EXPLORER.id, category, x, y + 3, high, 22)
            x += high
        draw.words(root, x + 6, y + 18, format_bytes(point.leaves, 3), class_=weight)
        if point == chosen:
            draw.outline(root, 1, y, _MIDDLE + _WIDTH + 88, _ROW - 6)
    draw.limit(root, _LEFT + card / most, _TOP - 4, bottom, f"card, {format_bytes(card)}")
    return draw.text_of(root)


def _key(root: Element) -> None:
    x: float = _LEFT
    for category in ("weights", "gradients", "master_weights", "momentum", "variance"):
        draw.block(root, EXPLORER.id, category, x, 34, 12, 12)
        x += 14
    draw.words(root, x + 6, 45, "the ledger's five lines", class_="sb-small")
    for y, category, label in (
        (34, "gathered_parameters", "in its groups: gathers, reduce-scatter"),
        (52, "gradients", "between groups: sum of gradients"),
    ):
        draw.block(root, EXPLORER.id, category, _MIDDLE, y, 12, 12)
        draw.words(root, _MIDDLE + 20, y + 11, label, class_="sb-small")


def _table(points: list[_Point], parameters: int, nodes: int, width: int) -> Table:
    return Table(
        f"{format_count(parameters)} parameters on {nodes} × {width} ranks, by the size of a group",
        ("F", "states on a rank", "leaves a node: groups", "between groups", "together"),
        tuple(
            (
                str(point.shard),
                format_bytes(point.states, 3),
                format_bytes(float(point.egress.group), 3),
                format_bytes(float(point.egress.replicas), 3),
                format_bytes(point.leaves, 3),
            )
            for point in points
        ),
    )


def _sentence(points: list[_Point], chosen: _Point, width: int) -> str:
    worst = max(points, key=lambda point: point.leaves)
    kind = "a group is a part of a node"
    if chosen.shard == width:
        kind = "a group is a node"
    elif chosen.shard > width:
        kind = f"a group spans {chosen.shard // width} nodes"
    said = (
        f"At F = {chosen.shard} {kind}: a rank stores {format_bytes(chosen.states, 3)} of states, "
        f"and {format_bytes(chosen.leaves, 3)} leave each node in a step"
    )
    if not worst.leaves:
        return f"{said}, since there is only one."
    return f"{said}; most leaves it at F = {worst.shard}, {format_bytes(worst.leaves, 3)}."


EXPLORER = Explorer(
    "hybrid-sharding",
    "Hybrid sharding: memory against traffic between nodes",
    (
        Number("shard", "Ranks in a group, F", "8", doublings(8), 1, 256),
        Number("parameters", "Parameters", "13e9", decades(8, 12, ("1", "2", "4", "7")), 1e6, 1e13),
        Number("nodes", "Nodes", "8", doublings(5), 1, 32),
        Choice("per_node", "Ranks in a node", "8", (("4", "4"), ("8", "8"))),
        card_memory("80GB"),
    ),
    _draw,
)
