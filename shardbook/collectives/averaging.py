"""How the ranks' means become one mean: over all tokens, or, wrongly, over the ranks.

With unequal counts the mean over all tokens is not the mean of the ranks' means: numerator and
denominator are summed over the ranks separately, then divided.
"""

from collections.abc import Sequence
from typing import Final

from shardbook.errors import InputError, one_of

#: how a rank's gradient is weighted before the sum over ranks
WEIGHTINGS: Final = ("token-mean", "mean-of-means", "sum-of-means")


def divisor(weighting: str, own: int, counts_total: int, ranks: int) -> float:
    """Return what a rank divides its gradient sum by before the gradients are summed over ranks.

    ``own`` is the rank's number of tokens, ``counts_total`` that of all ``ranks``.
    ``token-mean`` is right: the joint batch's mean. ``mean-of-means`` weighs each rank alike
    (right only for equal counts), ``sum-of-means`` forgets to divide by the number of ranks.
    A rank without tokens has a zero gradient, whatever it is divided by.

    (S54)
    """
    one_of("weighting", weighting, WEIGHTINGS)
    if weighting == "token-mean":
        return max(counts_total, 1)
    return max(own, 1) * (ranks if weighting == "mean-of-means" else 1)


def token_mean(sums: Sequence[float], counts: Sequence[int]) -> float:
    """Return the mean over all tokens from each rank's sum and count: Σ sums / Σ counts (S54).

    Raises:
        InputError: no rank has a token.
    """
    if sum(counts) == 0:
        raise InputError("tokens", list(counts), "give at least one rank a token")
    return sum(sums) / sum(counts)


def mean_of_means(sums: Sequence[float], counts: Sequence[int]) -> float:
    """Return the mean of the ranks' means: what averaging losses gives, wrong for unequal counts.

    Raises:
        InputError: a rank has no token, so that its mean is not defined.
    """
    if 0 in counts:
        raise InputError("tokens", list(counts), "give every rank a token")
    return sum(s / c for s, c in zip(sums, counts, strict=True)) / len(sums)


def token_shares(counts: Sequence[int], weighting: str) -> list[float]:
    """Return how much one token of each rank weighs in the sum over ranks (1 = its fair share).

    A rank without tokens weighs 0.
    """
    total, ranks = sum(counts), len(counts)
    return [total / divisor(weighting, own, total, ranks) if own else 0.0 for own in counts]
