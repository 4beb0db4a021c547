"""Checks that find silent faults, each by another kind of evidence.

A run with a wrong collective often trains on: its loss falls, only more slowly or to another
place. Each check compares what must be equal, and says which step and rank breaks the rule.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.training.watch import Observed

#: how far a reduced gradient may be, relative to its norm, from the joint batch's in float32;
#: the rounding of FP16 products and sums alone stays more than ten times below it
GRADIENT_TOLERANCE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken: in which step, at which rank, and what was seen."""

    check: str
    step: int
    rank: int
    text: str

    def __str__(self) -> str:
        return f"step {self.step}, rank {self.rank}: {self.text}"


def same_weights(steps: Sequence[Observed]) -> Finding | None:
    """Every rank has the same full weights: checksums compared over ranks (S23).

    One per unit where the weights are used, and one of all when the step is done.
    """
    for seen in steps:
        for rank, units in enumerate(seen.used_weights):
            for unit, (own, first) in enumerate(zip(units, seen.used_weights[0], strict=True)):
                if own != first:
                    text = f"the weights of unit {unit} are not those of rank 0"
                    return Finding("same-weights", seen.step, rank, text)
        for rank, own in enumerate(seen.weights_after):
            if own != seen.weights_after[0]:
                text = "after the update its weights are not those of rank 0"
                return Finding("same-weights", seen.step, rank, text)
    return None


def distinct_data(steps: Sequence[Observed]) -> Finding | None:
    """No two ranks read the same rows: a checksum of each rank's inputs."""
    for seen in steps:
        owner: dict[int, int] = {}
        for rank, batches in enumerate(seen.batches):
            for batch in batches:
                if owner.setdefault(batch, rank) != rank:
                    text = f"reads the rows of rank {owner[batch]}"
                    return Finding("distinct-data", seen.step, rank, text)
    return None


def state_at_rest(
    steps: Sequence[Observed], stored_now: tuple[int, ...] | None = None
) -> Finding | None:
    """Stored states don't change between steps: one checksum at a step's end and the next's start.

    After the last step, ``stored_now`` (`shardbook.training.watch.stored`) takes the place of the
    next one's start.
    """
    starts = [seen.stored_before for seen in steps[1:]]
    if stored_now is not None:
        starts.append(stored_now)
    for end, start in zip(steps, starts, strict=False):
        for rank, (was, now) in enumerate(zip(end.stored_after, start, strict=True)):
            if was != now:
                text = "its stored states changed before the next step began"
                return Finding("state-at-rest", end.step, rank, text)
    return None


def joint_gradient(steps: Sequence[Observed]) -> Finding | None:
    """The reduced gradient is that of the joint batch, computed on one device."""
    for seen in steps:
        if seen.skipped:
            continue
        for rank, distance in enumerate(seen.gradient_distances):
            if not distance <= GRADIENT_TOLERANCE * seen.joint_norm:
                scale = seen.joint_norm or math.nan
                text = (
                    "its reduced gradient is not the joint batch's:"
                    f" {seen.gradient_norms[rank] / scale:.3g} times as long,"
                    f" {distance / scale:.0%} of its norm away"
                )
                return Finding("joint-gradient", seen.step, rank, text)
    return None


def findings(
    steps: Sequence[Observed], stored_now: tuple[int, ...] | None = None
) -> tuple[Finding, ...]:
    """Return what each check finds first in a watched run, cheap and specific checks first.

    Nothing is found in a healthy run. ``stored_now`` as in `state_at_rest`.
    """
    found = (
        distinct_data(steps),
        same_weights(steps),
        state_at_rest(steps, stored_now),
        joint_gradient(steps),
    )
    return tuple(finding for finding in found if finding is not None)
