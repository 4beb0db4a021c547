"""What runs when in a step of a layout, by the schedule simulator, to be drawn."""

from dataclasses import dataclass
from typing import Final

from shardbook.planner.layouts import Layout, micro_batches
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.simulated import (
    Nodes,
    layer_nodes,
    layer_seconds,
    pipeline_nodes,
    stage_seconds,
)

FORWARD: Final = "F"
BACKWARD: Final = "B"
GATHER: Final = "AG"
SCATTER: Final = "RS"
#: as `layer_nodes` numbers durations
_OF_LAYERS: Final = ("", FORWARD, BACKWARD, GATHER, SCATTER)


@dataclass(frozen=True, slots=True)
class Block:
    """Work of a lane, from ``start`` to ``end`` in s."""

    lane: int
    kind: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Blocks:
    """The work of ``shown`` micro-batches of a step, ``seconds`` in all.

    A lane is a pipeline rank; without a pipeline, the compute and the exchange of one card, in the
    micro-batch after which gradients are reduced.
    """

    lanes: tuple[str, ...]
    blocks: tuple[Block, ...]
    shown: int
    seconds: float


def blocks_of(model: Model, cluster: Cluster, layout: Layout) -> Blocks:
    """Return one micro-batch over the layers, or two rounds of them through the pipeline (S71)."""
    if layout.pipeline == 1:
        return _of_layers(model, layer_seconds(model, cluster, layout))
    shown = min(micro_batches(model, layout), 2 * layout.pipeline)
    seconds = stage_seconds(model, cluster, layout)
    nodes = pipeline_nodes(layout.schedule, layout.pipeline, shown, layout.chunks)
    stages = layout.pipeline * layout.chunks
    made = []
    for number, start, end in _timed(nodes, seconds):
        if number > 1:
            back, stage = divmod(number - 2, stages)
            made.append(Block(stage % layout.pipeline, BACKWARD if back else FORWARD, start, end))
    lanes = tuple(f"rank {rank}" for rank in range(layout.pipeline))
    return Blocks(lanes, tuple(made), shown, max(block.end for block in made))


def _of_layers(model: Model, seconds: list[float]) -> Blocks:
    made = [
        Block(0 if number < 3 else 1, _OF_LAYERS[number], start, end)
        for number, start, end in _timed(layer_nodes(model.layers, 1, accumulate=False), seconds)
        if number and end > start
    ]
    return Blocks(("compute", "exchange"), tuple(made), 1, max(block.end for block in made))


def _timed(nodes: Nodes, seconds: list[float]) -> list[tuple[int, float, float]]:
    """The number of each node's duration, its start and its end."""
    ends = nodes.ends(seconds)
    return [
        (number, end - seconds[number], end)
        for number, end in zip(nodes.duration, ends, strict=True)
    ]
