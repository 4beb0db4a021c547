"""A layout: how a model and its batch are dealt out, and what of it is worth looking at."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shardbook.errors import InputError, one_of, real, whole
from shardbook.ledger.activations import RECOMPUTE
from shardbook.planner.presets import Cluster, Model

#: schedules of a pipeline that the planner tries, the simplest first
SCHEDULES: Final = ("1f1b", "gpipe", "interleaved-1f1b")
#: where states go that leave the card, the simplest first
OFFLOAD: Final = ("none", "host", "nvme")


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees whose product is the number of cards (expert lies within data), and the choices.

    ``stage`` shards over data × context. ``micro_batch`` is in sequences; ``chunks`` are stages a
    pipeline rank. ``offload``: the optimizer's states lie in the host's memory or on NVMe, and
    its step runs on the host (see `leaves_the_card` for the rest).
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    pipeline: int = 1
    data: int = 1
    stage: int = 0
    recompute: str = "none"
    micro_batch: int = 1
    schedule: str = "1f1b"
    chunks: int = 1
    offload: str = "none"

    @property
    def cards(self) -> int:
        """Cards in use."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def replicas(self) -> int:
        """Cards that would each hold the same weights: data × context."""
        return self.data * self.context

    @property
    def complexity(self) -> int:
        """How much there is to set up: kinds of splitting first, then stage and the rest."""
        kinds = sum(size > 1 for size in (self.tensor, self.context, self.expert, self.pipeline))
        rest = RECOMPUTE.index(self.recompute) + (self.chunks > 1)
        return 4 * kinds + rest + sharding_complexity(self.stage, self.offload, self.replicas)

    def __str__(self) -> str:
        degrees = {
            "TP": self.tensor, "CP": self.context, "EP": self.expert, "PP": self.pipeline,
        }  # fmt: skip
        parts = [f"{name} {size}" for name, size in degrees.items() if size > 1]
        parts += [f"DP {self.data}", f"stage {self.stage}", f"micro-batch {self.micro_batch}"]
        if self.pipeline > 1:
            chunks = f" × {self.chunks}" if self.chunks > 1 else ""
            parts.append(f"{self.schedule}{chunks}")
        if self.recompute != "none":
            parts.append(f"recompute {self.recompute}")
        if self.offload != "none":
            parts.append(f"offload to {'NVMe' if self.offload == 'nvme' else 'the host'}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Limits:
    """What is searched; ``usable`` is the part of a card's memory that may be filled."""

    stages: tuple[int, ...] = (0, 1, 2, 3)
    recompute: tuple[str, ...] = RECOMPUTE
    schedules: tuple[str, ...] = SCHEDULES
    most_micro_batch: int = 8
    most_pipeline: int = 64
    offload: tuple[str, ...] = OFFLOAD
    usable: float = 0.92

    def __post_init__(self) -> None:
        for stage in self.stages:
            whole("stage", stage, 0, 3)
        for name in self.recompute:
            one_of("recompute", name, RECOMPUTE)
        for name in self.schedules:
            one_of("schedule", name, SCHEDULES)
        for name in self.offload:
            one_of("offload", name, OFFLOAD)
        if not (self.stages and self.recompute and self.schedules and self.offload):
            allowed = "give at least one stage, recomputation, schedule and place for the states"
            raise InputError("limits", self, allowed)
        whole("most micro-batch", self.most_micro_batch, 1, 1024)
        whole("most pipeline", self.most_pipeline, 1, 4096)
        real("usable", self.usable, 0.01, 1)


def sharding_complexity(stage: int, offload: str, replicas: int) -> int:
    """What the stage and the place of the states add to `Layout.complexity`."""
    shards = replicas > 1 or offload != "none"
    return (stage if shards else 0) + 2 * OFFLOAD.index(offload)


def leaves_the_card(stage: int, offload: str, replicas: int) -> tuple[str, ...]:
    """Which of weights, gradients and optimizer states an offload moves off the card.

    Gradients go where no card keeps all of them: from stage 2 on, or on a card without replicas
    (Ren et al., ZeRO-Offload, ATC 2021, §4); weights at stage 3, which fetches them layer by layer
    (Rajbhandari et al., ZeRO-Infinity, SC 2021, §5.1).
    """
    if offload == "none":
        return ()
    gradients = ("gradients",) if stage >= 2 or replicas == 1 else ()
    return ("optimizer", *gradients, *(("weights",) if stage == 3 else ()))


def micro_batches(model: Model, layout: Layout) -> int:
    """Micro-batches a step of each pipeline, or 0 if the batch does not divide."""
    sequences = model.batch // model.sequence
    count, rest = divmod(sequences, layout.data * layout.micro_batch)
    return 0 if rest else count


def layers_of(model: Model, layout: Layout) -> tuple[int, ...]:
    """Layers of each stage-chunk, in the model's order; () if they do not divide.

    The last one, and the first too, may have one less, to make room for head and embedding as in
    Llama 3 405B (Llama Team, 2024, §3.3.2).
    """
    return _spread(model.layers, layout.pipeline * layout.chunks)


@lru_cache(maxsize=1 << 10)
def _spread(layers: int, stages: int) -> tuple[int, ...]:
    each = -(-layers // stages)
    spare = each * stages - layers
    if spare > min(2, stages - 1) or (spare and each == 1):
        return ()
    counts = [each] * stages
    counts[-1] -= spare >= 1
    counts[0] -= spare == 2
    return tuple(counts)


def refused(model: Model, cluster: Cluster, layout: Layout) -> str | None:
    """Why a layout can't be set up at all, in a few words, or None."""
    count = micro_batches(model, layout)
    checks = (
        (layout.cards != cluster.size, "degrees do not multiply to the cards"),
        (layout.tensor > cluster.cards, "tensor parallelism would leave the node"),
        (model.heads % layout.tensor, "tensor parallelism does not divide the heads"),
        (model.sequence % (2 * layout.context) and layout.context > 1,
         "context parallelism does not divide the sequence"),
        (model.experts % layout.expert, "expert parallelism does not divide the experts"),
        (layout.data % layout.expert, "expert parallelism does not divide data parallelism"),
        (not layers_of(model, layout), "stages do not divide the layers"),
        (not count, "the batch does not divide"),
        (layout.schedule != "gpipe" and count < layout.pipeline,
         "1F1B needs as many micro-batches as stages"),
        (layout.chunks > 1 and count % layout.pipeline,
         "interleaving needs micro-batches in multiples of the stages"),
        (layout.offload != "none" and layout.replicas > 1 and not layout.stage,
         "offload needs sharded optimizer states"),
        (layout.offload == "nvme" and layout.stage < 3, "offload to NVMe needs stage 3"),
        (layout.offload == "nvme" and not cluster.nvme_memory, "the nodes have no NVMe"),
    )  # fmt: skip
    return next((reason for bad, reason in checks if bad), None)


def shardings(cluster: Cluster, limits: Limits, replicas: int) -> list[tuple[int, str]]:
    """Pairs of stage and offload to try where so many cards would hold the same weights.

    A card without replicas has nothing to shard: the first stage stands for all, but for stage 3
    with offload, which fetches weights layer by layer.
    """
    stages = limits.stages if replicas > 1 else limits.stages[:1]
    pairs = [(stage, "none") for stage in stages if "none" in limits.offload]
    if "host" in limits.offload:
        pairs += [(stage, "host") for stage in stages if stage or replicas == 1]
        if replicas == 1 and 3 in limits.stages[1:]:
            pairs.append((3, "host"))
    if "nvme" in limits.offload and 3 in limits.stages and cluster.nvme_memory:
        pairs.append((3, "nvme"))
    return pairs


def layouts(
    model: Model, cluster: Cluster, limits: Limits = Limits()
) -> Iterator[tuple[Layout, str | None]]:
    """All layouts, each with None or the reason why it can't be set up, before they must fit.

    What can't be set up is there once, not with each recomputation.
    """
    for tensor, context, expert, pipeline in degrees(model, cluster, limits):
        data = cluster.size // (tensor * context * pipeline)
        pairs = shardings(cluster, limits, data * context)
        for micro_batch in powers_of_two(limits.most_micro_batch):
            for schedule, chunks in choices(limits, pipeline):
                for stage, offload in pairs:
                    for recompute in limits.recompute:
                        layout = Layout(
                            tensor, context, expert, pipeline, data, stage, recompute,
                            micro_batch, schedule, chunks, offload,
                        )  # fmt: skip
                        reason = refused(model, cluster, layout)
                        yield layout, reason
                        if reason is not None:
                            break


def degrees(model: Model, cluster: Cluster, limits: Limits) -> Iterator[tuple[int, int, int, int]]:
    """All (tensor, context, expert, pipeline) whose product with some data makes the cards."""
    for tensor in _divisors(cluster.cards):
        if model.heads % tensor:
            continue
        left = cluster.size // tensor
        for pipeline in _divisors(left):
            if pipeline > min(limits.most_pipeline, model.layers):
                continue
            # Short sequences gain nothing from being split.
            for context in powers_of_two(max(1, model.sequence // 8192)):
                if left // pipeline % context:
                    continue
                data = left // pipeline // context
                for expert in _divisors(model.experts):
                    if data % expert == 0:
                        yield tensor, context, expert, pipeline


def choices(limits: Limits, pipeline: int) -> list[tuple[str, int]]:
    """Pairs of schedule and chunks a rank to try with so many pipeline ranks."""
    if pipeline == 1:
        return [("1f1b", 1)]
    made = []
    for schedule in limits.schedules:
        made += [(schedule, v) for v in ((2, 4) if schedule == "interleaved-1f1b" else (1,))]
    return made


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, …, up to ``most``."""
    return [1 << k for k in range(most.bit_length())]


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
