"""Hidden checks of lab n47, by task."""

from typing import Final

from shardgrade.checks.n47_programs import ISSUE_ORDER, RATE_LIMIT
from shardgrade.checks.n47_units import FLAT_LAYOUT, GRADIENT_BUCKETS, MEMORY_OF_STEP

CHECKS: Final = {
    "n47.1": FLAT_LAYOUT,
    "n47.2": GRADIENT_BUCKETS,
    "n47.3": ISSUE_ORDER,
    "n47.4": RATE_LIMIT,
    "n47.5": MEMORY_OF_STEP,
}
