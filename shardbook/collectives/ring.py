"""Ring collectives: in every round each rank sends one block to its neighbour.

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69 (2009), section 3. N ranks take N - 1 rounds for a reduce-scatter, N - 1
for an all-gather and both for an all-reduce; a rank sends (N - 1)/N of the data in each phase.
"""

from collections.abc import Iterator, Sequence

from shardbook.collectives.plan import (
    Chunk,
    Plan,
    Round,
    Rounds,
    Transfer,
    ceil_div,
    chunk_sizes,
    one_after_another,
    participants,
)
from shardbook.errors import InputError, whole

Blocks = tuple[tuple[int, ...], ...]


def reduce_scatter_rounds(order: tuple[int, ...], blocks: Blocks) -> Iterator[Round]:
    """Sum ``blocks[i]`` along the ring ``order`` so that the whole of it ends at ``order[i]``.

    A block, a tuple of chunks, starts behind its owner and visits it last: the summation order
    of ``blocks[i]`` is order[i + 1], order[i + 2], …, order[i].
    """
    n = len(order)
    neighbours = order[1:] + order[:1]
    twice = blocks + blocks
    for k in range(n - 1):
        sent = twice[n - 1 - k : 2 * n - 1 - k]
        yield tuple(
            [
                Transfer(source, target, chunk, True)
                for source, target, block in zip(order, neighbours, sent, strict=True)
                for chunk in block
            ]
        )


def all_gather_rounds(order: tuple[int, ...], blocks: Blocks) -> Iterator[Round]:
    """Pass ``blocks[i]``, whole at ``order[i]``, once around the ring ``order``."""
    n = len(order)
    neighbours = order[1:] + order[:1]
    twice = blocks + blocks
    for k in range(n - 1):
        sent = twice[n - k : 2 * n - k]
        yield tuple(
            [
                Transfer(source, target, chunk, False)
                for source, target, block in zip(order, neighbours, sent, strict=True)
                for chunk in block
            ]
        )


def ring_reduce_scatter(
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    *,
    direction: int = 1,
    offset: int = 0,
) -> Plan:
    """Plan a ring reduce-scatter.

    ``ranks``: how many, or the global ranks in ring order. ``sizes``: elements of each of the N
    chunks, or a total that is cut evenly. ``direction``: each rank sends to the next (1) or the
    previous (-1) one. ``offset``: the i-th rank ends with chunk i + offset (mod N), so it first
    sends chunk i + offset - direction. Raises InputError.
    """
    order, owned, counts = _ring(ranks, sizes, offset)
    chunks = _chunks(order, owned, counts, sources=order, targets=None)
    rounds = Rounds(reduce_scatter_rounds, _turned(order, owned, direction))
    return Plan("reduce-scatter", order, chunks, rounds)


def ring_all_gather(
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    *,
    direction: int = 1,
    offset: int = 0,
) -> Plan:
    """Plan a ring all-gather; the i-th rank starts with chunk i + offset (mod N).

    Arguments and errors as for `ring_reduce_scatter`.
    """
    order, owned, counts = _ring(ranks, sizes, offset)
    chunks = _chunks(order, owned, counts, sources=None, targets=order)
    rounds = Rounds(all_gather_rounds, _turned(order, owned, direction))
    return Plan("all-gather", order, chunks, rounds)


def ring_all_reduce(
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    *,
    direction: int = 1,
    offset: int = 0,
) -> Plan:
    """Plan a ring all-reduce: a reduce-scatter, then an all-gather, over the same chunks.

    Arguments and errors as for `ring_reduce_scatter`.
    """
    order, owned, counts = _ring(ranks, sizes, offset)
    chunks = _chunks(order, owned, counts, sources=order, targets=order)
    turned = _turned(order, owned, direction)
    rounds = one_after_another(
        Rounds(reduce_scatter_rounds, turned), Rounds(all_gather_rounds, turned)
    )
    return Plan("all-reduce", order, chunks, rounds)


def gloo_sizes(elements: int, element_bytes: int, ranks: int) -> tuple[int, ...]:
    """Return the chunk sizes, in elements, of gloo's ring all-reduce; it runs in direction -1.

    The vector is cut into segments of at most 1 MiB, at least two per chunk, and a segment is
    rounded up to the element; the last chunks may be short or empty.
    Source: gloo/allreduce.cc, ring. Raises InputError.
    """
    n = whole("ranks", ranks, 1, 1 << 16)
    width = whole("element bytes", element_bytes, 1, 1 << 10)
    size = whole("elements", elements, 0, 1 << 62) * width
    per_chunk = ceil_div(max(ceil_div(size, 1 << 20), 2 * n), n)
    segment = ceil_div(ceil_div(size, per_chunk * n), width)
    chunk = segment * per_chunk
    return tuple(max(0, min(chunk, elements - i * chunk)) for i in range(n))


def _ring(
    ranks: int | Sequence[int], sizes: int | Sequence[int], offset: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    order = participants(ranks)
    n = len(order)
    shift = whole("offset", offset, -n, n)
    return order, tuple((i + shift) % n for i in range(n)), chunk_sizes(sizes, n)


def _chunks(
    order: tuple[int, ...],
    owned: tuple[int, ...],
    sizes: tuple[int, ...],
    *,
    sources: tuple[int, ...] | None,
    targets: tuple[int, ...] | None,
) -> tuple[Chunk, ...]:
    """Make the chunks; None stands for the chunk's owner."""
    owner = dict(zip(owned, order, strict=True))
    return tuple(
        Chunk(size, sources or (owner[chunk],), targets or (owner[chunk],))
        for chunk, size in enumerate(sizes)
    )


def _turned(
    order: tuple[int, ...], owned: tuple[int, ...], direction: int
) -> tuple[tuple[int, ...], Blocks]:
    if direction not in (1, -1):
        raise InputError(
            "direction", direction, "give 1 (to the next rank) or -1 (to the previous)"
        )
    blocks = tuple((chunk,) for chunk in owned)
    return order[::direction], blocks[::direction]
