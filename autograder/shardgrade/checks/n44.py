"""Hidden checks of lab n44, by task."""

from typing import Final

from shardgrade.checks.n44_rounding import ROUND_TO
from shardgrade.checks.n44_updates import ADAM_STEPS, SCALED_STEPS

CHECKS: Final = {
    "n44.1": ROUND_TO,
    "n44.2": ADAM_STEPS,
    "n44.3": SCALED_STEPS,
}
