"""Sharding stages 0 to 3: from a recipe and a world size to exact bytes on each rank.

ZeRO (Rajbhandari et al., SC 2020, §5): stage 1 shards the optimizer states (P_os), stage 2 also
the gradients (P_os+g), stage 3 also the weights (P_os+g+p); stage 0 is plain data parallelism.

[Note: flat units] Parameters are sharded as one or more flat units. A unit of ψ elements is padded
on its right to a multiple of the N ranks and cut into N equal pieces of ⌈ψ/N⌉ elements, so all
ranks store the same number of bytes and the last ranks hold the padding, fewer than N elements a
unit. What is replicated is not padded.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, whole
from shardbook.ledger.recipes import CATEGORIES, DEFAULT_RECIPE, Part, Recipe, recipe_named

MOST_PARAMETERS: Final = 10**15
MOST_RANKS: Final = 10**6
MOST_UNITS: Final = 1_000

#: category → from when to when a step holds it; all else is held from the start to the end
_HELD: Final = {"gradients": ("backward", "end of update")}
_ALWAYS: Final = ("start", "end of training")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger: what each rank from ``first_rank`` to ``last_rank`` holds.

    Bytes (B) are for one rank. ``owned_bytes`` is this rank's own part of a sharded array,
    ``padding_bytes`` what the cutting adds to it, ``replicated_bytes`` a copy that others have too.
    """

    first_rank: int
    last_rank: int
    category: str
    what: str
    owned_bytes: int
    padding_bytes: int
    replicated_bytes: int
    since: str
    until: str

    @property
    def bytes(self) -> int:
        """All bytes (B) of this line on one rank."""
        return self.owned_bytes + self.padding_bytes + self.replicated_bytes

    @property
    def replicated(self) -> bool:
        """Whether other ranks hold the same bytes."""
        return self.replicated_bytes > 0

    def __str__(self) -> str:
        if self.first_rank == self.last_rank:
            who = f"rank {self.first_rank}"
        else:
            who = f"ranks {self.first_rank}–{self.last_rank}"
        how = "replicated" if self.replicated else f"{self.owned_bytes:,} owned"
        if self.padding_bytes:
            how += f" + {self.padding_bytes:,} padding"
        name = f"{self.category} ({self.what})"
        return f"{who}: {name} {self.bytes:,} B, {how}, {self.since} → {self.until}"


@dataclass(frozen=True, slots=True)
class Ledger:
    """What each of ``ranks`` ranks stores at ``stage``; made by `bytes_per_rank`.

    All ranks store equally many bytes (see [Note: flat units]); `lines` tells them apart by what
    is their own and what is padding.
    """

    units: tuple[int, ...]
    ranks: int
    stage: int
    recipe: Recipe

    @property
    def parameters(self) -> int:
        """Parameters of the model, Ψ, without padding."""
        return sum(self.units)

    @property
    def padded_parameters(self) -> int:
        """Parameters with each unit padded to a multiple of the ranks, Ψ′."""
        return self.ranks * sum(self._piece(unit) for unit in self.units)

    def sharded(self, part: Part) -> bool:
        """Whether ``part`` is cut into pieces (one rank alone owns everything)."""
        return self.ranks == 1 or self.stage >= part.sharded_from

    def by_category(self) -> dict[str, int]:
        """Bytes (B) on the fullest rank by category, padding included; all categories are keys."""
        table = dict.fromkeys(CATEGORIES, 0)
        for part in self.recipe.parts:
            table[part.category] += sum(self._stored(part, unit) for unit in self.units)
        return table

    @property
    def fullest_rank_bytes(self) -> int:
        """All bytes (B) on the fullest rank, padding included."""
        return sum([self._stored(part, unit) for part in self.recipe.parts for unit in self.units])

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every line of the ledger, ranks that hold the same taken together, in rank order."""
        starts = sorted(self._starts())
        ends = [*(start - 1 for start in starts[1:]), self.ranks - 1]
        return tuple(
            line
            for first, last in zip(starts, ends, strict=True)
            for line in self._lines(first, last)
        )

    def lines_of(self, rank: int) -> tuple[Line, ...]:
        """The lines of one rank, one for each part of the recipe.

        Raises:
            InputError: ``rank`` is not a whole number from 0 to ranks − 1.
        """
        rank = whole("rank", rank, 0, self.ranks - 1)
        return tuple(self._lines(rank, rank))

    def _piece(self, unit: int) -> int:
        return -(-unit // self.ranks)

    def _stored(self, part: Part, unit: int) -> int:
        return part.bytes_of(self._piece(unit) if self.sharded(part) else unit)

    def _cuts(self, part: Part, unit: int) -> Iterator[tuple[int, int, int]]:
        """(bytes an item, items in the unit, items in a piece): the elements, then the scales.

        A scale that exists only because the cutting splits a block counts as padding: counted from
        rank 0 on, the owned scales are those of the undivided unit.
        """
        piece = self._piece(unit)
        yield part.bytes, unit, piece
        if part.bytes_per_block:
            yield part.bytes_per_block, -(-unit // part.block), -(-piece // part.block)

    def _starts(self) -> set[int]:
        """The ranks at which what is owned may change."""
        starts = {0}
        for part in filter(self.sharded, self.recipe.parts):
            for unit in self.units:
                for _, items, piece in self._cuts(part, unit):
                    full = items // piece
                    starts |= {start for start in (full, full + 1) if start < self.ranks}
        return starts

    def _lines(self, first: int, last: int) -> Iterator[Line]:
        for part in self.recipe.parts:
            stored = sum(self._stored(part, unit) for unit in self.units)
            owned = sum(
                size * min(piece, max(0, items - first * piece))
                for unit in self.units
                for size, items, piece in self._cuts(part, unit)
            )
            split = (owned, stored - owned, 0) if self.sharded(part) else (0, 0, stored)
            when = _HELD.get(part.category, _ALWAYS)
            yield Line(first, last, part.category, part.what, *split, *when)


def bytes_per_rank(
    parameters: int | Sequence[int],
    ranks: int = 1,
    stage: int = 0,
    recipe: str | Recipe = DEFAULT_RECIPE,
) -> Ledger:
    """The ledger of the states: what each rank stores of a model of ``parameters``.

    ``parameters`` is one number (one flat unit), or one number for each flat unit.

    (S1, S6, S7, S38)

    Raises:
        InputError: parameters not whole or not in 1…10¹⁵, ranks not in 1…10⁶, stage not in 0…3,
            or an unknown recipe.
    """
    return Ledger(
        flat_units(parameters),
        whole("ranks", ranks, 1, MOST_RANKS),
        whole("stage", stage, 0, 3),
        recipe_named(recipe),
    )


def flat_units(parameters: int | Iterable[int]) -> tuple[int, ...]:
    """Check a number of parameters, or the sizes of the flat units, and return the units.

    Raises:
        InputError: a size or their sum is not a whole number in 1…10¹⁵, or there is none.
    """
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Iterable):
        return (whole("parameters", parameters, 1, MOST_PARAMETERS),)
    units = tuple(whole("units", unit, 1, MOST_PARAMETERS) for unit in parameters)
    if not 1 <= len(units) <= MOST_UNITS:
        raise InputError("units", len(units), f"give from 1 to {MOST_UNITS:,} flat units")
    whole("units, added up,", sum(units), 1, MOST_PARAMETERS)
    return units
