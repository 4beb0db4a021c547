"""A layout's step by the schedule simulator: its pipeline, or its layers on two streams.

Long steps are simulated for their first micro-batches; each further one takes the steady time.
"""

from typing import Final

from shardbook.planner.layouts import Layout, layers_of, micro_batches
from shardbook.planner.memory import split_parameters
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.steptime import (
    data_seconds,
    exchange,
    head_seconds,
    layer_time,
    offload_seconds,
    transfer_seconds,
)
from shardbook.schedules.fsdp import Policy, Unit, fsdp_run
from shardbook.schedules.pipeline import StageTimes, make_order, run_order

#: actions of a pipeline, or units × passes, that are simulated before it counts as steady
_ACTIONS: Final = 2500


def simulated_seconds(model: Model, cluster: Cluster, layout: Layout) -> float:
    """Return the step's time in s by the simulator (S71).

    With a pipeline, data parallelism's collectives keep their closed form; without one they run
    on a stream of their own.
    """
    host = offload_seconds(cluster, layout, sum(split_parameters(model, layout)[:2]))
    if layout.pipeline > 1:
        return _pipeline(model, cluster, layout) + host
    return _layers(model, cluster, layout) + host


def _pipeline(model: Model, cluster: Cluster, layout: Layout) -> float:
    count, layer = micro_batches(model, layout), layer_time(model, cluster, layout)
    layers = layers_of(model, layout)
    head = head_seconds(model, cluster, layout)
    forward = [n * layer.forward_seconds for n in layers]
    backward = [n * layer.backward_seconds for n in layers]
    forward[-1] += head
    backward[-1] += 2 * head
    width = layout.pipeline
    most = max(1, _ACTIONS // (2 * width * width * layout.chunks)) * width
    ran = count if count <= most else most
    run = run_order(
        make_order(layout.schedule, width, ran, layout.chunks),
        StageTimes(forward, backward, 0.0, transfer_seconds(model, cluster, layout)),
    )
    slowest = max(run.busy) / ran
    data = data_seconds(
        layout, exchange(model, cluster, layout), max(layers) * layout.chunks, count, layer
    )
    return run.makespan + (count - ran) * slowest + data


def _layers(model: Model, cluster: Cluster, layout: Layout) -> float:
    count, layer = micro_batches(model, layout), layer_time(model, cluster, layout)
    number = model.layers
    moved = exchange(model, cluster, layout)
    gather = moved.all_gather / number if layout.stage == 3 else 0.0
    scatter = moved.reduce_scatter / number * (2 if layout.stage == 0 else 1)
    unit = Unit(layer.forward_seconds, layer.backward_seconds, gather, scatter)
    head = 3 * head_seconds(model, cluster, layout)
    ran = min(count, max(2, _ACTIONS // (4 * number)))
    policy = Policy(
        backward_prefetch=1, forward_prefetch=1, micro_batches=ran, accumulate=layout.stage < 2
    )
    makespan = fsdp_run((unit,) * number, policy).makespan
    forward = max(unit.forward, gather)
    backward = max(unit.backward, gather + (scatter if layout.stage >= 2 else 0.0))
    steady = number * (forward + backward)
    after = 0.0
    if layout.stage in (1, 2) and layout.replicas > 1:
        # The gather of the updated weights runs beside the next step's forward.
        own = moved.all_gather / number
        after = max(own, number * own - (number - 1) * unit.forward)
    return makespan + (count - ran) * steady + count * head + after
