"""What a layout's fullest rank holds at the peak of a step, by category, in bytes.

An upper bound made of the same parts as `shardbook.ledger`: the states of the recipe, gathered
layers at stage 3, one layer's whole gradient from stage 2 on, the activations of all micro-batches
in flight, and the logits on the last pipeline rank. Activations are Korthikanti et al.'s, term by
term for the model's own shape (see [Note: kept]); recomputed attention is fused, so that its matrix
is never there whole. The allocator's unused memory and the libraries' own buffers are not in it:
leave room for them.

[Note: kept] The 34 · s · b · h of a layer (MLSys 2023, §4.1) are, over s · b · h: attention's input
2, queries 2, keys and values 4, the heads' output 2 and dropout's mask 1; norms 4; the MLP's input
2, the 4h-wide input and output of its activation function 16, and a mask 1. Grouped queries have
fewer keys and values. A gated MLP keeps gate, value and product, each of its own width, and such
models (Llama, Mixtral) train without dropout. Each further expert of a token is one more MLP.

[Note: units] What is gathered and reduced at once is a layer; with NVMe it is a matrix, as
ZeRO-Infinity fetches operator by operator (SC 2021, §5.1.3 and §6).

[Note: checkpoints] With NVMe and full recomputation the layers' inputs lie in the host's memory, as
in ZeRO-Infinity (SC 2021, §5.1.2); the card has that in use and that on its way.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from shardbook.ledger.activations import Shape, layer_bytes
from shardbook.ledger.recipes import DEFAULT_RECIPE, recipe_named
from shardbook.ledger.stages import bytes_per_rank
from shardbook.planner.layouts import Layout, layers_of, leaves_the_card, micro_batches
from shardbook.planner.presets import Cluster, Model

_HALF: Final = 2
#: logits in half precision, and their FP32 gradient
_LOGIT_BYTES: Final = 6
_WHOLE: Final = 34  # B over s · b · h that `layer_bytes` counts
#: the unit in use and the one fetched ahead
_GATHERED: Final = 2
OPTIMIZER: Final = ("master_weights", "momentum", "variance")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a peak: bytes (B) by category, all of them, and its largest group with its bytes.

    Master weights and moments are one group, the optimizer states.
    """

    pieces: tuple[tuple[str, int], ...]
    bytes: int
    largest: tuple[str, int]


@dataclass(frozen=True, slots=True)
class States:
    """The states on a card, with gathered layers, and B that host and NVMe keep for this card."""

    card: Part
    host_bytes: int
    nvme_bytes: int


@dataclass(frozen=True, slots=True)
class Activations:
    """Activations and logits on a card, and B that its host keeps. See [Note: checkpoints]."""

    card: Part
    host_bytes: int


@dataclass(frozen=True, slots=True)
class Peak:
    """What the fullest rank holds at the peak, and what leaves its card for host or NVMe."""

    states: States
    activations: Activations

    @property
    def pieces(self) -> tuple[tuple[str, int], ...]:
        """Bytes (B) on the card by category."""
        return self.states.card.pieces + self.activations.card.pieces

    @property
    def bytes(self) -> int:
        """All bytes (B) of the peak on the card."""
        return self.states.card.bytes + self.activations.card.bytes

    @property
    def largest(self) -> str:
        """What takes most bytes, master weights and moments together as optimizer states."""
        held, used = self.states.card.largest, self.activations.card.largest
        return held[0] if held[1] >= used[1] else used[0]

    @property
    def host_bytes(self) -> int:
        """Bytes (B) that the host keeps for this card."""
        return self.states.host_bytes + self.activations.host_bytes

    @property
    def nvme_bytes(self) -> int:
        """Bytes (B) that NVMe keeps for this card."""
        return self.states.nvme_bytes


def peak_memory(model: Model, layout: Layout, recipe: str = DEFAULT_RECIPE) -> Peak:
    """Return the peak of the first or the last pipeline rank, whichever is more (S71)."""
    return Peak(
        states(model, layout, layout.stage, layout.offload, recipe),
        activations(model, layout, layout.recompute, layout.offload),
    )


def too_large(cluster: Cluster, peak: Peak, usable: float) -> str | None:
    """Why a peak does not fit card, host or NVMe, in a few words, or None."""
    room = cluster.card.memory * usable
    reason = no_room_on_card(room, peak.states, peak.activations)
    return reason or no_room_beside(cluster, peak.states, peak.activations)


def no_room_on_card(room: float, held: States, used: Activations) -> str | None:
    """Why states and activations together do not fit ``room`` (B), or None."""
    if held.card.bytes + used.card.bytes <= room:
        return None
    return f"does not fit the card: {Peak(held, used).largest} are the most"


def no_room_beside(cluster: Cluster, held: States, used: Activations) -> str | None:
    """Why a node's host or NVMe can't keep what its cards offload, or None."""
    if (held.host_bytes + used.host_bytes) * cluster.cards > cluster.host_memory:
        return f"offloaded {'states' if held.host_bytes else 'checkpoints'} do not fit the host"
    if held.nvme_bytes * cluster.cards > cluster.nvme_memory:
        return "offloaded states do not fit the NVMe"
    return None


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


