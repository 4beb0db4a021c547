"""What is seen of a run, as plain data for a detector: one dict a step.

Checksums are written as small numbers in the order in which they are first seen: equal ones stay
equal, and a record stays short.
"""

import math
from collections.abc import Sequence
from typing import Any

from shardbook.training.settings import Settings
from shardbook.training.trainer import Hooks, Trainer
from shardbook.training.watch import Observed

#: stands for a distance that is not finite, so that a record is plain JSON
_FAR = 1e30


def watched(settings: Settings, hooks: Hooks, steps: int) -> list[dict[str, Any]]:
    """Train ``steps`` steps and return their records."""
    trainer = Trainer(settings, hooks=hooks, watched=True)
    reports = trainer.run(steps)
    return records([report.observed for report in reports if report.observed])


def records(steps: Sequence[Observed]) -> list[dict[str, Any]]:
    """Return one dict a step; the texts of lab n48 say what its entries are."""
    known: dict[int, int] = {}

    def short(checksum: int) -> int:
        return known.setdefault(checksum, len(known))

    return [
        {
            "batches": [[short(one) for one in rank] for rank in seen.batches],
            "weights": [[short(one) for one in rank] for rank in seen.used_weights],
            "before": [short(one) for one in seen.stored_before],
            "after": [short(one) for one in seen.stored_after],
            "norm": _finite(seen.joint_norm),
            "distances": [_finite(one) for one in seen.gradient_distances],
            "skipped": seen.skipped,
        }
        for seen in steps
    ]


def _finite(value: float) -> float:
    return float(f"{value:.4g}") if math.isfinite(value) else _FAR
