"""A layout: how a model and its batch are dealt out, and all layouts worth looking at."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, one_of, real, whole
from shardbook.ledger.activations import RECOMPUTE
from shardbook.planner.presets import Cluster, Model

#: schedules of a pipeline that the planner tries, the simplest first
SCHEDULES: Final = ("1f1b", "gpipe", "interleaved-1f1b")


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees whose product is the number of cards (expert lies within data), and the choices.

    ``stage`` shards over data × context. ``micro_batch`` is in sequences; ``chunks`` are stages a
    pipeline rank; ``offload`` puts the optimizer's states and its step on the host.
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
    offload: bool = False

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
        rest = RECOMPUTE.index(self.recompute) + (self.chunks > 1) + 2 * self.offload
        return 4 * kinds + (self.stage if self.replicas > 1 else 0) + rest

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
        if self.offload:
            parts.append("offload")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Limits:
    """What is searched; ``usable`` is the part of a card's memory that may be filled."""

    stages: tuple[int, ...] = (0, 1, 2, 3)
    recompute: tuple[str, ...] = RECOMPUTE
    schedules: tuple[str, ...] = SCHEDULES
    most_micro_batch: int = 8
    most_pipeline: int = 64
    offload: bool = True
    usable: float = 0.92

    def __post_init__(self) -> None:
        for stage in self.stages:
            whole("stage", stage, 0, 3)
        for name in self.recompute:
            one_of("recompute", name, RECOMPUTE)
        for name in self.schedules:
            one_of("schedule", name, SCHEDULES)
        if not (self.stages and self.recompute and self.schedules):
            raise InputError("limits", self, "give at least one stage, recomputation and schedule")
        whole("most micro-batch", self.most_micro_batch, 1, 1024)
        whole("most pipeline", self.most_pipeline, 1, 4096)
        real("usable", self.usable, 0.01, 1)


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
    stages = layout.pipeline * layout.chunks
    each = -(-model.layers // stages)
    spare = each * stages - model.layers
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
        (layout.offload and layout.replicas > 1 and not layout.stage,
         "offload needs sharded optimizer states"),
    )  # fmt: skip
    return next((reason for bad, reason in checks if bad), None)


def layouts(
    model: Model, cluster: Cluster, limits: Limits = Limits()
) -> Iterator[tuple[Layout, str | None]]:
    """All layouts, each with None or the reason why it can't be set up, before they must fit."""
    for tensor, context, expert, pipeline in _degrees(model, cluster, limits):
        data = cluster.size // (tensor * context * pipeline)
        choices = [("1f1b", 1)] if pipeline == 1 else list(_choices(limits))
        stages = limits.stages if data * context > 1 else limits.stages[:1]
        for micro_batch in _powers(limits.most_micro_batch):
            for schedule, chunks in choices:
                for stage in stages:
                    for offload in (False, True)[: 1 + limits.offload]:
                        layout = Layout(
                            tensor, context, expert, pipeline, data, stage, limits.recompute[0],
                            micro_batch, schedule, chunks, offload,
                        )  # fmt: skip
                        reason = refused(model, cluster, layout)
                        yield layout, reason
                        if reason is not None:
                            continue
                        for recompute in limits.recompute[1:]:
                            other = Layout(
                                tensor, context, expert, pipeline, data, stage, recompute,
                                micro_batch, schedule, chunks, offload,
                            )  # fmt: skip
                            yield other, None


def _degrees(model: Model, cluster: Cluster, limits: Limits) -> Iterator[tuple[int, int, int, int]]:
    for tensor in _divisors(cluster.cards):
        if model.heads % tensor:
            continue
        left = cluster.size // tensor
        for pipeline in _divisors(left):
            if pipeline > min(limits.most_pipeline, model.layers):
                continue
            # Short sequences gain nothing from being split.
            for context in _powers(max(1, model.sequence // 8192)):
                if left // pipeline % context:
                    continue
                data = left // pipeline // context
                for expert in _divisors(model.experts):
                    if data % expert == 0:
                        yield tensor, context, expert, pipeline


def _choices(limits: Limits) -> Iterator[tuple[str, int]]:
    for schedule in limits.schedules:
        yield from ((schedule, v) for v in ((2, 4) if schedule == "interleaved-1f1b" else (1,)))


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _powers(most: int) -> list[int]:
    return [1 << k for k in range(most.bit_length())]
