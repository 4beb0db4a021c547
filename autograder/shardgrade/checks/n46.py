"""Hidden checks of lab n46, by task."""

from typing import Final

from shardgrade.checks.n46_costs import BEST_PIECES, LOSS_FACTORS, RING_COST
from shardgrade.checks.n46_plans import ALL_GATHER_PLAN, REDUCE_SCATTER_PLAN

CHECKS: Final = {
    "n46.1": REDUCE_SCATTER_PLAN,
    "n46.2": ALL_GATHER_PLAN,
    "n46.3": LOSS_FACTORS,
    "n46.4": RING_COST,
    "n46.5": BEST_PIECES,
}
