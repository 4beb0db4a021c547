"""A fault seen from outside: what a practitioner sees, and which check finds the cause."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardbook.errors import InputError, whole
from shardbook.training.checks import Finding, findings
from shardbook.training.faults import FAULTS, Fault, faulty_settings, hooks
from shardbook.training.rendezvous import HangError
from shardbook.training.settings import Settings
from shardbook.training.trainer import StepReport, Trainer
from shardbook.training.watch import Observed, stored


@dataclass(frozen=True, slots=True)
class Sight:
    """What dashboards show of a run's last step; None where the run did not get that far."""

    steps: int
    loss: float | None
    gradient_norm: float | None  #: of rank 0's reduced gradient
    weights_spread: float | None  #: largest difference of a weight between two ranks


@dataclass(frozen=True, slots=True)
class Incident:
    """A faulty run beside the healthy one of the same settings."""

    fault: Fault
    faulty: Sight
    healthy: Sight
    stopped: str | None  #: the hang or error that ended the run; None for a silent fault
    found: tuple[Finding, ...]
    last: StepReport | None  #: the last step that was finished
    trainer: Trainer
    faulty_steps: tuple[Observed, ...] = field(repr=False)
    healthy_steps: tuple[Observed, ...] = field(repr=False)

    @property
    def what(self) -> str:
        """What goes wrong."""
        return FAULTS[self.fault.name]

    @property
    def seen(self) -> str:
        """What a practitioner sees, in a sentence."""
        if self.stopped is not None:
            return f"the run stops in step {self.faulty.steps}"
        loss, healthy = self.faulty.loss, self.healthy.loss
        return (
            f"no error; in step {self.faulty.steps - 1} the loss is {_say(loss)}"
            f" (healthy {_say(healthy)}), the gradient's norm {_say(self.faulty.gradient_norm)}"
            f" (healthy {_say(self.healthy.gradient_norm)}),"
            f" replicas differ by up to {_say(self.faulty.weights_spread)}"
        )


def investigate(fault: Fault, settings: Settings, steps: int) -> Incident:
    """Train ``steps`` (1 to 100,000) steps with and without the fault, and check both (S70).

    Raises:
        InputError: the settings can't have this fault.
    """
    whole("steps", steps, 1, 100_000)
    faulty = Trainer(faulty_settings(fault, settings), hooks=hooks(fault, settings), watched=True)
    seen: list[Observed] = []
    last: StepReport | None = None
    stopped: str | None = None
    found: list[Finding] = []
    try:
        while len(seen) < steps:
            last = _watched_step(faulty, seen)
    except HangError as hang:
        stopped = str(hang)
        found.append(_stop("call-matching", len(seen), hang.hang.waits[0].rank, stopped))
    except InputError as error:
        stopped = str(error)
        found.append(_stop("storage", len(seen), 0, stopped))
    healthy: list[Observed] = []
    trainer = Trainer(settings, watched=True)
    for _ in range(steps):
        _watched_step(trainer, healthy)
    found += findings(seen, stored(faulty.ranks) if stopped is None else None)
    return Incident(
        fault,
        _sight(seen),
        _sight(healthy),
        stopped,
        tuple(found),
        last,
        faulty,
        tuple(seen),
        tuple(healthy),
    )


def _watched_step(trainer: Trainer, seen: list[Observed]) -> StepReport:
    report = trainer.step()
    if report.observed is not None:
        seen.append(report.observed)
    return report


def _stop(check: str, step: int, rank: int, text: str) -> Finding:
    return Finding(check, step, rank, text.partition("\n")[0])


def _sight(seen: Sequence[Observed]) -> Sight:
    if not seen:
        return Sight(0, None, None, None)
    last = seen[-1]
    return Sight(len(seen), last.loss, last.gradient_norms[0], last.weights_spread)


def _say(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if math.isfinite(value) else "not finite"
