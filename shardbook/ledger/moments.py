"""The four moments of a step at which memory may run out: forward, backward, update, save.

At stage 3, for a transformer with one flat unit a layer. A moment's list is what a rank must hold at
once by the ledger; the allocator's unused memory and the library's own buffers come on top.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, whole
from shardbook.ledger.activations import Shape, layer_bytes
from shardbook.ledger.recipes import DEFAULT_RECIPE, SHARDED_FROM, Recipe
from shardbook.ledger.stages import Ledger, bytes_per_rank
from shardbook.ledger.working import update_bytes

MOMENTS: Final = ("forward", "backward", "update", "save")

_FP32: Final = 4
_MADE_IN_BACKWARD: Final = SHARDED_FROM["gradients"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Something alive at a moment: a category of the ledger, what it is, bytes (B) on one rank."""

    category: str
    what: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Moment:
    """The peak of one part of a step: what is alive on the fullest rank."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        """All bytes (B) alive at this moment on one rank."""
        return sum(piece.bytes for piece in self.pieces)

    def __str__(self) -> str:
        parts = " + ".join(f"{piece.bytes:,} {piece.what}" for piece in self.pieces)
        return f"{self.name}: {self.bytes:,} B = {parts}"


def moments(
    units: Sequence[int],
    ranks: int,
    model: Shape,
    recipe: str | Recipe = DEFAULT_RECIPE,
    *,
    recompute: str = "full",
    gathered_units: int = 2,
    gather_to_save: bool = False,
) -> tuple[Moment, ...]:
    """What a rank holds at the peak of forward, backward, update and save, in this order (S12).

    ``units`` are the parameters of each layer. Forward holds the shards without gradients,
    ``gathered_units`` gathered layers (the one in use and those fetched ahead), the activations
    kept for backward and one layer's in full. Backward turns kept activations into shards of
    gradients, layer by layer, and holds one layer's whole gradient; the layer with the largest sum
    counts. The update turns one layer's shard into FP32 at a time, unless the recipe has FP32
    gradients; a copy kept for the update comes to life there. A save holds nothing beyond the
    shards, or with ``gather_to_save`` all weights on one rank.

    Raises:
        InputError: as `bytes_per_rank` and `layer_bytes`; the units are not one a layer, or
            gathered_units not a whole number in 1…layers.
    """
    ledger = bytes_per_rank(units, ranks, 3, recipe)
    if len(ledger.units) != model.layers:
        raise InputError("units", len(ledger.units), f"give one for each of {model.layers} layers")
    ahead = whole("gathered units", gathered_units, 1, model.layers)
    held = ledger.by_category()
    kept = layer_bytes(model, recompute=recompute)
    working = layer_bytes(model) - kept
    shards = tuple(
        Piece(category, f"shards of {category.replace('_', ' ')}", size)
        for category, size in held.items()
        if size and category != "gradients"
    )
    alone = bytes_per_rank(sorted(ledger.units)[-ahead:], recipe=ledger.recipe).by_category()
    gathered = Piece("gathered_parameters", "gathered layers", alone["weights"])
    forward = Piece("activations", "activations", model.layers * kept + working)
    in_fp32 = any(
        part.bytes >= _FP32 for part in ledger.recipe.parts if part.category == "gradients"
    )
    converted = 0 if in_fp32 else update_bytes(ledger) - ledger.fullest_rank_bytes
    everything = bytes_per_rank(units, recipe=ledger.recipe).by_category()["weights"]
    saved = (Piece("gathered_parameters", "all weights", everything),) if gather_to_save else ()
    return (
        Moment("forward", (*shards, gathered, forward)),
        Moment("backward", (*shards, gathered, *_backward(ledger, kept, working))),
        Moment(
            "update",
            (
                *shards,
                Piece("gradients", "shards of gradients", held["gradients"]),
                Piece("buffers", "one layer's gradients in FP32", converted),
            ),
        ),
        Moment("save", (*shards, *saved)),
    )


def _backward(ledger: Ledger, kept: int, working: int) -> tuple[Piece, ...]:
    """Activations, shards of gradients and the whole gradient of the layer with the largest sum."""
    best: tuple[Piece, ...] = ()
    done = 0
    for layer in reversed(range(len(ledger.units))):
        unit = ledger.units[layer]
        pieces = (
            Piece("activations", "activations", (layer + 1) * kept + working),
            Piece("gradients", "shards of gradients", done),
            Piece("gradients", "one layer's whole gradient", _gradient_bytes(ledger, unit, 1)),
        )
        if sum(piece.bytes for piece in pieces) > sum(piece.bytes for piece in best):
            best = pieces
        done += _gradient_bytes(ledger, unit, ledger.ranks)
    return best


def _gradient_bytes(ledger: Ledger, unit: int, ranks: int) -> int:
    """Bytes of a unit's gradient while backward makes it: not a copy that only the update reads."""
    piece = -(-unit // ranks)
    made = (part for part in ledger.recipe.parts if part.category == "gradients")
    return sum(part.bytes_of(piece) for part in made if part.sharded_from == _MADE_IN_BACKWARD)
