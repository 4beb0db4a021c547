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
from shardbook.errors import InputError, one_of


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

    log₂ N rounds a phase. Where N is no power of two an all-reduce works among the first 2ᵏ
    ranks, the most there are: each further rank first adds its whole vector to one of these and
    last copies the sum from it. The other two are refused then. ``sizes``: elements of the
    chunks (N; 2ᵏ in an all-reduce), or their total. Raises InputError.
    """
    one_of("collective", collective, ("all-reduce", "reduce-scatter", "all-gather"))
    order = participants(ranks)
    core = 1 << (len(order).bit_length() - 1)
    if collective != "all-reduce" and core < len(order):
        raise InputError(
            "ranks", len(order), f"halving-doubling needs a power of two for {collective}"
        )
    chunks = contract(collective, order, sizes, core)
    halving, doubling = Rounds(_halving, (order[:core],)), Rounds(_doubling, (order[:core],))
    if collective == "reduce-scatter":
        return Plan(collective, order, chunks, halving)
    if collective == "all-gather":
        return Plan(collective, order, chunks, doubling)
    extra = tuple(zip(order[core:], order, strict=False))
    fold, unfold = Rounds(_fold, (extra, core)), Rounds(_unfold, (extra, core))
    return Plan(collective, order, chunks, one_after_another(fold, halving, doubling, unfold))


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


def _halving(order: tuple[int, ...]) -> Iterator[Round]:
    distance = len(order) // 2
    while distance:
        yield _swap(order, distance, add=True)
        distance //= 2


def _doubling(order: tuple[int, ...]) -> Iterator[Round]:
    distance = 1
    while distance < len(order):
        yield _swap(order, distance, add=False)
        distance *= 2


def _swap(order: tuple[int, ...], distance: int, *, add: bool) -> Round:
    """Let each rank and its partner exchange the half of a sum, or the copy, the other needs.

    A run of ``distance`` chunks belongs to the ranks that agree in all higher bits.
    """
    moves = []
    for i, source in enumerate(order):
        partner = i ^ distance
        start = ((partner if add else i) // distance) * distance
        moves += [
            Transfer(source, order[partner], chunk, add) for chunk in range(start, start + distance)
        ]
    return tuple(moves)


def _fold(extra: tuple[tuple[int, int], ...], chunks: int) -> Iterator[Round]:
    if extra:
        yield tuple(Transfer(*pair, chunk, True) for pair in extra for chunk in range(chunks))


def _unfold(extra: tuple[tuple[int, int], ...], chunks: int) -> Iterator[Round]:
    if extra:
        yield tuple(
            Transfer(partner, rank, chunk, False)
            for rank, partner in extra
            for chunk in range(chunks)
        )
