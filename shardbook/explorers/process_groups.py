"""Process groups: which ranks talk along an axis, and over which wire, for any order of the axes."""

from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.collectives.groups import Groups
from shardbook.collectives.layout import AXES, AxisLoad, layout_loads
from shardbook.collectives.messages import step_messages
from shardbook.collectives.network import Link, Network, two_level
from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes, format_seconds
from shardbook.planner.presets import cluster_named

#: what an axis sends, as a colour of the book
_COLOURS: Final = {
    "TP": "activations", "CP": "activations", "EP": "activations", "PP": "activations",
    "FSDP": "gathered_parameters", "DP": "gradients",
}  # fmt: skip
_LAYERS: Final = 32
_CARD: Final = "h100-80"
_LEFT, _TOP, _ROW, _HIGH = 76, 66, 62, 34
_BAR_LEFT, _BAR, _BAR_ROW = 112, 190, 34
_ORDERS: Final = tuple(" ".join(order) for order in permutations(("TP", "other", "DP")))

_Degrees = tuple[tuple[str, int], ...]


def _draw(
    nodes: str, per_node: str, order: str, tp: str, other: str, degree: str, look: str,
    tokens: int, width: int,
) -> View:  # fmt: skip
    ranks, cards = int(nodes) * int(per_node), int(per_node)
    degrees = _degrees(ranks, int(tp), other, int(degree))
    axes = _in_order(degrees, order, other)
    loads = _loads(axes, tokens, width, cards)
    orders = [_in_order(degrees, name, other) for name in _ORDERS]
    seconds = {
        one: sum(load.seconds for load in _loads(one, tokens, width, cards)) for one in orders
    }
    shown = _shown(axes, loads, other if look == "other" else look, cards)
    caption = (
        f"{nodes} × {cards} ranks, {_said(axes)}; a step of {_LAYERS} layers of width {width:,} and"
        f" {tokens:,} tokens a replica; {_rate(_network(cards).inside)} a port inside,"
        f" {_rate(_network(cards).between)} a network card, one for each rank"
    )
    return View(
        _figure(int(nodes), cards, axes, shown, loads),
        _table(caption, loads),
        _sentence(shown, loads, seconds, axes),
    )


