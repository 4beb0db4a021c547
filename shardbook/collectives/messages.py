"""What each axis of a layout has to send in a step, for a transformer of alike layers.

A layer of width h is taken as 4h² parameters of attention and 8h² of MLP, without embeddings; with
expert parallelism each rank has one expert of a layer, an MLP of 8h². Activations travel cut among
the tensor ranks (sequence parallelism), so that only their part goes to experts and stages.
Sources: Narayanan et al., SC 2021, sections 3.2 and 4.1; for contexts see `ring_attention_bytes`.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

from shardbook.collectives.context import ring_attention_bytes
from shardbook.collectives.experts import ALL_TO_ALLS_PER_LAYER
from shardbook.collectives.layout import AXES
from shardbook.collectives.plan import MOST_RANKS
from shardbook.collectives.tensor import ALL_REDUCES_PER_LAYER, PARAMETERS_PER_LAYER
from shardbook.errors import InputError, whole

#: parameters of a layer's MLP in h²
_MLP: Final = 8


def step_messages(
    axes: Mapping[str, int],
    tokens: int,
    width: int,
    layers: int,
    *,
    choices: int = 2,
    element_bytes: int = 2,
) -> dict[str, int]:
    """Return B of one rank in one step, by axis or joined axes, as `layout_loads` takes them (S61).

    ``axes``: degrees by name, in any order; axes of degree 1 send nothing and are left out.
    ``tokens``: of the step, on one replica (each expert rank has as many of its own); ``width``: h;
    ``choices``: experts a token goes to. Gradients are summed among all that hold the same weights:
    over CP beside DP or FSDP, and over EP for all but the experts. Raises InputError: CP must
    divide the tokens, TP the width, PP the layers.
    """
    if unknown := [name for name in axes if name not in AXES]:
        raise InputError("axes", unknown, "give " + ", ".join(AXES))
    n = {name: whole(name, axes.get(name, 1), 1, MOST_RANKS) for name in AXES}
    t = _divided("tokens", tokens, 1 << 40, "CP", n)
    h = whole("width", width, 1, 1 << 24)
    depth = _divided("layers", layers, 1 << 16, "PP", n)
    wide = _divided("width", width, 1 << 24, "TP", n)
    size = whole("element bytes", element_bytes, 1, 1 << 10)
    chosen = whole("choices", choices, 1, MOST_RANKS)
    sent = {
        "TP": ALL_REDUCES_PER_LAYER * t * h * depth * size,
        "CP": ceil(depth * ring_attention_bytes(t * n["CP"], wide, n["CP"], size)),
        "EP": ALL_TO_ALLS_PER_LAYER * chosen * t * wide * depth * size,
        "PP": t * wide * size,
    }
    messages = {name: value for name, value in sent.items() if n[name] > 1}
    layer = h * wide * depth * size
    experts = _MLP * layer if n["EP"] > 1 else 0
    _add_gradients(messages, n, PARAMETERS_PER_LAYER * layer - experts, ("CP", "EP"))
    if experts:
        _add_gradients(messages, n, experts, ("CP",))
    return messages


def _add_gradients(
    messages: dict[str, int], n: Mapping[str, int], size: int, beside: tuple[str, ...]
) -> None:
    """Add the sums of ``size`` B of gradients among the ranks that hold the same weights."""
    also = [name for name in beside if n[name] > 1]
    sharded = n["FSDP"] > 1
    first = "FSDP" if sharded else "DP"
    if n[first] > 1 or also:
        messages["+".join((first, *also))] = size
    if sharded and n["DP"] > 1:
        shards = n["FSDP"]
        for name in also:
            shards *= n[name]
        messages["DP"] = messages.get("DP", 0) + ceil(size / shards)


def _divided(argument: str, value: int, most: int, axis: str, n: Mapping[str, int]) -> int:
    number = whole(argument, value, 1, most)
    if number % n[axis]:
        raise InputError(argument, number, f"give a multiple of {axis} = {n[axis]}")
    return number // n[axis]
