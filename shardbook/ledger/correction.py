"""The form of a corrected source claim: what was said, what is right, how the mistake arises."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One value of a claim, in ``unit``.

    ``claimed`` is quoted from the source, ``as_source`` computed in the source's own way, so that a
    reader sees where it comes from, and ``right`` computed as it should be.
    """

    what: str
    unit: str
    claimed: float
    as_source: float
    right: float


@dataclass(frozen=True, slots=True)
class Correction:
    """One mistake: the claim in our words, how it comes about, its figures, the derivation."""

    id: str
    document: str
    claim: str
    how: str
    figures: tuple[Figure, ...]
    derivation: tuple[str, ...]
