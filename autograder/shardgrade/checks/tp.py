"""Hidden checks of lab tp, by task."""

from typing import Final

from shardgrade.checks.tp_cuts import ATTENTION_PROGRAM, CUT_LINEAR
from shardgrade.checks.tp_programs import LOSS_PROGRAM, MLP_PROGRAM, SEQUENCE_PROGRAM

CHECKS: Final = {
    "tp.1": CUT_LINEAR,
    "tp.2": MLP_PROGRAM,
    "tp.3": ATTENTION_PROGRAM,
    "tp.4": SEQUENCE_PROGRAM,
    "tp.5": LOSS_PROGRAM,
}
