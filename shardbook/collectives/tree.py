"""Collectives along a tree whose root is the first rank: a star (naive) or a binary tree.

A tree is a tuple of levels from the root down; a level is a tuple of (parent, child) edges that
are used in one round.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from shardbook.collectives.contract import COLLECTIVES, contract
from shardbook.collectives.plan import (
    Chunk,
    Plan,
    Round,
    Rounds,
    Transfer,
    one_after_another,
    participants,
)
from shardbook.errors import one_of

Edge = tuple[int, int]
Levels = tuple[tuple[Edge, ...], ...]


def star(order: tuple[int, ...]) -> Levels:
    """Return the tree of one level: every other rank hangs on the first."""
    edges = tuple((order[0], rank) for rank in order[1:])
    return (edges,) if edges else ()


def binary(order: tuple[int, ...]) -> Levels:
    """Return the binary tree: the i-th rank's children are the (2i + 1)-th and (2i + 2)-th.

    It has ⌊log₂ N⌋ levels.
    """
    levels = []
    first = 1
    while first < len(order):
        places = range(first, min(2 * first + 1, len(order)))
        levels.append(tuple((order[(i - 1) // 2], order[i]) for i in places))
        first = 2 * first + 1
    return tuple(levels)


def naive(collective: str, ranks: int | Sequence[int], sizes: int | Sequence[int]) -> Plan:
    """Plan a collective through the root: everybody sends to it or receives from it (S59).

    ``ranks``: how many, or the global ranks, the root first. ``sizes``: as for `tree`. A phase
    is one round, in which the root's port carries everything. Raises InputError.
    """
    return _along(star, collective, ranks, sizes)


def tree(collective: str, ranks: int | Sequence[int], sizes: int | Sequence[int]) -> Plan:
    """Plan a collective along a binary tree: up to the root, down from it, or both.

    All-reduce is a reduce and a broadcast, reduce-scatter a reduce and a scatter, all-gather a
    gather and a broadcast, all-to-all a gather and a scatter; ⌊log₂ N⌋ rounds each. ``sizes``:
    elements in all (one chunk where every rank gets the same sum or copy, else cut into N), or
    of each chunk. Raises InputError.
    """
    return _along(binary, collective, ranks, sizes)


def broadcast_rounds(levels: Levels, chunks: tuple[int, ...]) -> Iterator[Round]:
    """Copy ``chunks`` from the root down, level by level."""
    for level in levels:
        yield tuple(Transfer(*edge, chunk, False) for edge in level for chunk in chunks)


def reduce_rounds(levels: Levels, chunks: tuple[int, ...]) -> Iterator[Round]:
    """Sum ``chunks`` from the leaves up, level by level."""
    for level in reversed(levels):
        yield tuple(
            Transfer(child, parent, chunk, True) for parent, child in level for chunk in chunks
        )


def _along(
    shape: Callable[[tuple[int, ...]], Levels],
    collective: str,
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
) -> Plan:
    one_of("collective", collective, COLLECTIVES)
    order = participants(ranks)
    alike = collective in ("all-reduce", "broadcast", "reduce")
    pieces = len(sizes) if alike and isinstance(sizes, Sequence) else 1 if alike else len(order)
    chunks = contract(collective, order, sizes, pieces)
    arguments = (shape(order), chunks)
    phases = [Rounds(phase, arguments) for phase in _PHASES[collective]]
    return Plan(collective, order, chunks, one_after_another(*phases))


def _broadcast(levels: Levels, chunks: tuple[Chunk, ...]) -> Iterator[Round]:
    return broadcast_rounds(levels, tuple(range(len(chunks))))


def _reduce(levels: Levels, chunks: tuple[Chunk, ...]) -> Iterator[Round]:
    return reduce_rounds(levels, tuple(range(len(chunks))))


def _gather(levels: Levels, chunks: tuple[Chunk, ...]) -> Iterator[Round]:
    held = _below(levels, [chunk.sources[0] for chunk in chunks])
    for level in reversed(levels):
        yield tuple(
            Transfer(child, parent, chunk, False)
            for parent, child in level
            for chunk in held.get(child, ())
        )


def _scatter(levels: Levels, chunks: tuple[Chunk, ...]) -> Iterator[Round]:
    wanted = _below(levels, [chunk.targets[0] for chunk in chunks])
    for level in levels:
        yield tuple(
            Transfer(parent, child, chunk, False)
            for parent, child in level
            for chunk in wanted.get(child, ())
        )


def _below(levels: Levels, owners: list[int]) -> dict[int, list[int]]:
    """Return for each rank the chunks owned by it and by the ranks below it."""
    chunks: dict[int, list[int]] = {}
    for chunk, rank in enumerate(owners):
        chunks.setdefault(rank, []).append(chunk)
    for level in reversed(levels):
        for parent, child in level:
            chunks.setdefault(parent, []).extend(chunks.get(child, []))
    return chunks


_PHASES: Final = {
    "broadcast": (_broadcast,),
    "reduce": (_reduce,),
    "gather": (_gather,),
    "scatter": (_scatter,),
    "all-reduce": (_reduce, _broadcast),
    "reduce-scatter": (_reduce, _scatter),
    "all-gather": (_gather, _broadcast),
    "all-to-all": (_gather, _scatter),
}
