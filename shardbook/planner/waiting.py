"""Ways to send less over the slow wires, for a layout that fits but waits."""

from dataclasses import dataclass, replace
from typing import Final

from shardbook.planner.layouts import Layout, Limits, micro_batches, refused
from shardbook.planner.memory import peak_memory, too_large
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.steptime import (
    Exchange,
    Pass,
    exchange,
    gather_seconds,
    layer_time,
    step_time,
    waited,
)

_USABLE: Final = Limits().usable
_HALF: Final = 2


@dataclass(frozen=True, slots=True)
class Remedy:
    """A way to send less over the slow wires: its layout, and a step's time in s."""

    name: str
    layout: Layout
    seconds: float


def remedies(model: Model, cluster: Cluster, layout: Layout) -> tuple[Remedy, ...]:
    """Ways to wait less that fit, the quickest first; the layout itself is among them (S72)."""
    found = [Remedy("as it is", layout, step_time(model, cluster, layout).seconds)]
    others = [
        (f"micro-batches of {size} sequences", replace(layout, micro_batch=size))
        for size in (2, 4, 8)
    ]
    if layout.expert == 1 < model.experts:
        others += [
            (f"experts over {size} cards", replace(layout, expert=size))
            for size in range(2, model.experts + 1)
            if model.experts % size == 0
        ]
    if layout.tensor == 1 and layout.data % cluster.cards == 0:
        cut = replace(layout, tensor=cluster.cards, data=layout.data // cluster.cards)
        others.append(("tensor parallelism inside the node", cut))
    found += [
        Remedy(name, each, step_time(model, cluster, each).seconds)
        for name, each in others
        if _fits(model, cluster, each)
    ]
    seconds = hybrid_seconds(model, cluster, layout)
    if seconds is not None:
        found.append(Remedy("hybrid sharding: cut inside the node", layout, seconds))
    return tuple(sorted(found, key=lambda each: each.seconds))


def hybrid_seconds(model: Model, cluster: Cluster, layout: Layout) -> float | None:
    """A step's time in s if states are cut inside a node only, or None if that makes no sense.

    Gathers stay inside; what a card owns of the gradients is summed between the nodes once a step
    (Zhao et al., FSDP, VLDB 2023, §3.2.2). None too if the larger shards do not fit.
    """
    width, rest = divmod(cluster.cards, layout.tensor)
    nodes = layout.data // width if width else 0
    simple = layout.context == layout.expert == layout.pipeline == 1
    if rest or width < 2 or nodes < 2 or not simple:
        return None
    inside = replace(layout, data=width)
    if too_large(cluster, peak_memory(model, inside), _USABLE):
        return None
    count, layer = micro_batches(model, layout), layer_time(model, cluster, layout)
    forward, backward = (model.layers * s for s in (layer.forward_seconds, layer.backward_seconds))
    done = Pass((0.0,) * 5, forward, backward, model.layers, count)
    every = waited(inside.stage, exchange(model, cluster, inside), done)
    own = _HALF * model.parameters / layout.tensor / width
    across = 2 * gather_seconds(cluster, own, nodes, cluster.size)
    once = waited(1, Exchange(0.0, across), done)
    return replace(step_time(model, cluster, layout), data=every + once).seconds


def _fits(model: Model, cluster: Cluster, layout: Layout) -> bool:
    if refused(model, cluster, layout) is not None:
        return False
    return too_large(cluster, peak_memory(model, layout), _USABLE) is None
