"""Experts by counting: how many tokens each gets, what is dropped, who is slowest, what is sent.

Sources: Lepikhin et al., "GShard", ICLR 2021, section 2.2 (top-k routing, capacity); Fedus et al.,
"Switch Transformers", JMLR 23 (2022), section 2.2 (capacity factor).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil, floor
from typing import Final

from shardbook.collectives.exchange import direct
from shardbook.collectives.measure import Measured, measure
from shardbook.collectives.network import Network
from shardbook.collectives.plan import MOST_ELEMENTS, MOST_RANKS, even_sizes
from shardbook.errors import InputError, real, whole

#: all-to-alls of a layer of experts: dispatch and combine, forward and backward
ALL_TO_ALLS_PER_LAYER: Final = 4
MOST_EXPERTS: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """Tokens' choices: ``wanted`` and ``kept`` by expert, ``ranks``: kept by rank."""

    wanted: tuple[int, ...]
    kept: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def dropped(self) -> int:
        """Choices beyond an expert's capacity: it adds nothing to these tokens."""
        return sum(self.wanted) - sum(self.kept)

    @property
    def imbalance(self) -> Fraction:
        """Load of the fullest rank over the mean; 1 is even, the number of ranks is the worst."""
        total = sum(self.ranks)
        return Fraction(max(self.ranks) * len(self.ranks), total) if total else Fraction(1)


def capacity(tokens: int, experts: int, k: int, factor: float) -> int:
    """Return the most tokens an expert takes: ⌈factor · k · tokens / experts⌉ (S58).

    ``factor`` is taken to three decimals. Raises InputError.
    """
    t, e = whole("tokens", tokens, 0, MOST_ELEMENTS), whole("experts", experts, 1, MOST_EXPERTS)
    chosen = whole("k", k, 1, e)
    times = Fraction(round(real("capacity factor", factor, 0, 1e6) * 1000), 1000)
    return ceil(times * chosen * t / e)


def skewed_loads(tokens: int, experts: int, k: int, skew: float) -> tuple[int, ...]:
    """Return how many of t ``tokens`` choose each expert if expert e is liked as 1/e^``skew``.

    Each token chooses k different experts: the loads sum to kt, and none is above t. Fractions are
    rounded so that the largest remainders go up. ``skew`` 0 is even. Raises InputError. (S58)
    """
    t = whole("tokens", tokens, 0, 1 << 40)
    e = whole("experts", experts, 1, MOST_EXPERTS)
    chosen = whole("k", k, 1, e)
    exponent = real("skew", skew, 0, 10)
    liked = [(i + 1) ** -exponent for i in range(e)]
    full = 0  # the most liked experts, which every token chooses
    while full < chosen and liked[full] * (chosen - full) >= sum(liked[full:]):
        full += 1
    rest = sum(liked[full:])
    ideal = [t * (chosen - full) * one / rest for one in liked[full:]]
    loads = [floor(x) for x in ideal]
    left = t * (chosen - full) - sum(loads)
    by_remainder = sorted(range(len(ideal)), key=lambda i: loads[i] - ideal[i])
    for i in by_remainder[:left]:
        loads[i] += 1
    return (t,) * full + tuple(loads)


def expert_load(wanted: Sequence[int], ranks: int, most: int | None = None) -> ExpertLoad:
    """Return the load if each expert keeps at most ``most`` tokens (none: all) (S58).

    Experts lie on ``ranks`` one behind the other, as evenly as they can. Raises InputError.
    """
    loads = tuple(whole("load", load, 0, MOST_ELEMENTS) for load in wanted)
    n = whole("ranks", ranks, 1, MOST_RANKS)
    if n > len(loads):
        raise InputError("ranks", n, f"give 1 to {len(loads)}: each needs an expert")
    kept = loads if most is None else tuple(min(load, most) for load in loads)
    ends = tuple(accumulate(even_sizes(len(loads), n), initial=0))
    by_rank = tuple(sum(kept[a:b]) for a, b in pairwise(ends))
    return ExpertLoad(loads, kept, by_rank)


def dispatch(rank_loads: Sequence[int], row_bytes: int, network: Network) -> Measured:
    """Count and price one all-to-all that brings every rank its tokens, ``row_bytes`` B each.

    The tokens of each load come from all ranks alike. Combine sends the same the other way.
    Raises InputError. (S58)
    """
    n = len(rank_loads)
    from_each = [even_sizes(whole("load", load, 0, MOST_ELEMENTS), n) for load in rank_loads]
    sizes = [from_each[target][source] for source in range(n) for target in range(n)]
    return measure(direct("all-to-all", n, sizes), network, row_bytes)


def expert_flops(tokens: int, width: int, hidden: int) -> int:
    """Return the FLOP of one expert, forward and backward: 3 · 2 · 2 · tokens · width · hidden.

    Two linears; a product of matrices takes 2 FLOP a weight and token forward, 4 backward.
    Raises InputError.
    """
    t, h = whole("tokens", tokens, 0, MOST_ELEMENTS), whole("width", width, 1, 1 << 24)
    return 12 * t * h * whole("hidden", hidden, 1, 1 << 24)
