"""The controls that explorers of the ledger share: recipe, stage, card."""

from shardbook.explorers.controls import Choice, Number
from shardbook.ledger.recipes import RECIPES


def recipe_choice() -> Choice:
    """Return the choice among the ledger's recipes."""
    options = tuple(
        (name, f"{recipe.title}: {float(recipe.bytes_per_parameter):.4g} B")
        for name, recipe in RECIPES.items()
    )
    return Choice("recipe", "Recipe", "mixed-adam", options)


def stage_choice(default: str) -> Choice:
    """Return the choice of a ZeRO stage."""
    options = (
        ("0", "0: everything on every rank"),
        ("1", "1: optimizer states sharded"),
        ("2", "2: and gradients"),
        ("3", "3: and weights"),
    )
    return Choice("stage", "Stage", default, options)


def card_memory(default: str) -> Number:
    """Return the control of a card's memory, with usual sizes as its stops."""
    sizes = (8, 16, 24, 32, 40, 48, 64, 80, 96, 141, 192)
    stops = tuple(f"{size}GB" for size in sizes)
    return Number("card", "Card memory", default, stops, 1e9, 1e12, kind="bytes")
