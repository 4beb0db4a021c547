"""Hidden checks of lab plan, by task."""

from typing import Final

from shardgrade.checks.plan_cards import CARD_BYTES, RINGS
from shardgrade.checks.plan_choose import CHOOSE
from shardgrade.checks.plan_limits import DEAL, FIRST_LIMIT
from shardgrade.checks.plan_rent import RENT

CHECKS: Final = {
    "plan.1": CARD_BYTES,
    "plan.2": RINGS,
    "plan.3": FIRST_LIMIT,
    "plan.4": DEAL,
    "plan.5": CHOOSE,
    "plan.6": RENT,
}