def _degrees(ranks: int, tensor: int, other: str, degree: int) -> dict[str, int]:
    """Degrees by axis; data parallelism takes what is left of the ranks."""
    for name, value, size in (("tp", tensor, tensor), ("degree", degree, tensor * degree)):
        if ranks % size:
            allowed = f"TP × {other} = {tensor} × {degree} must divide the {ranks} ranks"
            raise InputError(name, str(value), allowed)
    return {"TP": tensor, other: degree, "DP": ranks // (tensor * degree)}


def _in_order(degrees: dict[str, int], order: str, other: str) -> _Degrees:
    names = [other if name == "other" else name for name in order.split()]
    return tuple((name, degrees[name]) for name in names)


def _network(cards: int) -> Network:
    cluster = cluster_named(_CARD)
    return two_level(Link(0.0, cluster.inside), Link(0.0, cluster.between), cards)


@lru_cache(maxsize=256)
def _loads(axes: _Degrees, tokens: int, width: int, cards: int) -> tuple[AxisLoad, ...]:
    """The loads of the axes that send something, and of the joined ones."""
    messages = step_messages(dict(axes), tokens, width, _LAYERS)
    found = layout_loads(dict(axes), messages, _network(cards))
    return tuple(load for load in found if load.axis in messages)


def _shown(axes: _Degrees, loads: tuple[AxisLoad, ...], look: str, cards: int) -> AxisLoad:
    """The load to look at: where gradients are summed over contexts, too, the joined one."""
    for load in loads:
        if load.axis.split("+")[0] == look:
            return load
    alone = layout_loads(dict(axes), {}, _network(cards))
    return next(load for load in alone if load.axis == look)


def _figure(
    nodes: int, cards: int, axes: _Degrees, shown: AxisLoad, loads: tuple[AxisLoad, ...]
) -> str:
    bottom = _TOP + nodes * _ROW
    root = draw.canvas(640, bottom + 40 + len(loads) * _BAR_ROW)
    title = f"Groups of {_name(shown.axis)}; rank 0's is filled"
    draw.words(root, 8, 20, title, class_="sb-strong")
    draw.words(root, 8, 40, f"ranks numbered {_said(axes)}", class_="sb-small")
    colour = _COLOURS[shown.axis.split("+")[0]]
    for x, label, dashed in ((330, "inside a node", False), (470, "between nodes", True)):
        _wire(root, colour, x, 34, 28, dashed=dashed, across=True)
        draw.words(root, x + 36, 40, label, class_="sb-small")
    pitch = (640 - _LEFT) / cards
    _cards(root, colour, shown.groups, cards, pitch)
    _wires(root, colour, shown, cards, pitch)
    most = max((load.seconds for load in loads), default=0)
    draw.words(root, 8, bottom + 22, "A step's messages, by the time they take", class_="sb-strong")
    for i, load in enumerate(loads):
        y = bottom + 34 + i * _BAR_ROW
        slowest = load.seconds == most
        kind = _COLOURS[load.axis.split("+")[0]]
        length = load.seconds / most * _BAR
        weight = "sb-strong" if slowest else ""
        draw.words(root, 8, y + 18, _name(load.axis), class_=weight)
        draw.block(root, EXPLORER.id, kind, _BAR_LEFT, y, length, 24)
        said = f"{_time(load.seconds)}: {_leaves(load)}"
        draw.words(root, _BAR_LEFT + length + 8, y + 17, said, class_=weight)
    return draw.text_of(root)


def _cards(root: Element, colour: str, groups: Groups, cards: int, pitch: float) -> None:
    group_of = {rank: number for number, group in enumerate(groups) for rank in group}
    for rank in sorted(group_of):
        node, place = divmod(rank, cards)
        x, y = _LEFT + place * pitch, _TOP + node * _ROW
        if place == 0:
            draw.words(root, 8, y + 22, f"node {node}")
        if rank in groups[0]:
            draw.block(root, EXPLORER.id, colour, x, y, pitch - 12, _HIGH, texture="temporary")
        else:
            draw.add(
                root, "rect", x=x, y=y, width=pitch - 12, height=_HIGH, fill="none",
                stroke="currentColor", stroke_opacity="0.4", stroke_width=1,
            )  # fmt: skip
        middle = x + (pitch - 12) / 2
        draw.words(root, middle, y + 15, str(rank), anchor="middle", class_="sb-strong")
        label = f"group {group_of[rank]}"
        draw.words(root, middle, y + 29, label, anchor="middle", class_="sb-small")


def _wires(root: Element, colour: str, shown: AxisLoad, cards: int, pitch: float) -> None:
    """Rank 0's group: a bar below the cards that share a node, dashes from node to node."""
    places: dict[int, list[int]] = {}
    for rank in shown.groups[0]:
        places.setdefault(rank // cards, []).append(rank % cards)
    for node, members in places.items():
        y = _TOP + node * _ROW + _HIGH
        if len(members) > 1:
            left, right = (
                _LEFT + place * pitch + (pitch - 12) / 2 for place in (members[0], members[-1])
            )
            _wire(root, colour, left, y + 10, right - left, across=True)
            for place in members:
                _wire(root, colour, _LEFT + place * pitch + (pitch - 12) / 2 - 2, y, 12)
    if len(places) < 2:
        return
    # In an all-to-all every card sends to other nodes; a ring or chain crosses in one place.
    everybody = AXES[shown.axis.split("+")[0]].collective == "all-to-all"
    members = next(iter(places.values()))
    for place in members if everybody else members[:1]:
        x = _LEFT + place * pitch + pitch - 8
        top, last = min(places), max(places)
        _wire(root, colour, x, _TOP + top * _ROW + 15, (last - top) * _ROW + 4, dashed=True)
        for node in places:
            _wire(root, colour, x - 4, _TOP + node * _ROW + 15, 6, across=True)


def _wire(
    root: Element, colour: str, x: float, y: float, length: float, *,
    dashed: bool = False, across: bool = False,
) -> None:  # fmt: skip
    """A line four units thick from (x, y) on, down or across."""
    dash, step = (7.0, 11.0) if dashed else (length, length)
    start = 0.0
    while start < length:
        piece = min(dash, length - start)
        box = (x + start, y, piece, 4.0) if across else (x, y + start, 4.0, piece)
        draw.block(root, EXPLORER.id, colour, *box)
        start += step


def _name(axis: str) -> str:
    return axis.replace("+", " with ")


def _said(axes: _Degrees) -> str:
    return ", then ".join(f"{name} {degree}" for name, degree in axes if degree > 1)


def _rate(link: Link) -> str:
    return format_bytes(link.bandwidth, 3) + "/s"


def _time(seconds: float) -> str:
    return format_seconds(seconds, 3)


def _size(size: Fraction) -> str:
    return format_bytes(float(size), 3)


def _leaves(load: AxisLoad) -> str:
    """What leaves by the link that takes longer."""
    if _by_card(load):
        return f"{_size(load.card_bytes)} a network card"
    return f"{_size(load.port_bytes)} a port inside"


def _by_card(load: AxisLoad) -> bool:
    cluster = cluster_named(_CARD)
    return load.card_bytes / cluster.between > load.port_bytes / cluster.inside


def _table(caption: str, loads: tuple[AxisLoad, ...]) -> Table:
    return Table(
        caption,
        ("axis", "groups", "in one node", "leaves a port inside", "leaves a network card", "time"),
        tuple(
            (
                _name(load.axis),
                f"{len(load.groups)} of {len(load.groups[0])} ranks",
                f"{load.within}",
                _size(load.port_bytes),
                _size(load.card_bytes),
                _time(load.seconds),
            )
            for load in loads
        ),
    )


def _sentence(
    shown: AxisLoad, loads: tuple[AxisLoad, ...], seconds: dict[_Degrees, float], axes: _Degrees
) -> str:
    name, count = _name(shown.axis), len(shown.groups)
    if len(shown.groups[0]) == 1:
        said = f"{name} has one rank a group and sends nothing"
    elif shown.within == count:
        said = f"All groups of {name} lie inside a node"
    elif shown.within:
        said = f"{shown.within} of {count} groups of {name} lie inside a node"
    else:
        said = f"Each group of {name} spans nodes"
    slowest = max(loads, key=lambda load: load.seconds)
    said += (
        f"; one after the other the step's messages take {_time(seconds[axes])}, most of it"
        f" {_name(slowest.axis)} with {_leaves(slowest)}"
    )
    best = min(seconds, key=lambda one: seconds[one])
    if seconds[best] > 0.999 * seconds[axes]:
        return f"{said}, and no other order is faster."
    return f"{said}; numbered {_said(best)} they take {_time(seconds[best])}."


_FEW: Final = tuple((n, n) for n in doublings(3))

EXPLORER = Explorer(
    "process-groups",
    "Process groups: which group runs over which wire",
    (
        Choice(
            "order", "Order, from neighbours on", "TP other DP",
            tuple((name, name.replace(" ", ", ")) for name in _ORDERS),
        ),
        Choice("tp", "Tensor ranks, TP", "2", _FEW),
        Choice(
            "other", "The other axis", "PP",
            tuple((name, f"{name}, {AXES[name].name}") for name in ("PP", "CP", "EP", "FSDP")),
        ),
        Choice("degree", "Its ranks", "2", _FEW),
        Choice(
            "look", "Groups to show", "TP", (("TP", "TP"), ("other", "the other"), ("DP", "DP")),
        ),
        Choice("nodes", "Nodes", "2", _FEW[:3]),
        Choice("per_node", "Cards in a node", "4", _FEW[1:]),
        Number("tokens", "Tokens of a replica", "8192", doublings(20)[8:], 8, 1 << 30),
        Number(
            "width", "Width, h", "4096",
            ("1024", "2048", "4096", "5120", "8192", "12288", "16384", "25600"), 8, 1e6,
        ),
    ),
    _draw,
)  # fmt: skip
