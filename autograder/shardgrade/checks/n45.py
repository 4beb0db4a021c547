"""Hidden checks of lab n45, by task."""

from typing import Final

from shardgrade.checks.n45_allocator import FIRST_FIT
from shardgrade.checks.n45_checkpoints import BEST_INTERVAL
from shardgrade.checks.n45_states import BYTES_ON_RANK, BYTES_PER_PARAMETER, SMALLEST_RANKS

CHECKS: Final = {
    "n45.1": BYTES_PER_PARAMETER,
    "n45.2": BYTES_ON_RANK,
    "n45.3": SMALLEST_RANKS,
    "n45.4": BEST_INTERVAL,
    "n45.5": FIRST_FIT,
}
