"""What a layout's fullest rank holds at the peak of a step, by category, in bytes.

An upper bound made of the same parts as `shardbook.ledger`: the states of the recipe, gathered
layers at stage 3, one layer's whole gradient from stage 2 on, the activations of all micro-batches
in flight, and the logits on the last pipeline rank. Activations are Korthikanti et al.'s for an MLP
of width 4h; recomputed attention is fused, so that its matrix is never there whole; with experts
each further one that a token uses adds its MLP's 19 · s · b · h. The allocator's unused memory and
the libraries' own buffers are not in it: leave room for them.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shardbook.ledger.activations import Shape, layer_bytes
from shardbook.ledger.recipes import DEFAULT_RECIPE, recipe_named
from shardbook.ledger.stages import bytes_per_rank
from shardbook.planner.layouts import Layout, layers_of, micro_batches
from shardbook.planner.presets import Cluster, Model

_HALF: Final = 2
#: logits in half precision, and their FP32 gradient
_LOGIT_BYTES: Final = 6
_MLP_TERM: Final = 19
#: the layer in use and the one fetched ahead
_GATHERED: Final = 2
OPTIMIZER: Final = ("master_weights", "momentum", "variance")


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes (B) by category on the fullest rank, and what the host keeps for this card."""

    pieces: tuple[tuple[str, int], ...]
    host_bytes: int

    @property
    def bytes(self) -> int:
        """All bytes (B) of the peak on the card."""
        return sum(size for _, size in self.pieces)

    @property
    def largest(self) -> str:
        """What takes most bytes, master weights and moments together as optimizer states."""
        sizes: dict[str, int] = {}
        for name, size in self.pieces:
            group = "optimizer states" if name in OPTIMIZER else name.replace("_", " ")
            sizes[group] = sizes.get(group, 0) + size
        return max(sizes, key=lambda name: sizes[name])


def peak_memory(model: Model, layout: Layout, recipe: str = DEFAULT_RECIPE) -> Peak:
    """Return the peak of the first or the last pipeline rank, whichever is more (S71)."""
    states, host = _states(
        model, layout.tensor, layout.expert, layout.pipeline, layout.chunks, layout.replicas,
        layout.stage, layout.offload, recipe,
    )  # fmt: skip
    kept, working, logits = _activations(
        model, layout.tensor, layout.context, layout.micro_batch, layout.recompute
    )
    layers = layers_of(model, layout)[-1]
    first = in_flight(layout, micro_batches(model, layout)) * max(layers_of(model, layout)) * kept
    last = (layers * layout.chunks * kept + logits) if layout.pipeline > 1 else first + logits
    if first >= last:
        acts = (("activations", first + working), ("logits", 0))
    else:
        acts = (("activations", last - logits + working), ("logits", logits))
    return Peak((*states, *acts), host)


def in_flight(layout: Layout, count: int) -> int:
    """Stage-chunks of micro-batches that the first rank holds at most, of ``count`` a step.

    GPipe keeps all; 1F1B as many as stages; interleaved 1F1B its warm-up and one (Narayanan et
    al., SC 2021, §2.2).
    """
    ranks, chunks = layout.pipeline, layout.chunks
    if ranks == 1:
        return 1
    if layout.schedule == "gpipe":
        return count
    if layout.schedule == "1f1b":
        return min(ranks, count)
    return min((chunks - 1) * ranks + 2 * (ranks - 1) + 1, chunks * count)


def split_parameters(model: Model, layout: Layout) -> tuple[int, int, int]:
    """Parameters of the fullest pipeline rank that each card holds before ZeRO shards them.

    (all but experts, experts, those of one layer). Embedding and head share no rank if the
    pipeline has two ranks or more; tied ones are then there twice.
    """
    layers = max(layers_of(model, layout)) * layout.chunks
    return _split(model, layers, layout.tensor, layout.expert, layout.pipeline)


def _split(
    model: Model, layers: int, tensor: int, expert: int, pipeline: int
) -> tuple[int, int, int]:
    tables = 2 - model.tied if pipeline == 1 else 1
    moe = model.experts > 1
    inner = model.attention_parameters + (0 if moe else model.expert_parameters)
    own = (model.experts // expert) * model.expert_parameters if moe else 0
    dense = layers * inner + tables * model.embedding_parameters
    return -(-dense // tensor), -(-layers * own // tensor), -(-(inner + own) // tensor)


@lru_cache(maxsize=1 << 14)
def _states(
    model: Model, tensor: int, expert: int, pipeline: int, chunks: int, replicas: int, stage: int,
    offload: bool, recipe: str,
) -> tuple[tuple[tuple[str, int], ...], int]:  # fmt: skip
    layers = -(-model.layers // (pipeline * chunks)) * chunks
    dense, experts, layer = _split(model, layers, tensor, expert, pipeline)
    held = bytes_per_rank(dense, replicas, stage, recipe).by_category()
    if experts:
        more = bytes_per_rank(experts, replicas // expert, stage, recipe).by_category()
        held = {name: size + more[name] for name, size in held.items()}
    host = 0
    if offload:
        host = sum(held[name] for name in OPTIMIZER)
        held |= dict.fromkeys(OPTIMIZER, 0)
    shares = recipe_named(recipe).by_category()
    whole_gradient = int(shares["gradients"] * layer) if stage >= 2 and replicas > 1 else 0
    gathered = int(shares["weights"] * layer) * min(_GATHERED, layers)
    return (
        *held.items(),
        ("gathered_layers", gathered if stage == 3 and replicas > 1 else 0),
        ("layer_gradient", whole_gradient),
    ), host


@lru_cache(maxsize=1 << 14)
def _activations(
    model: Model, tensor: int, context: int, micro_batch: int, recompute: str
) -> tuple[int, int, int]:
    """Bytes that a layer keeps, those of one recomputed layer beyond it, and the logits."""
    shape = Shape(micro_batch, model.sequence, model.hidden, model.layers, model.heads)
    more = (model.active - 1) * _MLP_TERM * shape.elements // tensor
    split = dict.fromkeys(("none", "selective", "full"), 0)
    for name in split:
        size = layer_bytes(
            shape, tensor_parallel=tensor, sequence_parallel=True, recompute=name
        ) + (more if name != "full" else 0)
        split[name] = -(-size // context)
    logits = _LOGIT_BYTES * micro_batch * model.sequence * model.vocabulary // (tensor * context)
    return split[recompute], (split["selective"] - split["full"]) * (recompute == "full"), logits


def too_large(cluster: Cluster, peak: Peak, usable: float) -> str | None:
    """Why a peak does not fit the card or the host, in a few words, or None."""
    if peak.bytes > cluster.card.memory * usable:
        return f"does not fit the card: {peak.largest} are the most"
    if peak.host_bytes * cluster.cards > cluster.host_memory:
        return "offloaded states do not fit the host"
    return None
