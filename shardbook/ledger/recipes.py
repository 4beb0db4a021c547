"""Training recipes as data: which bytes a recipe keeps for each parameter.

Every byte count of a recipe stands here, once; everything else computes from it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardbook.errors import InputError, one_of

#: the categories of a ledger of states, in the order in which they are listed and drawn
CATEGORIES: Final = ("weights", "gradients", "master_weights", "momentum", "variance")

#: category → the first stage that shards it (ZeRO §5: P_os, P_os+g, P_os+g+p)
SHARDED_FROM: Final = {
    "weights": 3,
    "gradients": 2,
    "master_weights": 1,
    "momentum": 1,
    "variance": 1,
}

_MOST_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One array a recipe keeps: ``bytes`` for each element, sharded from ``sharded_from`` on.

    A block-wise quantised array also keeps ``bytes_per_block`` for each started ``block`` of
    elements (its scale).
    """

    category: str
    bytes: int
    what: str
    sharded_from: int
    block: int = 1
    bytes_per_block: int = 0

    def bytes_of(self, elements: int) -> int:
        """Bytes (B) of an undivided array of ``elements``."""
        return self.bytes * elements + self.bytes_per_block * -(-elements // self.block)

    @property
    def bytes_per_parameter(self) -> Fraction:
        """Bytes for each element of a long array, the blocks' scales included."""
        return self.bytes + Fraction(self.bytes_per_block, self.block)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is kept for each parameter between the steps and at the end of backward (S2)."""

    name: str
    title: str
    parts: tuple[Part, ...]
    assumes: str
    source: str

    @property
    def bytes_per_parameter(self) -> Fraction:
        """All bytes kept for one parameter."""
        return sum((part.bytes_per_parameter for part in self.parts), Fraction(0))

    def by_category(self) -> dict[str, Fraction]:
        """Bytes for each parameter by category; each of `CATEGORIES` is a key."""
        table = dict.fromkeys(CATEGORIES, Fraction(0))
        for part in self.parts:
            table[part.category] += part.bytes_per_parameter
        return table


def _part(category: str, size: int, what: str, **exceptions: int) -> Part:
    return Part(category, size, what, **{"sharded_from": SHARDED_FROM[category], **exceptions})


_RECIPES: Final = (
    Recipe(
        "mixed-adam",
        "Mixed precision, Adam",
        (
            _part("weights", 2, "FP16"),
            _part("gradients", 2, "FP16"),
            _part("master_weights", 4, "FP32"),
            _part("momentum", 4, "FP32"),
            _part("variance", 4, "FP32"),
        ),
        "Gradients are turned into FP32 unit by unit, so that no FP32 copy of all stays.",
        "Rajbhandari et al., ZeRO, SC 2020, §3.1 (K = 12)",
    ),
    Recipe(
        "mixed-adam-resident-fp32-gradients",
        "Mixed precision, Adam, FP32 copy of the gradients kept",
        (
            _part("weights", 2, "FP16"),
            _part("gradients", 2, "FP16"),
            # Only the update reads the FP32 copy, and a rank updates only what it owns:
            # the copy shards with the optimizer states.
            _part("gradients", 4, "FP32 copy for the update", sharded_from=1),
            _part("master_weights", 4, "FP32"),
            _part("momentum", 4, "FP32"),
            _part("variance", 4, "FP32"),
        ),
        "The FP32 gradients stay for the whole update and shard with the optimizer states.",
        "Rajbhandari et al., ZeRO-Infinity, SC 2021, §3 (20 bytes a parameter)",
    ),
    Recipe(
        "mixed-adam-fp32-gradients",
        "Mixed precision, Adam, gradients in FP32 only",
        (
            _part("weights", 2, "BF16"),
            _part("gradients", 4, "FP32"),
            _part("master_weights", 4, "FP32"),
            _part("momentum", 4, "FP32"),
            _part("variance", 4, "FP32"),
        ),
        "Gradients are accumulated straight into FP32; they shard as gradients do.",
        "Megatron-LM, distributed optimizer (BF16 parameters, FP32 gradients)",
    ),
    Recipe(
        "bf16-adam",
        "BF16 weights without a master copy, Adam",
        (
            _part("weights", 2, "BF16"),
            _part("gradients", 2, "BF16"),
            _part("momentum", 4, "FP32"),
            _part("variance", 4, "FP32"),
        ),
        "The update goes straight into the BF16 weights: small updates are rounded away.",
        "The 12-byte convention of the source lectures",
    ),
    Recipe(
        "fp32-adam",
        "Plain FP32, Adam",
        (
            _part("weights", 4, "FP32"),
            _part("gradients", 4, "FP32"),
            _part("momentum", 4, "FP32"),
            _part("variance", 4, "FP32"),
        ),
        "Everything in FP32; the weights are their own master copy.",
        "Kingma and Ba, Adam, ICLR 2015",
    ),
    Recipe(
        "fp32-sgd",
        "Plain FP32, SGD",
        (
            _part("weights", 4, "FP32"),
            _part("gradients", 4, "FP32"),
        ),
        "No optimizer state at all: stage 1 has nothing to shard.",
        "The rule w ← w − ηg",
    ),
    Recipe(
        "fp32-sgd-momentum",
        "Plain FP32, SGD with momentum",
        (
            _part("weights", 4, "FP32"),
            _part("gradients", 4, "FP32"),
            _part("momentum", 4, "FP32"),
        ),
        "One moment for each parameter.",
        "The rules m ← μm + g and w ← w − ηm",
    ),
    Recipe(
        "mixed-adam-8bit",
        "Mixed precision, 8-bit Adam",
        (
            _part("weights", 2, "FP16"),
            _part("gradients", 2, "FP16"),
            _part("master_weights", 4, "FP32"),
            _part("momentum", 1, "8-bit, block-wise", block=2048, bytes_per_block=4),
            _part("variance", 1, "8-bit, block-wise", block=2048, bytes_per_block=4),
        ),
        "Each started block of 2,048 elements of a moment has one FP32 scale, and each rank"
        " quantises its own piece; every parameter is quantised (the paper leaves embeddings"
        " in FP32); the two 256-entry code books are left out.",
        "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, ICLR 2022, §2",
    ),
)

RECIPES: Final = {recipe.name: recipe for recipe in _RECIPES}

DEFAULT_RECIPE: Final = "mixed-adam"


def recipe_named(recipe: "str | Recipe") -> Recipe:
    """Return a recipe of `RECIPES`, the one written as ``weights=2,gradients=2,momentum=4``,
    or ``recipe`` itself.

    Raises:
        InputError: no such recipe, or it can't be read.
    """
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, str) and "=" in recipe:
        return _read(recipe)
    try:
        return RECIPES[one_of("recipe", recipe, RECIPES)]
    except InputError as error:
        hint = f"{error.allowed}, or write your own, such as weights=2,gradients=2,momentum=4"
        raise InputError("recipe", recipe, hint) from None


def user_recipe(name: str, bytes_per_parameter: Iterable[tuple[str, int]]) -> Recipe:
    """Make a recipe from pairs of category and bytes for each parameter (whole, 0 to 1,024).

    Each category shards from the stage in `SHARDED_FROM`; categories not named keep nothing.

    Raises:
        InputError: an unknown or repeated category, bytes that are not whole or all zero.
    """
    given = list(bytes_per_parameter)
    for category, size in given:
        one_of("recipe category", category, CATEGORIES)
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MOST_BYTES:
            allowed = f"give whole bytes for each parameter, from 0 to {_MOST_BYTES:,}"
            raise InputError(f"recipe {category}", size, allowed)
    table = dict(given)
    if len(table) < len(given):
        raise InputError("recipe", name, "name each category once")
    if not any(table.values()):
        raise InputError("recipe", name, "give at least one category more than 0 bytes")
    parts = tuple(_part(key, table[key], "user") for key in CATEGORIES if table.get(key))
    return Recipe(name, "User recipe", parts, "What the user wrote.", "The user")


def _read(text: str) -> Recipe:
    allowed = "give pairs such as weights=2,gradients=2,master_weights=4,momentum=4,variance=4"
    pairs = []
    for piece in text.split(","):
        category, equals, size = (word.strip() for word in piece.partition("="))
        if not (equals and size.isascii() and size.isdigit() and len(size) <= 6):
            raise InputError("recipe", text, allowed)
        pairs.append((category, int(size)))
    return user_recipe(text, pairs)
