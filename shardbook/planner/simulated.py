"""A layout's step by the schedule simulator: its pipeline, or its layers on two streams.

Of long steps a few micro-batches are simulated, and each further one takes the steady time: that
by which the last of them, or the last round over a pipeline, made the step longer.

[Note: programs without names] A search simulates the same orders again and again. So an order is
compiled once, to the flat nodes of `shardbook.schedules.core`, with the number of a duration in
place of the duration; times are looked up for each run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum
from typing import Final

from shardbook.planner.layouts import Layout, layers_of, micro_batches
from shardbook.planner.memory import checkpoint_bytes
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.steptime import (
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

#: the part of a chunk's work up to which other schedules than 1F1B hide the way to a neighbour and
#: back behind further micro-batches; 1F1B has none to hide it behind
_HIDDEN: Final = 0.5
#: passes over the layers that are simulated; each further one takes as long as the last of them
_PASSES: Final = 3


@dataclass(frozen=True, slots=True)
class Nodes:
    """A compiled order: two predecessors a node, and the number of the duration it takes."""

    first: list[int]
    second: list[int]
    duration: list[int]

    def ends(self, seconds: Sequence[float]) -> list[float]:
        """When each node ends, in s, if duration n takes ``seconds[n]``."""
        costs = [seconds[each] for each in self.duration]
        return simulate(Plan((), {}, costs, self.first, self.second, [], [])).node_ends

    def makespan(self, seconds: Sequence[float]) -> float:
        """When all nodes have ended, in s."""
        return max(self.ends(seconds))


def simulated_seconds(model: Model, cluster: Cluster, layout: Layout) -> float:
    """Return the step's time in s by the simulator (S71).

    With a pipeline, data parallelism's collectives and offloaded states keep their closed form;
    without one they run on a stream of their own.
    """
    own = own_parameters(model, layout)
    at = layout.stage, layout.offload, layout.replicas
    if layout.pipeline == 1:
        return _layers(model, cluster, layout) + update_seconds(cluster, own, *at)
    moved = exchange(model, cluster, layout)
    waits = sharded(cluster, moved, own, one_pass(model, cluster, layout), *at)
    return _pipeline(model, cluster, layout) + sum(waits)


def _pipeline(model: Model, cluster: Cluster, layout: Layout) -> float:
    count, a_round = micro_batches(model, layout), layout.pipeline
    seconds = tuple(stage_seconds(model, cluster, layout))

    def makespan(number: int) -> float:
        return _makespan(layout.schedule, a_round, number, layout.chunks, seconds)

    if count <= 2 * a_round:
        return makespan(count)
    transfer, work = seconds[0], seconds[2:]
    hidden = _HIDDEN * (work[0] + work[a_round * layout.chunks])
    if layout.schedule == "1f1b" or 2 * transfer > hidden:
        longer = makespan(2 * a_round)
        return longer + (count / a_round - 2) * (longer - makespan(a_round))
    busy = max(fsum(work[rank::a_round]) for rank in range(a_round))
    return makespan(a_round) + (count - a_round) * busy


@lru_cache(maxsize=256)
def _makespan(
    schedule: str, ranks: int, micro_batches: int, chunks: int, seconds: tuple[float, ...]
) -> float:
    """A pipeline's time in s; stage and offload don't change it."""
    return pipeline_nodes(schedule, ranks, micro_batches, chunks).makespan(seconds)


def stage_seconds(model: Model, cluster: Cluster, layout: Layout) -> list[float]:
    """The durations of a pipeline in s, as `pipeline_nodes` numbers them."""
    layer, layers = layer_time(model, cluster, layout), layers_of(model, layout)
    head = head_seconds(model, cluster, layout)
    forward = [n * layer.forward_seconds for n in layers]
    backward = [n * layer.backward_seconds for n in layers]
    forward[-1] += head
    backward[-1] += 2 * head
    return [transfer_seconds(model, cluster, layout), 0.0, *forward, *backward]


@lru_cache(maxsize=256)
def pipeline_nodes(schedule: str, ranks: int, micro_batches: int, chunks: int) -> Nodes:
    """Compile a pipeline of full backwards on two ranks or more. See [Note: programs without names].

    Duration 0 is a transfer, 1 none; then come the stages' forwards and their backwards.
    """
    order = make_order(schedule, ranks, micro_batches, chunks)
    stages = ranks * chunks
    first, second, duration = [0], [0], [1]
    # The node with which a tensor arrives: forwards of all stages, then backwards; -1 is not yet.
    arrived = [[-1] * micro_batches for _ in range(2 * stages)]
    arrived[0] = arrived[-1] = [0] * micro_batches
    sent: dict[tuple[int, int], int] = {}
    tail, at, left, node = [0] * ranks, [0] * ranks, sum(map(len, order)), 0
    while left:
        for rank, row in enumerate(order):
            last, step = tail[rank], at[rank]
            for action in row[step:]:
                stage, forward = action.stage, action.kind == FORWARD
                micro_batch = action.micro_batch or 0
                what = stage if forward else stages + stage
                ready = arrived[what][micro_batch]
                if ready < 0:
                    break
                node, step = node + 1, step + 1
                first.append(last)
                second.append(ready)
                duration.append(2 + what)
                last = node
                target = stage + 1 if forward else stage - 1
                if 0 <= target < stages:
                    link, node = (rank, target % ranks), node + 1
                    first.append(last)
                    second.append(sent.get(link, 0))
                    duration.append(0)
                    sent[link] = node
                    arrived[target if forward else stages + target][micro_batch] = node
            left -= step - at[rank]
            tail[rank], at[rank] = last, step
    return Nodes(first, second, duration)


def _layers(model: Model, cluster: Cluster, layout: Layout) -> float:
    count, number = micro_batches(model, layout), model.layers
    order = rhythm(layout.stage, layout.offload, layout.replicas)
    ran, pace = min(count, _PASSES), 0.0
    seconds = layer_seconds(model, cluster, layout)
    makespan = layer_nodes(number, ran, accumulate=order < 2).makespan(seconds)
    if count > ran:
        fewer = layer_nodes(number, ran - 1, accumulate=order < 2)
        pace = makespan - fewer.makespan(seconds)
    head = 3 * head_seconds(model, cluster, layout)
    after = 0.0
    if order in (1, 2) and layout.replicas > 1:
        # The gather of the updated weights runs beside the next step's forward.
        own = exchange(model, cluster, layout).all_gather / number
        after = max(own, number * own - (number - 1) * seconds[1])
    return makespan + (count - ran) * pace + count * head + after


def layer_seconds(model: Model, cluster: Cluster, layout: Layout) -> list[float]:
    """The durations of a layer in s, as `layer_nodes` numbers them."""
    layer, at = layer_time(model, cluster, layout), (layout.stage, layout.offload, layout.replicas)
    moved, order = exchange(model, cluster, layout), rhythm(*at)
    kept = checkpoint_bytes(model, layout) * model.layers if layer.full else 0
    moved = with_offload(cluster, moved, own_parameters(model, layout), kept, *at)
    gather = moved.all_gather / model.layers if order == 3 else 0.0
    scatter = moved.reduce_scatter / model.layers * (2 if order == 0 else 1)
    return [0.0, layer.forward_seconds, layer.backward_seconds, gather, scatter]


@lru_cache(maxsize=64)
def layer_nodes(layers: int, passes: int, *, accumulate: bool) -> Nodes:
    """Compile passes over equal layers. See [Note: programs without names].

    Durations 1 to 4 are forward, backward, gather and scatter; 0 is none.
    """
    policy = Policy(
        backward_prefetch=1, forward_prefetch=1, micro_batches=passes, accumulate=accumulate
    )
    plan = fsdp_plan((Unit(1.0, 2.0, 3.0, 4.0),) * layers, policy)
    return Nodes(plan.first, plan.second, [int(number) for number in plan.seconds])
