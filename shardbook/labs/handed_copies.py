"""Copies between checkpoint shards handed in as plain data: run by the engine on real shards.

A copy is ``(unit, source, start, target, place, length)``: so many elements of a unit, from an
element of the source rank's old shard to a place in the target rank's new shard.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from shardbook.collectives.plan import ceil_div
from shardbook.labs.values import Fault, show

_MOST_COPIES: Final = 20_000
_MOST_ELEMENTS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Resharded:
    """The new shards: ``shards[unit][rank]`` is a list of elements, None where nothing came."""

    shards: list[list[list[int | None]]]
    copies: int
    copied: int  #: elements, padding included, each as often as it was copied
    padding: int  #: how many of them are padding
    twice: int  #: how many places of the new shards were written again


def reshard(units: Sequence[int], old: int, new: int, value: Any) -> Resharded | Fault:
    """Run the copies on shards whose elements are their own numbers, padding -1."""
    if not isinstance(value, (list, tuple)):
        return Fault("result", "a list of copies", show(value))
    if len(value) > _MOST_COPIES:
        return Fault("result", "far fewer copies", f"{len(value):,}")
    sources = [
        [[e if e < size else -1 for e in range(r * p, (r + 1) * p)] for r in range(old)]
        for size, p in ((size, ceil_div(size, old)) for size in units)
    ]
    shards: list[list[list[int | None]]] = [
        [[None] * ceil_div(size, new) for _ in range(new)] for size in units
    ]
    copied = padding = twice = 0
    for number, copy in enumerate(value, start=1):
        if not _is_copy(copy):
            wanted = "six ints (unit, source, start, target, place, length)"
            return Fault(f"copy {number}", wanted, show(copy))
        unit, source, start, target, place, length = copy
        if not (0 <= unit < len(units) and 0 <= source < old and 0 <= target < new):
            return Fault(f"copy {number}", "a unit and ranks that there are", show(copy))
        shard, onto = sources[unit][source], shards[unit][target]
        if length < 1 or not 0 <= start <= len(shard) - length:
            return Fault(f"copy {number}", "elements that the old shard has", show(copy))
        if not 0 <= place <= len(onto) - length:
            return Fault(f"copy {number}", "a place inside the new shard", show(copy))
        copied += length
        if copied > _MOST_ELEMENTS:
            return Fault(f"copy {number}", "far fewer elements", f"{copied:,} in all")
        moved = shard[start : start + length]
        padding += moved.count(-1)
        twice += length - onto[place : place + length].count(None)
        onto[place : place + length] = moved
    return Resharded(shards, len(value), copied, padding, twice)


def _is_copy(copy: Any) -> bool:
    if not isinstance(copy, (list, tuple)) or len(copy) != 6:
        return False
    return all(type(number) is int for number in copy)


def misplaced(units: Sequence[int], new: int, done: Resharded) -> Fault | None:
    """Say which element of the new shards is not the one that belongs there."""
    for unit, size in enumerate(units):
        piece = ceil_div(size, new)
        for element in range(size):
            rank, place = divmod(element, piece)
            got = done.shards[unit][rank][place]
            if got != element:
                what = "nothing" if got is None else f"element {got}" if got >= 0 else "padding"
                where = f"unit {unit}, new rank {rank}, place {place}"
                return Fault(where, "the element that belongs there", what)
    return None


def needless(done: Resharded) -> Fault | None:
    """Say whether padding was copied, or something onto a place that was written already."""
    if not done.copied:
        return Fault("all copies together", "some elements", "none")
    if done.padding:
        return Fault("all copies together", "no padding", f"{done.padding} elements of padding")
    if done.twice:
        return Fault("all copies together", "each place once", f"{done.twice} places again")
    return None
