"""Steady is not peak: what each phase of a step adds to the states, and which phase overflows.

Peak = shards + gathered layers + activations + buckets + what the allocator can't use.
"""

from dataclasses import dataclass, fields
from typing import Final

from shardbook.errors import real, whole

PHASES: Final = ("forward", "backward", "optimizer", "save")


@dataclass(frozen=True, slots=True)
class Step:
    """What a rank holds in a step, B.

    ``states``: sharded parameters and optimizer, always there. ``gradients``: its share, there
    from the backward to the end of the optimizer. ``gathered``: one unit's parameters, and
    ``prefetched`` more such units under way. ``activations``: all that the forward keeps.
    ``bucket``: unsharded gradients under way. ``temporary``: the optimizer's temporaries.
    ``saved``: what saving gathers on this rank.
    """

    states: int
    gradients: int = 0
    gathered: int = 0
    prefetched: int = 0
    activations: int = 0
    bucket: int = 0
    temporary: int = 0
    saved: int = 0

    def __post_init__(self) -> None:
        for part in fields(self):
            whole(part.name, getattr(self, part.name), 0, 2**63)


def phase_peaks(step: Step) -> dict[str, int]:
    """The peak of each phase, B; the phases are `PHASES`, in the order of a step (S12)."""
    units = step.gathered * (1 + step.prefetched)
    return {
        "forward": step.states + units + step.activations,
        "backward": step.states + step.gradients + units + step.activations + step.bucket,
        "optimizer": step.states + step.gradients + step.temporary,
        "save": step.states + step.saved,
    }


def first_overflow(step: Step, capacity: int, slack: float = 0.0) -> str | None:
    """The first phase that does not fit ``capacity`` bytes, or None.

    ``slack``: the share of the capacity that the allocator can't use (fragments, its reserve).
    """
    usable = whole("capacity", capacity, 0, 2**63) * (1 - real("slack", slack, 0, 1))
    return next((phase for phase, peak in phase_peaks(step).items() if peak > usable), None)
