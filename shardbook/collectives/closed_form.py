"""Rounds and bytes of an all-reduce by formula: what `measure` counts, without making the plan.

Fit for drawing curves over thousands of ranks. The formulas hold on a flat network and for a
size that N divides; `measure` is exact for every size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardbook.collectives.plan import MOST_RANKS
from shardbook.errors import one_of, real, whole


@dataclass(frozen=True, slots=True)
class Cost:
    """``rounds``, each paid one latency; ``volume``: Σ over rounds of the busiest port, in S."""

    rounds: int
    volume: Fraction

    def seconds(self, size: float, latency: float, bandwidth: float) -> float:
        """Return the time in s of S = ``size`` B at ``latency`` s and ``bandwidth`` B/s, one way.

        Raises InputError.
        """
        s = real("bytes", size, 0, 1e30, "B")
        alpha = real("latency", latency, 0, 1e9, "s")
        rate = real("bandwidth", bandwidth, 1e-9, 1e30, "B/s")
        return self.rounds * alpha + float(self.volume) * s / rate


def all_reduce_cost(algorithm: str, ranks: int) -> Cost:
    """Return what an all-reduce among ``ranks`` costs by ``algorithm``, one of `ALL_REDUCE`.

    Raises InputError.
    """
    rule = ALL_REDUCE[one_of("algorithm", algorithm, ALL_REDUCE)]
    n = whole("ranks", ranks, 1, MOST_RANKS)
    return rule(n) if n > 1 else Cost(0, Fraction(0))


def equal_size(one: Cost, other: Cost, latency: float, bandwidth: float) -> float | None:
    """Return the size in B at which two costs are the same time, or None if one always wins."""
    rounds, volume = other.rounds - one.rounds, one.volume - other.volume
    if rounds == 0 or volume == 0 or (rounds > 0) != (volume > 0) or latency == 0:
        return None
    return latency * bandwidth * rounds / float(volume)


def _ring(n: int) -> Cost:
    """Patarasuk and Yuan 2009: 2(N - 1) rounds of S/N."""
    return Cost(2 * (n - 1), Fraction(2 * (n - 1), n))


def _halving_doubling(n: int) -> Cost:
    """Thakur et al. 2005: 2 log₂ N rounds; past a power of two, a whole S before and after."""
    levels = n.bit_length() - 1
    core = 1 << levels
    extra = 2 if core < n else 0
    return Cost(2 * levels + extra, Fraction(2 * (core - 1), core) + extra)


def _tree(n: int) -> Cost:
    """Up and down a binary tree; a parent of two children receives, or sends, two vectors."""
    levels = n.bit_length() - 1
    lone = 1 if n == 1 << levels else 0  # the last level is then one child
    return Cost(2 * levels, Fraction(2 * (2 * levels - lone)))


def _naive(n: int) -> Cost:
    """Everything through the root's port: N - 1 vectors in, N - 1 out."""
    return Cost(2, Fraction(2 * (n - 1)))


def _direct(n: int) -> Cost:
    """Each rank sends its whole vector to every other, at once."""
    return Cost(1, Fraction(n - 1))


#: algorithm → its rule for two ranks and more
ALL_REDUCE: Final[dict[str, Callable[[int], Cost]]] = {
    "ring": _ring,
    "halving-doubling": _halving_doubling,
    "tree": _tree,
    "naive": _naive,
    "direct": _direct,
}
