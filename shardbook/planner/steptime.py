"""How long a step of a layout takes, in closed form, and what bounds it.

Matrix products run at ``fraction`` of the card's peak. Collectives are rings: N − 1 latencies and
(N − 1)/N of the bytes a reduce-scatter or an all-gather. Groups are laid out with tensor innermost,
then context, data and pipeline; a group that does not fit a node uses the link between nodes.
Tensor and expert collectives are waited for; context's exchange hides behind attention; data
parallelism's hides behind the compute of all layers but one. The optimizer's own time is left out,
unless it runs on the host.

[Note: offload] What leaves the card moves with the collectives, each card its own part: weights
come up before they are gathered and gradients go down once they are scattered, on links of their
own, so that the slowest of them sets the pace (ZeRO-Infinity, SC 2021, §5 and §6); checkpoints that
lie in the host's memory share the way up. Then the host updates, and nothing of that is hidden.
"""

from dataclasses import dataclass
from typing import Final

from shardbook.planner.layouts import Layout, layers_of, leaves_the_card, micro_batches
from shardbook.planner.memory import checkpoint_bytes, split_parameters
from shardbook.planner.presets import Cluster, Model

_HALF: Final = 2
#: Adam on a DGX-2's CPUs: 10 billion parameters in 2.57 s (ZeRO-Offload, ATC 2021, Table 4)
HOST_UPDATES: Final = 10e9 / 2.57
_SWAPPED: Final = 14 + 14  # B read (all but the weight) and written (all but the gradient) on NVMe


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer and micro-batch on one card, in s: computing and waiting for others."""

    forward: float
    again: float
    tensor: float
    context: float
    expert: float
    full: bool

    @property
    def forward_seconds(self) -> float:
        """Forward with its collectives."""
        return self.forward + self.tensor + self.context + self.expert

    @property
    def backward_seconds(self) -> float:
        """Backward, twice the forward, with its collectives and what is recomputed."""
        waits = self.tensor + 2 * self.context + self.expert
        repeated = self.tensor + self.context + self.expert if self.full else 0.0
        return 2 * self.forward + self.again + waits + repeated


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step in s, by what the slowest pipeline rank does; ``pipeline`` is bubble and transfers."""

    compute: float
    tensor: float
    context: float
    expert: float
    pipeline: float
    data: float
    offload: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        waits = self.tensor + self.context + self.expert + self.pipeline
        return self.compute + waits + self.data + self.offload

    @property
    def bound(self) -> str:
        """The part that takes longest."""
        return max(self.__slots__, key=lambda name: float(getattr(self, name)))

    @property
    def waits_most_for(self) -> str:
        """The largest part that is not compute, or ``nothing``."""
        name = max(self.__slots__[1:], key=lambda name: float(getattr(self, name)))
        return name if getattr(self, name) > 0 else "nothing"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Data parallelism's collectives for one pass over all of a rank's layers, in s."""

    all_gather: float
    reduce_scatter: float


@dataclass(frozen=True, slots=True)
class Pass:
    """What a step takes whatever is sharded and offloaded, in s.

    ``base``: compute, tensor, context, expert and pipeline. ``forward`` and ``backward`` are of all
    the ``layers`` of a rank, in each of the ``count`` micro-batches. ``checkpoints``: B of the
    layers' inputs that a full recomputation keeps, else 0.
    """

    base: tuple[float, float, float, float, float]
    forward: float
    backward: float
    layers: int
    count: int
    checkpoints: int = 0

    @property
    def base_seconds(self) -> float:
        """All of ``base``."""
        compute, tensor, context, expert, pipeline = self.base
        return compute + (tensor + context + expert + pipeline)


def link(cluster: Cluster, span: int) -> tuple[float, float]:
    """Latency in s and bandwidth in B/s of a group whose ranks span ``span`` neighbours."""
    if span <= cluster.cards:
        return cluster.inside_latency, cluster.inside
    return cluster.between_latency, cluster.between


def gather_seconds(cluster: Cluster, size: float, ranks: int, span: int) -> float:
    """A ring's all-gather or reduce-scatter of ``size`` bytes (B), in s."""
    latency, bandwidth = link(cluster, span)
    return (ranks - 1) * (latency + size / ranks / bandwidth)


