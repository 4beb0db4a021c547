"""A layout's step by the schedule simulator: its pipeline, or its layers on two streams.

Of long steps a few micro-batches are simulated, and each further one takes the steady time: that
by which the last of them, or the last round over a pipeline, made the step longer.

[Note: programs without names] A search simulates the same orders again and again. So an order is
compiled once, to the flat nodes of `shardbook.schedules.core`, with the number of a duration in
place of the duration; times are looked up for each run.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import fsum
from typing import Final

from shardbook.planner.layouts import Layout, layers_of, micro_batches
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.steptime import (
    Exchange,
    Layer,
    exchange,
    head_seconds,
    layer_time,
    one_pass,
    own_parameters,
    rhythm,
    sharded,
    transfer_seconds,
    update_seconds,
    with_offload,
)
from shardbook.schedules.core import Plan, simulate
from shardbook.schedules.fsdp import Policy, Unit, fsdp_plan
from shardbook.schedules.pipeline import make_order
from shardbook.schedules.pipeline.actions import FORWARD

#: transfers that are a smaller part of a chunk's work do not slow the pace of a full pipeline
_TRIFLE: Final = 0.01
#: passes over the layers that are simulated; each further one takes as long as the last of them
_PASSES: Final = 3


@dataclass(frozen=True, slots=True)
class _Nodes:
    """A compiled order: two predecessors a node, and which duration it takes."""

    first: list[int]
    second: list[int]
    duration: list[int]

    def makespan(self, seconds: list[float]) -> float:
        """The end of the last node if duration n takes ``seconds[n]``."""
        costs = [seconds[each] for each in self.duration]
        return simulate(Plan((), {}, costs, self.first, self.second, [], [])).makespan


def simulated_seconds(model: Model, cluster: Cluster, layout: Layout) -> float:
    """Return the step's time in s by the simulator (S71).

    With a pipeline, data parallelism's collectives and offloaded states keep their closed form;
    without one they run on a stream of their own.
    """
    layer, moved = layer_time(model, cluster, layout), exchange(model, cluster, layout)
    own = own_parameters(model, layout)
    at = layout.stage, layout.offload, layout.replicas
    if layout.pipeline == 1:
        slower = with_offload(cluster, moved, own, *at)
        update = update_seconds(cluster, own, *at)
        return _layers(model, cluster, layout, layer, slower) + update
    waits = sharded(cluster, moved, own, one_pass(model, cluster, layout), *at)
    return _pipeline(model, cluster, layout, layer) + sum(waits)


def _pipeline(model: Model, cluster: Cluster, layout: Layout, layer: Layer) -> float:
    count, layers = micro_batches(model, layout), layers_of(model, layout)
    head = head_seconds(model, cluster, layout)
    forward = [n * layer.forward_seconds for n in layers]
    backward = [n * layer.backward_seconds for n in layers]
    forward[-1] += head
    backward[-1] += 2 * head
    transfer = transfer_seconds(model, cluster, layout)
    seconds = [transfer, 0.0, *forward, *backward]

    def makespan(number: int) -> float:
        nodes = pipeline_nodes(layout.schedule, layout.pipeline, number, layout.chunks)
        return nodes.makespan(seconds)

    a_round = layout.pipeline
    if count <= 2 * a_round:
        return makespan(count)
    if 2 * transfer > _TRIFLE * (forward[0] + backward[0]):
        longer = makespan(2 * a_round)
        return longer + (count / a_round - 2) * (longer - makespan(a_round))
    ranks = range(a_round)
    busy = max(fsum(forward[rank::a_round] + backward[rank::a_round]) for rank in ranks)
    return makespan(a_round) + (count - a_round) * busy


@lru_cache(maxsize=256)
def pipeline_nodes(schedule: str, ranks: int, micro_batches: int, chunks: int) -> _Nodes:
    """Compile a pipeline of full backwards on two ranks or more. See [Note: programs without names].

    Duration 0 is a transfer, 1 none; then come the stages' forwards and their backwards.
    """
    order = make_order(schedule, ranks, micro_batches, chunks)
    stages = ranks * chunks
    none = 0
    first, second, duration = [none], [none], [1]
    # (stage, micro-batch) → the node with which a tensor has arrived, by direction
    arrived: tuple[dict[tuple[int, int | None], int], ...] = (
        {(0, each): none for each in range(micro_batches)},
        {(stages - 1, each): none for each in range(micro_batches)},
    )
    sent: dict[tuple[int, int], int] = {}
    tail, at, left = [none] * ranks, [0] * ranks, sum(map(len, order))
    while left:
        for rank, row in enumerate(order):
            begin = at[rank]
            for action in row[begin:]:
                stage, back = action.stage, action.kind != FORWARD
                ready = arrived[back].get((stage, action.micro_batch))
                if ready is None:
                    break
                at[rank] += 1
                first.append(tail[rank])
                second.append(ready)
                duration.append(2 + back * stages + stage)
                tail[rank] = len(first) - 1
                other = stage - 1 if back else stage + 1
                if 0 <= other < stages:
                    link = rank, other % ranks
                    first.append(tail[rank])
                    second.append(sent.get(link, none))
                    duration.append(0)
                    sent[link] = len(first) - 1
                    arrived[back][other, action.micro_batch] = len(first) - 1
            left -= at[rank] - begin
    return _Nodes(first, second, duration)


def _layers(model: Model, cluster: Cluster, layout: Layout, layer: Layer, moved: Exchange) -> float:
    count, number = micro_batches(model, layout), model.layers
    order = rhythm(layout.stage, layout.offload, layout.replicas)
    forward, backward = layer.forward_seconds, layer.backward_seconds
    gather = moved.all_gather / number if order == 3 else 0.0
    scatter = moved.reduce_scatter / number * (2 if order == 0 else 1)
    ran, pace = min(count, _PASSES), 0.0
    seconds = [0.0, forward, backward, gather, scatter]
    makespan = _layer_nodes(number, ran, accumulate=order < 2).makespan(seconds)
    if count > ran:
        fewer = _layer_nodes(number, ran - 1, accumulate=order < 2)
        pace = makespan - fewer.makespan(seconds)
    head = 3 * head_seconds(model, cluster, layout)
    after = 0.0
    if order in (1, 2) and layout.replicas > 1:
        # The gather of the updated weights runs beside the next step's forward.
        own = moved.all_gather / number
        after = max(own, number * own - (number - 1) * forward)
    return makespan + (count - ran) * pace + count * head + after


@lru_cache(maxsize=64)
def _layer_nodes(layers: int, passes: int, *, accumulate: bool) -> _Nodes:
    """Compile passes over equal layers: forward, backward, gather and scatter are 1 to 4."""
    policy = Policy(
        backward_prefetch=1, forward_prefetch=1, micro_batches=passes, accumulate=accumulate
    )
    plan = fsdp_plan((Unit(1.0, 2.0, 3.0, 4.0),) * layers, policy)
    return _Nodes(plan.first, plan.second, [int(number) for number in plan.seconds])
