"""Hidden checks of lab tp: run a program on layers and look at what it did."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_tensor_layers import Layer
from shardbook.labs.handed_tensor_programs import Ran
from shardbook.labs.handed_tensor_results import run_handed, wrong_arrays
from shardbook.labs.values import Fault
from shardgrade.checks.judging import Case

Judge = Callable[[Case, Any, Outcome], Fault | None]
#: what to look at after a run
Look = Callable[[Case, Layer, Ran], Fault | None]

SPLITTING: Final = "shardbook.training.splitting"
#: the engine's pair of linears, and one alone
PAIR: Final = (f"{SPLITTING}.tensor_parallel:pair", f"{SPLITTING}.tensor_parallel:linear")


def on(layers: Callable[[Case], Iterable[Layer]], *looks: Look) -> Judge:
    """Run the program on each of the layers, and look at what it did."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        for layer in layers(case):
            ran = run_handed(layer, outcome.value)
            if isinstance(ran, Fault):
                return ran
            for look in looks:
                if fault := look(case, layer, ran):
                    return fault
        return None

    return judge


def equal(phase: str, *names: str) -> Look:
    """These arrays, or all, are one device's after a phase."""
    return lambda case, layer, ran: wrong_arrays(ran, layer, phase, names or None)