def split_parameters(model: Model, layout: Layout) -> tuple[int, int]:
    """Parameters of the fullest pipeline rank that each card holds before ZeRO shards them.

    (all but experts, experts). Embedding and head share no rank if the pipeline has two ranks or
    more; tied ones are then there twice.
    """
    layers = max(layers_of(model, layout)) * layout.chunks
    inner, own = _layer(model, layout.expert)
    tables = 2 - model.tied if layout.pipeline == 1 else 1
    dense = layers * inner + tables * model.embedding_parameters
    return -(-dense // layout.tensor), -(-layers * own // layout.tensor)


def _layer(model: Model, expert: int) -> tuple[int, int]:
    """Parameters of a layer: all but experts, and the experts of one of ``expert`` ranks."""
    if model.experts == 1:
        return model.attention_parameters + model.expert_parameters, 0
    return model.attention_parameters, model.experts // expert * model.expert_parameters


def states(model: Model, layout: Layout, stage: int, offload: str, recipe: str) -> States:
    """The states of a layout at another stage and offload than its own."""
    return _states(
        model, layout.tensor, layout.expert, layout.replicas,
        max(layers_of(model, layout)) * layout.chunks,
        split_parameters(model, layout), stage, offload, recipe,
    )  # fmt: skip


@lru_cache(maxsize=1 << 12)
def _states(
    model: Model, tensor: int, expert: int, replicas: int, layers: int, own: tuple[int, int],
    stage: int, offload: str, recipe: str,
) -> States:  # fmt: skip
    dense, experts = own
    held = bytes_per_rank(dense, replicas, stage, recipe).by_category()
    if experts:
        more = bytes_per_rank(experts, replicas // expert, stage, recipe).by_category()
        held = {name: size + more[name] for name, size in held.items()}
    leaving = leaves_the_card(stage, offload, replicas)
    gone = [name for name in held if (name if name not in OPTIMIZER else "optimizer") in leaving]
    away = sum(held[name] for name in gone)
    held |= dict.fromkeys(gone, 0)
    # See [Note: units].
    unit = sum(_layer(model, expert))
    if offload == "nvme":
        unit = model.hidden * max(model.hidden, model.feed_forward)
    weight, gradient = _shares(recipe)
    fetched = stage == 3 and (replicas > 1 or "weights" in leaving)
    reduced = (stage >= 2 and replicas > 1) or "gradients" in leaving
    one = -(-unit // tensor)
    held["gathered_layers"] = int(weight * one) * min(_GATHERED, layers) * fetched
    held["layer_gradient"] = int(gradient * one) * reduced
    on_nvme = offload == "nvme"
    return States(_part(held), 0 if on_nvme else away, away if on_nvme else 0)


@lru_cache(maxsize=64)
def _shares(recipe: str) -> tuple[Fraction, Fraction]:
    """Bytes (B) of weights and of gradients for each parameter."""
    shares = recipe_named(recipe).by_category()
    return shares["weights"], shares["gradients"]


def activations(model: Model, layout: Layout, recompute: str, offload: str) -> Activations:
    """The activations of a layout with another recomputation and offload than its own."""
    counts = layers_of(model, layout)
    first = in_flight(layout, micro_batches(model, layout)) * max(counts)
    last = counts[-1] * layout.chunks if layout.pipeline > 1 else first
    leave = offload == "nvme" and recompute == "full"
    return _activations(
        model, layout.tensor, layout.context, layout.micro_batch, recompute, first, last, leave
    )


def checkpoint_bytes(model: Model, layout: Layout) -> int:
    """B of one layer's input on each card: what full recomputation keeps of a micro-batch."""
    return _kept(model, layout.tensor, layout.context, layout.micro_batch, "full")


@lru_cache(maxsize=1 << 12)
def _activations(
    model: Model, tensor: int, context: int, micro_batch: int, recompute: str,
    first: int, last: int, leave: bool,
) -> Activations:  # fmt: skip
    """``first``, ``last``: layers times micro-batches that these pipeline ranks hold."""
    logits = _LOGIT_BYTES * micro_batch * model.sequence * model.vocabulary // (tensor * context)
    kept = _kept(model, tensor, context, micro_batch, recompute)
    working = 0
    if recompute == "full":
        working = _kept(model, tensor, context, micro_batch, "selective") - kept
    away = first * kept if leave else 0
    if leave:
        first, last = min(first, _GATHERED), min(last, _GATHERED)
    if first * kept >= last * kept + logits:
        return Activations(_part({"activations": first * kept + working, "logits": 0}), away)
    return Activations(_part({"activations": last * kept + working, "logits": logits}), away)


def _kept(model: Model, tensor: int, context: int, micro_batch: int, recompute: str) -> int:
    """B that a layer keeps on each card of a micro-batch."""
    shape = Shape(micro_batch, model.sequence, model.hidden, model.layers, model.heads)
    size = layer_bytes(shape, tensor_parallel=tensor, sequence_parallel=True, recompute=recompute)
    if recompute != "full":
        size += int(_beyond(model) * shape.elements) // tensor
    return -(-size // context)


@lru_cache(maxsize=64)
def _beyond(model: Model) -> Fraction:
    """B over s · b · h that a layer keeps beyond the usual 34. See [Note: kept]."""
    mask = 0 if model.gated else 1
    attention = 6 + 4 * Fraction(model.kv_heads, model.heads) + mask
    mlp = 2 + (6 if model.gated else 4) * Fraction(model.feed_forward, model.hidden) + mask
    return attention + 4 + model.active * mlp - _WHOLE


def _part(sizes: dict[str, int]) -> Part:
    groups: dict[str, int] = {}
    for name, size in sizes.items():
        group = "optimizer states" if name in OPTIMIZER else name.replace("_", " ")
        groups[group] = groups.get(group, 0) + size
    name = max(groups, key=lambda each: groups[each])
    return Part(tuple(sizes.items()), sum(sizes.values()), (name, groups[name]))
