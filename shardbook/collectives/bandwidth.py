"""Algorithm and bus bandwidth as nccl-tests reports them, and the ring's time in closed form."""

from fractions import Fraction

from shardbook.collectives.contract import COLLECTIVES
from shardbook.errors import one_of, real, whole


def busbw_factor(collective: str, ranks: int) -> Fraction:
    """Return bus bandwidth / algorithm bandwidth among N ranks (S65).

    2(N - 1)/N for all-reduce, 1 for broadcast and reduce, (N - 1)/N for the others.
    Source: NVIDIA nccl-tests, doc/PERFORMANCE.md. Raises InputError.
    """
    one_of("collective", collective, COLLECTIVES)
    n = whole("ranks", ranks, 1, 1 << 31)
    if collective in ("broadcast", "reduce"):
        return Fraction(1)
    return Fraction((2 if collective == "all-reduce" else 1) * (n - 1), n)


def algbw(size: int, seconds: float) -> float | None:
    """Return S/t in B/s, or None for no time. ``size``: S in B as nccl-tests counts it (S65)."""
    duration = real("seconds", seconds, 0, 1e30, "s")
    return whole("bytes", size, 0, 1 << 62) / duration if duration else None


def busbw(collective: str, ranks: int, size: int, seconds: float) -> float | None:
    """Return algbw · factor in B/s, or None for no time: what a ring's busiest link carries.

    (S65)
    """
    rate = algbw(size, seconds)
    return None if rate is None else rate * float(busbw_factor(collective, ranks))


def ring_seconds(ranks: int, size: float, latency: float, bandwidth: float) -> float:
    """Return the time in s of a ring all-reduce, T = 2(p - 1)(α + M/(pB)) (S64).

    ``size``: M in B; ``latency``: α in s; ``bandwidth``: B in B/s, one way. Raises InputError.
    """
    p = whole("ranks", ranks, 1, 1 << 31)
    m = real("bytes", size, 0, 1e30, "B")
    alpha = real("latency", latency, 0, 1e9, "s")
    return 2 * (p - 1) * (alpha + m / (p * real("bandwidth", bandwidth, 1e-9, 1e30, "B/s")))