def layer_time(model: Model, cluster: Cluster, layout: Layout) -> Layer:
    """The times of one layer and micro-batch on one card."""
    speed = cluster.card.peak * cluster.fraction
    t, c, e = layout.tensor, layout.context, layout.expert
    tokens = layout.micro_batch * model.sequence / c
    attention = tokens * 4 * model.sequence * model.hidden / t / speed
    forward = tokens * model.layer_flops / t / speed
    # Two all-reduces, or as much in reduce-scatters and all-gathers (Korthikanti et al., 2023, §4).
    size = tokens * model.hidden * _HALF
    tensor = 4 * gather_seconds(cluster, size, t, t)
    context = 0.0
    if c > 1:
        keys = 2 * size * model.kv_heads / model.heads / t
        rings = gather_seconds(cluster, keys * c, c, t * c)
        context = max(0.0, rings - attention * (c - 1) / c)
    expert = 0.0
    if e > 1:
        expert = 2 * gather_seconds(cluster, size * model.active / t, e, t * c * e)
    again = {"none": 0.0, "selective": attention, "full": forward}[layout.recompute]
    return Layer(forward, again, tensor, context, expert, layout.recompute == "full")


def head_seconds(model: Model, cluster: Cluster, layout: Layout) -> float:
    """The output layer's forward of one micro-batch on one card, in s."""
    tokens = layout.micro_batch * model.sequence / layout.context
    return tokens * model.head_flops / layout.tensor / (cluster.card.peak * cluster.fraction)


