"""Hidden checks of lab n48, by task."""

from typing import Final

from shardgrade.checks.n48_detector import FIRST_FAULT
from shardgrade.checks.n48_shards import RESHARD_COPIES, ZERO3_STEP

CHECKS: Final = {
    "n48.1": ZERO3_STEP,
    "n48.2": RESHARD_COPIES,
    "n48.3": FIRST_FAULT,
}
