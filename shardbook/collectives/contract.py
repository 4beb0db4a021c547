"""What each collective promises: on which ranks a chunk starts and on which it must end."""

from collections.abc import Sequence
from typing import Final

from shardbook.collectives.plan import Chunk, chunk_sizes
from shardbook.errors import one_of

COLLECTIVES: Final = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
)
#: every rank has a contribution, or one rank has the chunk
_SUMMED: Final = ("all-reduce", "reduce-scatter", "reduce")
_SPREAD: Final = ("all-reduce", "all-gather", "broadcast")
_FROM_ROOT: Final = ("broadcast", "scatter")
_TO_ROOT: Final = ("reduce", "gather")


def contract(
    collective: str,
    order: tuple[int, ...],
    sizes: int | Sequence[int],
    pieces: int,
    owners: Sequence[int] | None = None,
) -> tuple[Chunk, ...]:
    """Return the chunks of a collective among ``order``; the root is the first rank.

    ``sizes``: elements of each of ``pieces`` chunks, or their total. ``owners``: the rank that
    starts with a chunk (all-gather, gather) or ends with it (reduce-scatter, scatter); by default
    chunk i is the i-th rank's. All-to-all has N² chunks: chunk i·N + j goes from the i-th rank to
    the j-th; either N² sizes are given, or the N that every rank sends, or their total. Raises
    InputError.
    """
    one_of("collective", collective, COLLECTIVES)
    single = [(rank,) for rank in order]
    if collective == "all-to-all":
        n = len(order)
        uneven = isinstance(sizes, Sequence) and len(sizes) == n * n
        every = chunk_sizes(sizes, n * n) if uneven else chunk_sizes(sizes, n) * n
        ends = [(source, target) for source in single for target in single]
        return tuple(Chunk(size, *pair) for size, pair in zip(every, ends, strict=True))
    owned = [(rank,) for rank in owners or order]
    chunks = []
    for number, size in enumerate(chunk_sizes(sizes, pieces)):
        sources = targets = order
        if collective not in _SUMMED:
            sources = single[0] if collective in _FROM_ROOT else owned[number]
        if collective not in _SPREAD:
            targets = single[0] if collective in _TO_ROOT else owned[number]
        chunks.append(Chunk(size, sources, targets))
    return tuple(chunks)
