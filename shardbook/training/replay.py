"""Logs of real runs, as plain JSON values: what explorers replay where numpy is missing.

A healthy step of each strategy, event by event, and watched runs with a fault each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from shardbook.training.device import Entry
from shardbook.training.faults import FAULTS, Fault
from shardbook.training.incident import investigate
from shardbook.training.programs import COMMUNICATION, Action
from shardbook.training.settings import Settings
from shardbook.training.strategies import STRATEGIES
from shardbook.training.trainer import RankReport, StepReport, Trainer
from shardbook.training.watch import Observed

_RANKS: Final = 4
_FAULT_STEPS: Final = 40


@dataclass(frozen=True, slots=True)
class Case:
    """A watched run: a fault (None: healthy), in which strategy."""

    fault: Fault | None
    strategy: str = "zero2"

    @property
    def settings(self) -> Settings:
        """The settings of the run, healthy."""
        return Settings(strategy=self.strategy, ranks=_RANKS)


#: fault → the run in which it begins at step 10, on rank 2 if it is one rank's
_NAMED: Final = {name: Case(Fault(name, rank=2, step=10)) for name in FAULTS}
#: cases whose fault is for the reader to find
_HIDDEN: Final = {
    "case-1": Case(Fault("repeated-data", rank=3, step=17)),
    "case-2": Case(Fault("local-gradient", rank=1, step=23), "dp"),
    "case-3": Case(None, "zero3"),
    "case-4": Case(Fault("bit-flip", rank=3, step=14, element=1000, bit=27), "zero1"),
    "case-5": Case(Fault("reduced-parameter", step=5), "zero3"),
}


def runs() -> dict[str, Any]:
    """Return all logs: ``strategies`` (a step each, B) and ``faults`` (a run each)."""
    strategies = {name: Settings(strategy=name, ranks=_RANKS) for name in STRATEGIES}
    strategies["hybrid"] = Settings(strategy="zero3", ranks=_RANKS, shard=2)
    cases = {"healthy": Case(None), **_NAMED, **_HIDDEN}
    return {
        "strategies": {name: _one_step(settings) for name, settings in strategies.items()},
        "faults": {name: _watched(case) for name, case in cases.items()},
    }


def _one_step(settings: Settings) -> dict[str, Any]:
    """The second step of a run, when nothing is new any more."""
    trainer = Trainer(settings)
    trainer.step()
    stored = [
        [[*name, size] for name, size in sorted(rank.device.alive().items())]
        for rank in trainer.ranks
    ]
    report = trainer.step()
    kind = settings.kind
    sharded = {
        "weights": kind.shards_weights,
        "gradients": kind.shards_gradients,
        "master_weights": kind.shards_optimizer,
        "momentum": kind.shards_optimizer,
        "variance": kind.shards_optimizer,
    }
    return {
        "parameters": settings.parameters,
        "sharded": [category for category, cut in sharded.items() if cut],
        "stored": stored,
        "events": [list(_events(settings, report, rank)) for rank in report.ranks],
    }


def _events(settings: Settings, report: StepReport, rank: RankReport) -> Iterator[list[Any]]:
    """One event an action: its text, what it changed in memory, what the rank sent in it."""
    log = list(rank.log)
    call = 0
    for action in settings.program:
        sent: list[list[int]] = []
        if action.kind in COMMUNICATION:
            sent = [
                [one.transfer.target, one.transfer.chunk, one.bytes]
                for one in report.sent
                if one.transfer.source == rank.rank and one.call == call
            ]
            call += 1
        changes = [[*entry.name, entry.change] for entry in _take(log, action)]
        yield [str(action), changes, sent]


def _take(log: list[Entry], action: Action) -> Iterator[Entry]:
    """Take the entries of an action off the front of a log."""
    moment = str(action).replace(" ", ", unit ")
    while log and log[0].moment == moment:
        yield log.pop(0)


def _watched(case: Case) -> dict[str, Any]:
    if case.fault is None:
        trainer = Trainer(case.settings, watched=True)
        reports = trainer.run(_FAULT_STEPS)
        seen = tuple(report.observed for report in reports if report.observed)
        return _seen(case, seen, seen) | {"what": "nothing", "stopped": None, "found": []}
    incident = investigate(case.fault, case.settings, _FAULT_STEPS)
    return _seen(case, incident.faulty_steps, incident.healthy_steps) | {
        "what": incident.what,
        "stopped": incident.stopped,
        "found": [[one.check, one.step, one.rank, one.text] for one in incident.found],
    }


def _seen(
    case: Case, faulty: tuple[Observed, ...], healthy: tuple[Observed, ...]
) -> dict[str, Any]:
    """What dashboards show a step: loss, norm of the gradient, checksum of the weights by rank."""
    return {
        "strategy": case.settings.kind.title,
        "faulty": [[s.loss, s.gradient_norms[0], list(s.weights_after)] for s in faulty],
        "healthy": [[s.loss, s.gradient_norms[0]] for s in healthy],
    }
