"""What context parallelism sends and how unequal its work is, by formula.

Source: Liu et al., arXiv 2310.01889, section 3; the two-ended cut: Llama 3, arXiv 2407.21783,
section 3.3.2.
"""

from fractions import Fraction

from shardbook.collectives.plan import MOST_RANKS
from shardbook.errors import whole


def ring_attention_bytes(tokens: int, width: int, ranks: int, element_bytes: int = 2) -> Fraction:
    """Return the B a rank sends for one layer: (6N - 4)/N · tokens · width · element bytes (S63).

    ``tokens`` of the whole sequence; ``width``: heads × d of the keys. Keys and values N - 1 times
    forward and N - 1 times backward, their gradients N times. Nothing for N = 1. Raises InputError.
    """
    t, w = whole("tokens", tokens, 1, 1 << 40), whole("width", width, 1, 1 << 24)
    n = whole("ranks", ranks, 1, MOST_RANKS)
    size = whole("element bytes", element_bytes, 1, 1 << 10)
    moves = 2 * (3 * n - 2) if n > 1 else 0
    return Fraction(moves * t * w * size, n)


def causal_work(ranks: int, *, two_ended: bool = False) -> tuple[int, ...]:
    """Return the query-times-key area of causal attention on each rank (S63).

    Unit: half a block of the 2N-fold cut, so that the total is (2N)². Cut into N runs the last
    rank has 2N - 1 times the work of the first; ``two_ended`` gives rank i runs i and 2N - 1 - i,
    which makes all alike. Raises InputError.
    """
    n = whole("ranks", ranks, 1, MOST_RANKS)
    runs = [(i, 2 * n - 1 - i) if two_ended else (2 * i, 2 * i + 1) for i in range(n)]
    return tuple((2 * a + 1) + (2 * b + 1) for a, b in runs)
