"""The visible check: what is wrong with an answer, in at most five seconds, and never the answer."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from shardbook.labs.calls import Calls
from shardbook.labs.registry import lab_of, task_named
from shardbook.labs.tasks import Task
from shardbook.labs.values import Fault

_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing an answer must do, shown on one example.

    ``judge`` gets the arguments and the function's value, and says what broke.
    """

    name: str
    hint: str
    arguments: tuple[Any, ...]
    judge: Callable[..., Fault | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that broke, in which call, and how; no hint where the call itself failed."""

    rule: str
    call: str
    fault: Fault
    hint: str

    def __str__(self) -> str:
        lines = f"broken: {self.rule}\ncall:   {self.call}\nfound:  {self.fault}"
        return f"{lines}\nhint:   {self.hint}" if self.hint else lines


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check: ``finding`` is the first rule that broke, ``kept`` those before it."""

    task: Task
    kept: tuple[str, ...]
    finding: Finding | None
    unanswered: bool = False

    @property
    def status(self) -> str:
        """``passed``, ``failed`` or ``unanswered``."""
        if self.unanswered:
            return "unanswered"
        return "failed" if self.finding else "passed"

    def __str__(self) -> str:
        if self.unanswered:
            return f"{self.task.id}: unanswered ({self.task.function} is still the stub)"
        lines = [f"{self.task.id}: {self.status}", *(f"  kept:   {rule}" for rule in self.kept)]
        if self.finding:
            lines += [f"  {line}" for line in str(self.finding).splitlines()]
        else:
            lines.append("  These are examples only: the grade comes from other cases.")
        return "\n".join(lines)


def check(task: str, function: Any) -> None:
    """Print what a first look finds at an answer to ``task`` (such as ``n45.1``).

    Takes at most five seconds, whatever ``function`` does. An unknown task raises `InputError`.
    """
    print(examine(task, function))


def examine(task: str, function: Any) -> Report:
    """Try ``function`` on the visible examples of ``task``; an unknown task raises `InputError`."""
    which = task_named(task)
    examples = importlib.import_module(f"shardbook.labs.examples_{lab_of(which).id}")
    rules: tuple[Rule, ...] = examples.RULES[which.id]
    calls = Calls(_SECONDS, _SECONDS)
    kept: list[str] = []
    for rule in rules:
        outcome = calls.call(function, rule.arguments)
        if outcome.unanswered:
            return Report(which, (), None, unanswered=True)
        fault = outcome.fault or outcome.changed or rule.judge(*rule.arguments, outcome.value)
        if fault:
            call = f"{which.function}({', '.join(map(repr, rule.arguments))})"
            hint = "" if outcome.fault else rule.hint
            return Report(which, tuple(kept), Finding(rule.name, call, fault, hint))
        kept.append(rule.name)
    return Report(which, tuple(kept), None)
