"""Judge an answer by named criteria, and hand the verdict to nbgrader.

[Note: what nbgrader reads] nbgrader takes a grade cell's points from the cell's last value. It gives
full points for no value, for a numpy scalar, for a negative one and for nan; it fails at the
smallest excess over the maximum; and anything on stderr costs all points. So `grade` returns a
built-in finite float from 0 to the task's points, never raises, and writes nothing; what the
student is to read goes out as display data, which nbgrader shows and does not count.
"""

import copy
import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Calls, Outcome
from shardbook.labs.registry import lab_of, task_named
from shardbook.labs.tasks import Criterion, Task
from shardbook.labs.values import Fault, compare
from shardgrade import checkout, feedback_table
from shardgrade.blocking import blocked

_SECONDS_EACH: Final = 2.0
_SECONDS_IN_ALL: Final = 4.0

#: the arguments of one call
Case = tuple[Any, ...]


def same_value(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    """The value is right, if a float of the same value may stand for an int."""
    return compare(expected, outcome.value, exact=False)


@dataclass(frozen=True, slots=True)
class Probe:
    """How one criterion is tried: on which cases, and what is looked at."""

    criterion: str
    cases: Callable[[Random], Iterable[Case]]
    judge: Callable[[Case, Any, Outcome], Fault | None] = same_value


@dataclass(frozen=True, slots=True)
class HiddenCheck:
    """The probes of a task, and the engine functions (``module:name``) that are switched off."""

    blocked: tuple[str, ...]
    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One criterion's outcome: ``fault`` is None if it is met.

    There is no ``hint`` where the call itself failed: it would speak of something else.
    """

    criterion: Criterion
    fault: Fault | None = None
    hint: str = ""

    @property
    def points(self) -> float:
        """The points earned."""
        return 0.0 if self.fault else self.criterion.points


@dataclass(frozen=True, slots=True)
class Assessment:
    """All verdicts on one answer."""

    task: Task
    verdicts: tuple[Verdict, ...]

    @property
    def points(self) -> float:
        """A built-in float from 0 to the task's points."""
        earned = sum(verdict.points for verdict in self.verdicts)
        return float(min(max(earned, 0.0), self.task.points))

    @property
    def missed(self) -> frozenset[str]:
        """The names of the criteria that were not met."""
        return frozenset(v.criterion.name for v in self.verdicts if v.fault)


def hidden_check(task: Task) -> HiddenCheck:
    """The hidden check of ``task``."""
    checks: dict[str, HiddenCheck] = importlib.import_module(
        f"shardgrade.checks.{lab_of(task).id}"
    ).CHECKS
    return checks[task.id]


def cases_of(task: Task, probe: Probe) -> list[Case]:
    """The seeded cases of a probe: the same for every submission."""
    return list(probe.cases(Random(f"{task.id} {probe.criterion}")))


@dataclass(frozen=True, slots=True)
class Planned:
    """A probe with its cases, and what the reference solution returns for each."""

    probe: Probe
    cases: tuple[Case, ...]
    expected: tuple[Any, ...]


@functools.cache
def expectations(task: Task) -> dict[str, Planned]:
    """Criterion → how it is tried on every answer."""
    solve = checkout.reference(task)
    planned = {}
    for probe in hidden_check(task).probes:
        cases = tuple(cases_of(task, probe))
        expected = tuple(solve(*copy.deepcopy(case)) for case in cases)
        planned[probe.criterion] = Planned(probe, cases, expected)
    return planned


def assess(task_id: str, function: Any) -> Assessment:
    """Judge ``function``; what is right is computed before any of its code runs."""
    task = task_named(task_id)
    check = hidden_check(task)
    planned = expectations(task)
    calls = Calls(_SECONDS_EACH, _SECONDS_IN_ALL)
    with blocked(check.blocked, task_id):
        verdicts = tuple(
            _judge(calls, function, criterion, planned[criterion.name])
            for criterion in task.criteria
        )
    return Assessment(task, verdicts)


def _judge(calls: Calls, function: Any, criterion: Criterion, planned: Planned) -> Verdict:
    outcomes = calls.each(function, planned.cases)
    for case, expected, outcome in zip(planned.cases, planned.expected, outcomes, strict=True):
        if outcome.fault:
            return Verdict(criterion, outcome.fault)
        if fault := planned.probe.judge(case, expected, outcome):
            return Verdict(criterion, fault, criterion.hint)
    return Verdict(criterion)


def grade(task_id: str, function: Any) -> float:
    """Return the points of ``function`` and show what was met and what was not."""
    assessment = assess(task_id, function)
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        shell.display_pub.publish(feedback_table.mime_bundle(assessment))
    return assessment.points
