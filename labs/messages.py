"""Who talks to whom on a few nodes, and how much: by hand and counted. (S70)

Two layouts of the same cards: tensor parallelism in the node and data parallelism between the
nodes, and data parallelism over all. Activations are all-reduced among the tensor ranks,
gradients reduce-scattered among the ranks that hold the same weights.
"""

from typing import Any

from labs.config import Messages
from shardbook.collectives.groups import process_groups
from shardbook.collectives.measure import measure
from shardbook.collectives.network import Link, two_level
from shardbook.collectives.plan import Plan
from shardbook.collectives.ring import ring_all_reduce, ring_reduce_scatter
from shardbook.errors import InputError
from shardbook.training.flat import flat_units

Tables = dict[str, list[dict[str, Any]]]


def run_messages(config: Messages, seed: int) -> Tables:
    """Return groups, and messages with what a rank sends by hand and counted in the ring.

    Raises:
        InputError: a layer's width that the cards of a node do not divide.
    """
    nodes, cards = config.nodes, config.cards_per_node
    for width in config.layers[1:]:
        if width % cards:
            raise InputError("layers", width, f"give widths that {cards} cards a node divide")
    groups = {
        "TP": process_groups({"TP": cards, "DP": nodes})["TP"],
        "DP": process_groups({"TP": cards, "DP": nodes})["DP"],
        "DP over all": process_groups({"DP over all": nodes * cards})["DP over all"],
    }
    messages = []
    for unit, shape in enumerate(flat_units(config.layers, nodes * cards)):
        activation = config.rows * shape.outputs
        for axis, what, elements in (
            ("TP", "activation", activation),
            ("DP", "gradient", shape.padded // cards),
            ("DP over all", "gradient", shape.padded),
        ):
            messages.append(_message(config, unit, axis, what, elements, groups[axis][0]))
    return {
        "groups": [
            {
                "axis": axis,
                "ranks": " ".join(map(str, group)),
                "leaves_the_node": len({rank // cards for rank in group}) > 1,
            }
            for axis, members in groups.items()
            for group in members
        ],
        "messages": messages,
        "a_step": _sums(messages),
    }


def _message(
    config: Messages, unit: int, axis: str, what: str, elements: int, group: tuple[int, ...]
) -> dict[str, Any]:
    n, size = len(group), elements * config.element_bytes
    twice = 2 if what == "activation" else 1
    plan: Plan = (ring_all_reduce if twice == 2 else ring_reduce_scatter)(group, elements)
    link = Link(0.0, 1.0)
    network = two_level(link, link, config.cards_per_node)
    counted = measure(plan, network, config.element_bytes)
    return {
        "unit": unit,
        "axis": axis,
        "message": what,
        "collective": plan.collective,
        "bytes": size,
        "by_hand": f"{'2 · ' if twice == 2 else ''}{n - 1}/{n} · {size} B",
        "sent_by_hand": twice * (n - 1) * size / n,
        "sent_counted": max(counted.sent),
        "between_nodes_bytes": counted.between_bytes,
    }


def _sums(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the units' messages: what a rank sends of each kind, all units once."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for each in messages:
        key = each["axis"], each["message"]
        row = sums.setdefault(key, {"axis": key[0], "message": key[1]})
        for name in ("bytes", "sent_by_hand", "sent_counted", "between_nodes_bytes"):
            row[name] = row.get(name, 0) + each[name]
    return list(sums.values())
