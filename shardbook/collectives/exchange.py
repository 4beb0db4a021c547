"""Exchange between pairs: everybody with everybody at once, or recursive halving and doubling.

Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
MPICH", IJHPCA 19 (2005), sections 4.1 to 4.5.
"""

from collections.abc import Iterator, Sequence

from shardbook.collectives.contract import contract
from shardbook.collectives.plan import (
    Plan,
    Round,
    Rounds,
    Transfer,
    one_after_another,
    participants,
)
from shardbook.collectives.tree import naive
from shardbook.errors import one_of


def direct(collective: str, ranks: int | Sequence[int], sizes: int | Sequence[int]) -> Plan:
    """Plan a collective in one round: each rank sends every other what that one needs (S58).

    In an all-reduce that is the whole vector, N - 1 times. A receiver adds to its own part
    what comes from the ranks after it, in their order (mod N): the sums of an all-reduce differ
    in rounding from rank to rank. Raises InputError.
    """
    allowed = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")
    one_of("collective", collective, allowed)
    if collective == "broadcast":
        return naive(collective, ranks, sizes)
    order = participants(ranks)
    pieces = 1 if collective == "all-reduce" else len(order)
    chunks = contract(collective, order, sizes, pieces)
    return Plan(collective, order, chunks, Rounds(_direct, (collective, order)))


def halving_doubling(
    collective: str, ranks: int | Sequence[int], sizes: int | Sequence[int]
) -> Plan:
    """Plan a reduce-scatter by recursive halving, an all-gather by doubling, or an all-reduce.

    log₂ N rounds a phase. Where N is no power of two they work among the first 2ᵏ ranks, the most
    there are, and each further rank has one of these as its partner: first it gives the partner
    what others need of it, last it takes what it needs. The sum of a chunk that it owns it ends
    itself, by adding what the others have summed. ``sizes``: elements of the chunks (N; 2ᵏ in an
    all-reduce), or their total. Raises InputError.
    """
    one_of("collective", collective, ("all-reduce", "reduce-scatter", "all-gather"))
    order = participants(ranks)
    core = 1 << (len(order).bit_length() - 1)
    pieces = core if collective == "all-reduce" else len(order)
    chunks = contract(collective, order, sizes, pieces)
    phases: list[Rounds] = []
    if collective != "all-gather":
        phases += [Rounds(_fold, (order, pieces)), Rounds(_halving, (order[:core], pieces))]
    else:
        phases.append(Rounds(_own, (order[core:], order, core, False)))
    if collective != "reduce-scatter":
        phases += [Rounds(_doubling, (order[:core], pieces)), Rounds(_unfold, (order, pieces))]
    else:
        phases.append(Rounds(_own, (order, order[core:], core, True)))
    return Plan(collective, order, chunks, one_after_another(*phases))


def _direct(collective: str, order: tuple[int, ...]) -> Iterator[Round]:
    n = len(order)
    add = collective in ("all-reduce", "reduce-scatter")

    def chunk(source: int, target: int) -> int:
        if collective == "all-to-all":
            return source * n + target
        return {"all-reduce": 0, "reduce-scatter": target, "all-gather": source}[collective]

    pairs = [(i, (i - away) % n) for away in range(1, n) for i in range(n)]
    if pairs:
        yield tuple(Transfer(order[i], order[j], chunk(i, j), add) for i, j in pairs)


def _halving(order: tuple[int, ...], pieces: int) -> Iterator[Round]:
    distance = len(order) // 2
    while distance:
        yield _swap(order, distance, pieces, add=True)
        distance //= 2


def _doubling(order: tuple[int, ...], pieces: int) -> Iterator[Round]:
    distance = 1
    while distance < len(order):
        yield _swap(order, distance, pieces, add=False)
        distance *= 2


def _swap(order: tuple[int, ...], distance: int, pieces: int, *, add: bool) -> Round:
    """Let each rank and its partner exchange the half of a sum, or the copy, the other needs.

    The i-th rank stands for chunk i, and for that of the further rank whose partner it is. A run
    of ``distance`` ranks' chunks belongs to the ranks that agree in all higher bits.
    """
    moves = []
    for i, source in enumerate(order):
        partner = i ^ distance
        start = ((partner if add else i) // distance) * distance
        moves += [
            Transfer(source, order[partner], chunk, add)
            for owner in range(start, start + distance)
            for chunk in range(owner, pieces, len(order))
        ]
    return tuple(moves)


def _fold(order: tuple[int, ...], pieces: int) -> Iterator[Round]:
    """Let each further rank add all but its own chunk to its partner's."""
    moves = [
        Transfer(rank, partner, chunk, True) for rank, partner, chunk in _foreign(order, pieces)
    ]
    if moves:
        yield tuple(moves)


def _unfold(order: tuple[int, ...], pieces: int) -> Iterator[Round]:
    """Let each further rank copy all but its own chunk from its partner."""
    moves = [
        Transfer(partner, rank, chunk, False) for rank, partner, chunk in _foreign(order, pieces)
    ]
    if moves:
        yield tuple(moves)


def _foreign(order: tuple[int, ...], pieces: int) -> Iterator[tuple[int, int, int]]:
    """Each further rank, its partner, and each chunk that is not the further rank's own."""
    core = 1 << (len(order).bit_length() - 1)
    for own, (rank, partner) in enumerate(zip(order[core:], order, strict=False), core):
        yield from ((rank, partner, chunk) for chunk in range(pieces) if chunk != own)


def _own(
    sources: tuple[int, ...], targets: tuple[int, ...], first: int, add: bool
) -> Iterator[Round]:
    """Send each further rank's own chunk, the ``first`` and those after it, to or from it."""
    pairs = tuple(zip(sources, targets, strict=False))
    if pairs:
        yield tuple(Transfer(*pair, chunk, add) for chunk, pair in enumerate(pairs, first))
