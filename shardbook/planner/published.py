"""Published configurations against the planner: its speed a card beside the reported one.

The layout's degrees are as reported. What the papers leave open (micro-batch, chunks) is what the
planner finds quickest. Megatron-LM's rows recompute everything, and their FLOP count that. Llama 3
reports an interleaved pipeline and no recomputation; the planner's nearest is attention fused and
all else kept. By its ledger, an upper bound, that fits on 16,384 cards but not on 8,192, where more
micro-batches are in flight: the report tunes how many, and frees tensors early (§3.3.2), which the
ledger does not know. One achievable fraction of the peak stands for all rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shardbook.planner.layouts import Layout, Limits, refused
from shardbook.planner.memory import Peak, peak_memory, too_large
from shardbook.planner.plan import model_flop
from shardbook.planner.presets import MEGATRON_TABLE, Cluster, Model, cluster_named, model_named
from shardbook.planner.simulated import simulated_seconds
from shardbook.planner.steptime import step_time

#: the part of a card's peak that matrix products reach, the same for all rows
FRACTION: Final = 0.52
_TERA: Final = 1e12
_MEGATRON: Final = "Narayanan et al., SC 2021, Table 1"
_LLAMA: Final = "Llama Team, 2024, Table 4"

#: name → cards, context, pipeline, data, tokens a sequence, TFLOP/s a card as reported
LLAMA_ROWS: Final = {
    "llama3-405b, 8,192 cards": (8192, 1, 16, 64, 8192, 430),
    "llama3-405b, 16,384 cards": (16384, 1, 16, 128, 8192, 400),
    "llama3-405b, long sequences": (16384, 16, 16, 8, 131072, 380),
}


@dataclass(frozen=True, slots=True)
class Published:
    """A run as reported, and the planner's: TFLOP/s a card by the paper's way of counting.

    ``unfit`` is empty if the layout fits by the planner's ledger, or says why not.
    """

    name: str
    model: Model
    cluster: Cluster
    layout: Layout
    peak: Peak
    unfit: str
    reported: float
    computed: float
    source: str

    @property
    def ratio(self) -> float:
        """Computed over reported."""
        return self.computed / self.reported


def published_runs() -> tuple[Published, ...]:
    """Return Megatron-LM's ten rows and Llama 3 405B's three (S71)."""
    return (*_megatron(), *_llama())


def _megatron() -> Iterator[Published]:
    """All is recomputed, and the paper counts that too: four forwards a step."""
    for name, (*_, tensor, pipeline, cards, reported) in MEGATRON_TABLE.items():
        model, cluster = model_named(name), _cluster("a100-80", cards)
        tried = [
            Layout(
                tensor=tensor, pipeline=pipeline, data=cards // tensor // pipeline,
                recompute="full", micro_batch=size, schedule=schedule, chunks=chunks,
            )
            for size in (1, 2, 4)
            for schedule, chunks in (("1f1b", 1), ("interleaved-1f1b", 2))[: 1 + (pipeline > 1)]
        ]  # fmt: skip
        yield _run(name, model, cluster, tried, reported, 4, _MEGATRON)


def _llama() -> Iterator[Published]:
    for name, (cards, context, pipeline, data, sequence, reported) in LLAMA_ROWS.items():
        model = model_named(f"llama3-405b,sequence={sequence},batch={16 * 2**20}")
        tried = [
            Layout(
                tensor=8, context=context, pipeline=pipeline, data=data, stage=2,
                recompute="selective", chunks=chunks, schedule="interleaved-1f1b",
            )
            for chunks in (2, 4)
        ]  # fmt: skip
        yield _run(name, model, _cluster("h100-80", cards), tried, reported, 3, _LLAMA)


def _cluster(card: str, cards: int) -> Cluster:
    return cluster_named(f"{card},nodes={cards // 8},fraction={FRACTION}")


def _run(
    name: str, model: Model, cluster: Cluster, tried: list[Layout], reported: float,
    forwards: int, source: str,
) -> Published:  # fmt: skip
    """The quickest of what fits, or of all if nothing does."""
    possible = [each for each in tried if refused(model, cluster, each) is None]
    peaks = {each: peak_memory(model, each) for each in possible}
    why = {each: too_large(cluster, peaks[each], Limits().usable) or "" for each in possible}
    fitting = [each for each in possible if not why[each]] or possible
    best = min(fitting, key=lambda each: step_time(model, cluster, each).seconds)
    seconds = simulated_seconds(model, cluster, best)
    speed = model_flop(model, forwards) / seconds / cluster.size / _TERA
    return Published(
        name, model, cluster, best, peaks[best], why[best], reported, speed, source
    )  # fmt: skip
