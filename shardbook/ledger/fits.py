"""The ledger asked the other way round: what can't be sharded, how many ranks, how large a model.

Only the persistent states are counted: a state that fits is not yet a run that fits.
"""

from collections.abc import Callable, Sequence
from typing import Final

from shardbook.errors import whole
from shardbook.ledger.recipes import DEFAULT_RECIPE, Recipe, recipe_named
from shardbook.ledger.stages import MOST_PARAMETERS, MOST_RANKS, bytes_per_rank, flat_units

MOST_CARD_BYTES: Final = 10**18


def floor_bytes(
    parameters: int | Sequence[int], stage: int = 0, recipe: str | Recipe = DEFAULT_RECIPE
) -> int:
    """Bytes (B) that every rank keeps however many ranks there are: what the stage replicates (S4).

    4Ψ at stage 1 and 2Ψ at stage 2 of the 16-byte recipe (ZeRO §5.1, §5.2), 0 at stage 3.

    Raises:
        InputError: as `bytes_per_rank`.
    """
    units, stage = flat_units(parameters), whole("stage", stage, 0, 3)
    kept = (part for part in recipe_named(recipe).parts if part.sharded_from > stage)
    return sum(part.bytes_of(unit) for part in kept for unit in units)


def smallest_ranks(
    parameters: int | Sequence[int],
    card_bytes: int,
    stage: int = 3,
    recipe: str | Recipe = DEFAULT_RECIPE,
    limit: int = MOST_RANKS,
) -> int | None:
    """The fewest ranks on which the states fit ``card_bytes`` (B) each, or None if no number does.

    The fullest rank, padding included, never grows with the ranks, so bisection is exact; numbers
    up to ``limit`` (at most 10⁶) are tried.

    (S3, S10)

    Raises:
        InputError: as `bytes_per_rank`; card_bytes or limit not whole or not positive.
    """
    card_bytes = whole("card", card_bytes, 1, MOST_CARD_BYTES)
    limit = whole("limit", limit, 1, MOST_RANKS)
    units, recipe = flat_units(parameters), recipe_named(recipe)

    def fits(ranks: int) -> bool:
        return bytes_per_rank(units, ranks, stage, recipe).fullest_rank_bytes <= card_bytes

    return _first(fits, 1, limit)


def largest_model(
    card_bytes: int,
    ranks: int = 1,
    stage: int = 0,
    recipe: str | Recipe = DEFAULT_RECIPE,
    model_parallel: int = 1,
) -> int:
    """The most parameters whose states fit ``card_bytes`` (B) on each rank; 0 if not even one does.

    Model parallelism first cuts the model into ``model_parallel`` equal parts; each part is held by
    a group of ``ranks`` data-parallel ranks, so ranks × model_parallel cards in all. One flat unit
    a part, of at most 10¹⁵ parameters (ZeRO §9, Table 2).

    (S5)

    Raises:
        InputError: as `bytes_per_rank`; card_bytes or model_parallel not whole or not positive.
    """
    card_bytes = whole("card", card_bytes, 1, MOST_CARD_BYTES)
    model_parallel = whole("model parallel", model_parallel, 1, MOST_RANKS)
    recipe = recipe_named(recipe)

    def too_large(parameters: int) -> bool:
        return bytes_per_rank(parameters, ranks, stage, recipe).fullest_rank_bytes > card_bytes

    first = _first(too_large, 1, MOST_PARAMETERS)
    return model_parallel * (MOST_PARAMETERS if first is None else first - 1)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The first number in [low, high] for which ``holds``, which once true stays true."""
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
