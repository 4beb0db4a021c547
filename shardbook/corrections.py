"""A mistake of a source document: what it says, what is right, and how the mistake arises."""

from dataclasses import dataclass

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Correction:
    """One entry of the reconciliation page; both values are computed, ``unit`` is theirs."""

    id: str
    document: str
    claim: str
    claimed_value: Value
    right_value: Value
    unit: str
    derivation: str
    mistake: str
