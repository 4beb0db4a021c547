"""The shape of a source document's mistake: what was said, what is right, and why."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One value: as ``claimed``, by the source's own way (``as_source``), and ``right``."""

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
