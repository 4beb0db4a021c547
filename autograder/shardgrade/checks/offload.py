"""Hidden checks of lab offload, by task."""

from typing import Final

from shardgrade.checks.offload_graphs import BEST_PLACEMENT, COST, PROOF
from shardgrade.checks.offload_streams import STREAM, THROUGH_LINKS

CHECKS: Final = {
    "offload.1": COST,
    "offload.2": BEST_PLACEMENT,
    "offload.3": PROOF,
    "offload.4": THROUGH_LINKS,
    "offload.5": STREAM,
}
