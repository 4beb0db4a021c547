"""Ring collectives: in every round each rank sends one block to its neighbour.

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69 (2009), section 3. N ranks take N - 1 rounds for a reduce-scatter, N - 1
for an all-gather and both for an all-reduce; a rank sends (N - 1)/N of the data in each phase.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, repeat

from shardbook.collectives.contract import contract
from shardbook.collectives.plan import (
    MOST_ELEMENTS,
    MOST_RANKS,
    Plan,
    Round,
    Rounds,
    Transfer,
    ceil_div,
    one_after_another,
    participants,
)
from shardbook.errors import InputError, whole

Blocks = tuple[tuple[int, ...], ...]


def reduce_scatter_rounds(order: tuple[int, ...], blocks: Blocks) -> Iterator[Round]:
    """Sum ``blocks[i]`` along the ring ``order`` so that the whole of it ends at ``order[i]``.

    A block is a tuple of chunks, as many in each; it starts behind its owner and visits it last:
    the summation order of ``blocks[i]`` is order[i + 1], order[i + 2], …, order[i].
    """
    return _turns(order, blocks, range(1, len(order)), add=True)


def all_gather_rounds(order: tuple[int, ...], blocks: Blocks) -> Iterator[Round]:
    """Pass ``blocks[i]``, whole at ``order[i]``, once around the ring ``order``."""
    return _turns(order, blocks, range(len(order) - 1), add=False)


def ring_reduce_scatter(
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    *,
    direction: int = 1,
    offset: int = 0,
) -> Plan:
    """Plan a ring reduce-scatter (S19).

    ``ranks``: how many, or the global ranks in ring order. ``sizes``: elements of each of the N
    chunks, or a total that is cut evenly. ``direction``: each rank sends to the next (1) or the
    previous (-1) one. ``offset``: the i-th rank ends with chunk i + offset (mod N), so it first
    sends chunk i + offset - direction. Raises InputError.
    """
    return _ring("reduce-scatter", (reduce_scatter_rounds,), ranks, sizes, direction, offset)


def ring_all_gather(
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    *,
    direction: int = 1,
    offset: int = 0,
) -> Plan:
    """Plan a ring all-gather; the i-th rank starts with chunk i + offset (mod N) (S19).

    Arguments and errors as for `ring_reduce_scatter`.
    """
    return _ring("all-gather", (all_gather_rounds,), ranks, sizes, direction, offset)


def ring_all_reduce(
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    *,
    direction: int = 1,
    offset: int = 0,
) -> Plan:
    """Plan a ring all-reduce: a reduce-scatter, then an all-gather, over the same chunks.

    Arguments and errors as for `ring_reduce_scatter`.

    (S19, S59)
    """
    phases = (reduce_scatter_rounds, all_gather_rounds)
    return _ring("all-reduce", phases, ranks, sizes, direction, offset)


def ring_all_to_all(ranks: int | Sequence[int], sizes: int | Sequence[int]) -> Plan:
    """Plan an all-to-all where each chunk hops from neighbour to neighbour to its target (S58).

    ``sizes``: elements each rank sends to each of the N, or their total, or all N². A rank
    sends about N/2 times what a direct exchange sends. Raises InputError.
    """
    order = participants(ranks)
    chunks = contract("all-to-all", order, sizes, len(order))
    return Plan("all-to-all", order, chunks, Rounds(_hops, (order,)))


def ring_broadcast(ranks: int | Sequence[int], sizes: int | Sequence[int]) -> Plan:
    """Plan a broadcast down the chain of ranks from the first one, chunk after chunk.

    ``sizes``: elements of the chunks, or a total cut into N. K chunks take N + K - 2 rounds.
    Raises InputError.
    """
    order, pieces = _chain(ranks, sizes)
    rounds = Rounds(_chain_rounds, (order, pieces, False))
    return Plan("broadcast", order, contract("broadcast", order, sizes, pieces), rounds)


def ring_reduce(ranks: int | Sequence[int], sizes: int | Sequence[int]) -> Plan:
    """Plan a sum up the chain of ranks to the first one, chunk after chunk.

    Arguments, rounds and errors as for `ring_broadcast`.
    """
    order, pieces = _chain(ranks, sizes)
    rounds = Rounds(_chain_rounds, (order[::-1], pieces, True))
    return Plan("reduce", order, contract("reduce", order, sizes, pieces), rounds)


def gloo_sizes(elements: int, element_bytes: int, ranks: int) -> tuple[int, ...]:
    """Return the chunk sizes, in elements, of gloo's ring all-reduce; it runs in direction -1.

    The vector is cut into segments of at most 1 MiB, at least two per chunk, and a segment is
    rounded up to the element; the last chunks may be short or empty.
    Source: gloo/allreduce.cc, ring. Raises InputError.
    """
    n = whole("ranks", ranks, 1, MOST_RANKS)
    width = whole("element bytes", element_bytes, 1, 1 << 10)
    size = whole("elements", elements, 0, MOST_ELEMENTS) * width
    per_chunk = ceil_div(max(ceil_div(size, 1 << 20), 2 * n), n)
    segment = ceil_div(ceil_div(size, per_chunk * n), width)
    chunk = segment * per_chunk
    return tuple(max(0, min(chunk, elements - i * chunk)) for i in range(n))


def _turns(order: tuple[int, ...], blocks: Blocks, behind: range, *, add: bool) -> Iterator[Round]:
    """Let ``order[i]`` send ``blocks[i - k]`` to ``order[i + 1]`` (mod N), for k in ``behind``."""
    width = len(blocks[0])
    sources = [rank for rank in order for _ in range(width)]
    targets = sources[width:] + sources[:width]
    chunks = [chunk for block in blocks for chunk in block]
    for k in behind:
        cut = len(chunks) - k * width
        sent = chunks[cut:] + chunks[:cut]
        yield tuple(map(Transfer._make, zip(sources, targets, sent, repeat(add), strict=False)))


def _ring(
    collective: str,
    phases: tuple[Callable[[tuple[int, ...], Blocks], Iterator[Round]], ...],
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    direction: int,
    offset: int,
) -> Plan:
    order = participants(ranks)
    n = len(order)
    shift = whole("offset", offset, -n, n)
    if direction not in (1, -1):
        raise InputError("direction", direction, "give 1 (to the next rank) or -1 (previous)")
    owners = [order[(chunk - shift) % n] for chunk in range(n)]
    blocks = tuple(((i + shift) % n,) for i in range(n))
    turned = (order[::direction], blocks[::direction])
    rounds = one_after_another(*(Rounds(phase, turned) for phase in phases))
    return Plan(collective, order, contract(collective, order, sizes, n, owners), rounds)


def _hops(order: tuple[int, ...]) -> Iterator[Round]:
    n = len(order)
    for k in range(n - 1):
        yield tuple(
            Transfer(order[(i + k) % n], order[(i + k + 1) % n], i * n + (i + away) % n, False)
            for i in range(n)
            for away in range(k + 1, n)
        )


def _chain(ranks: int | Sequence[int], sizes: int | Sequence[int]) -> tuple[tuple[int, ...], int]:
    order = participants(ranks)
    return order, len(sizes) if isinstance(sizes, Sequence) else len(order)


def _chain_rounds(order: tuple[int, ...], pieces: int, add: bool) -> Iterator[Round]:
    """Pass pieces from the first of ``order`` to the last: the i-th sends piece k - i."""
    links = list(pairwise(order))
    if not links:
        return
    for k in range(len(links) + pieces - 1):
        yield tuple(
            Transfer(*links[i], k - i, add)
            for i in range(max(0, k - pieces + 1), min(len(links), k + 1))
        )