def transfer_seconds(model: Model, cluster: Cluster, layout: Layout) -> float:
    """One boundary tensor from a pipeline rank to the next, in s; each card sends its part."""
    if layout.pipeline == 1:
        return 0.0
    latency, bandwidth = link(cluster, cluster.size // layout.pipeline + 1)
    tokens = layout.micro_batch * model.sequence
    size = tokens * model.hidden * _HALF / (layout.context * layout.tensor)
    return latency + size / bandwidth


def exchange(model: Model, cluster: Cluster, layout: Layout) -> Exchange:
    """Gather all of a rank's weights, or scatter all its gradients, layer by layer."""
    dense, experts = split_parameters(model, layout)
    layers = max(layers_of(model, layout)) * layout.chunks
    n, span = layout.replicas, layout.tensor * layout.replicas
    one = gather_seconds(cluster, _HALF * dense / layers, n, span)
    if experts:
        one += gather_seconds(cluster, _HALF * experts / layers, n // layout.expert, span)
    return Exchange(layers * one, layers * one)


def own_parameters(model: Model, layout: Layout) -> float:
    """Parameters whose states are one card's own once they are sharded."""
    dense, experts = split_parameters(model, layout)
    return dense / layout.replicas + experts * layout.expert / layout.replicas


def with_offload(
    cluster: Cluster, moved: Exchange, own: float, checkpoints: int,
    stage: int, offload: str, replicas: int,
) -> Exchange:  # fmt: skip
    """The exchange at the pace of its slowest link. See [Note: offload]."""
    leaving, size = leaves_the_card(stage, offload, replicas), _HALF * own
    up = down = 0.0
    if "weights" in leaving:
        up = (size + checkpoints * (offload == "nvme")) / cluster.host_bandwidth
    if "gradients" in leaving:
        down = size / cluster.host_bandwidth
    if offload == "nvme":
        up, down = (max(each, size / cluster.nvme_bandwidth) for each in (up, down))
    return Exchange(max(moved.all_gather, up), max(moved.reduce_scatter, down))


def rhythm(stage: int, offload: str, replicas: int) -> int:
    """The stage in whose order collectives run: gradients that leave go after each micro-batch."""
    return max(stage, 2) if "gradients" in leaves_the_card(stage, offload, replicas) else stage


def waited(order: int, moved: Exchange, done: Pass) -> float:
    """What of the exchange in the order of this stage sticks out of a step's compute, in s."""
    scatter, gather, layers = moved.reduce_scatter, moved.all_gather, done.layers
    if order == 3:
        more = max(0.0, gather - done.forward) + max(0.0, gather + scatter - done.backward)
        return done.count * more + (gather + scatter) / layers
    if order == 0:
        return _exposed(2 * scatter, done.backward, layers)
    last = _exposed(scatter, done.backward, layers) + _exposed(gather, done.forward, layers)
    if order == 1:
        return last
    return (done.count - 1) * max(0.0, scatter - done.backward) + last


def _exposed(moved: float, compute: float, layers: int) -> float:
    """What sticks out if the first layer's collective starts when its compute has ended."""
    return max(moved / layers, moved - compute * (layers - 1) / layers)


def update_seconds(cluster: Cluster, own: float, stage: int, offload: str, replicas: int) -> float:
    """The optimizer's step on the host, with what moves for it alone, in s."""
    if not (leaving := leaves_the_card(stage, offload, replicas)):
        return 0.0
    # The cards of a node share its CPUs; a DGX-2 is taken for every host.
    seconds = own * cluster.cards / HOST_UPDATES
    moved = ("gradients" not in leaving) + ("weights" not in leaving)
    seconds += own * _HALF * moved / cluster.host_bandwidth
    return seconds + (own * _SWAPPED / cluster.nvme_bandwidth if offload == "nvme" else 0.0)


def one_pass(model: Model, cluster: Cluster, layout: Layout) -> Pass:
    """What a step takes whatever stage and offload are.

    A pipeline takes m times its slowest rank and once the others, over the chunks; a transfer is
    waited for on the way in and out of each rank, and each time if what is in flight can't hide it.
    """
    count = micro_batches(model, layout)
    layer = layer_time(model, cluster, layout)
    layers = layers_of(model, layout)
    head = 3 * head_seconds(model, cluster, layout)
    forward, backward = layer.forward_seconds, layer.backward_seconds
    work = forward + backward
    first, middle, last = (n * layout.chunks for n in (layers[0], max(layers), layers[-1]))
    busy, slow, pipeline = last * work + head, last, 0.0
    if layout.pipeline > 1:
        if middle * work >= busy:
            busy, slow = middle * work, middle
        everything = (first + (layout.pipeline - 2) * middle + last) * work + head
        hops = 2 * (layout.pipeline * layout.chunks - 1)
        transfer = transfer_seconds(model, cluster, layout)
        pipeline = (everything - busy) / layout.chunks + hops * transfer
        if layout.schedule == "gpipe":
            late = max(0.0, transfer - slow * forward) + max(0.0, transfer - slow * backward)
            pipeline += (count - 1) * late
        else:
            # A rank starts another micro-batch when one of those in flight is back.
            flying = layout.pipeline if layout.chunks == 1 else 2 * layout.pipeline - 1
            back = (everything + hops * transfer) / flying
            if layout.pipeline == 2:  # neighbouring chunks share a link
                back = max(back, hops // 2 * transfer)
            pipeline += max(0, count - flying) * max(0.0, back - busy)
    collectives = 3 if layer.full else 2
    shared = count * slow
    base = (
        count * (busy - slow * work) + shared * (3 * layer.forward + layer.again),
        shared * collectives * layer.tensor,
        shared * (collectives + 1) * layer.context,
        shared * collectives * layer.expert,
        pipeline,
    )
    kept = checkpoint_bytes(model, layout) * middle if layer.full else 0
    return Pass(base, middle * forward, middle * backward, middle, count, kept)


def sharded(
    cluster: Cluster, moved: Exchange, own: float, done: Pass,
    stage: int, offload: str, replicas: int,
) -> tuple[float, float]:  # fmt: skip
    """What a step waits for data parallelism, and on top of that for offloaded states, in s."""
    data = waited(stage, moved, done)
    if offload == "none":
        return data, 0.0
    slower = with_offload(cluster, moved, own, done.checkpoints, stage, offload, replicas)
    more = waited(rhythm(stage, offload, replicas), slower, done) - data
    return data, more + update_seconds(cluster, own, stage, offload, replicas)


def step_time(model: Model, cluster: Cluster, layout: Layout) -> StepTime:
    """Return a step's closed form (S71)."""
    done, moved = one_pass(model, cluster, layout), exchange(model, cluster, layout)
    return StepTime(
        *done.base,
        *sharded(
            cluster, moved, own_parameters(model, layout), done,
            layout.stage, layout.offload, layout.replicas,
        ),
    )  # fmt: skip
