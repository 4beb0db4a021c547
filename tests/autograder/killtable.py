"""The kill tables: wrong answers that must not pass, and right ones that must.

`verdicts` says what each earned; no code of an answer leaves this folder.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from shardgrade.checks.judging import Assessment, assess

from shardbook.labs.registry import LABS

Answer = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """What one answer earned; ``missed`` names the criteria that stopped it."""

    task: str
    answer: str
    right: bool
    points: float
    of: float
    missed: tuple[str, ...]

    @property
    def verdict(self) -> str:
        return "passed" if self.points == self.of else "stopped"


def answers(right: bool, labs: Iterable[str] = LABS) -> Iterator[tuple[str, str, Answer]]:
    """Task id, name and function of every entry."""
    for lab in labs:
        table = importlib.import_module(f"killtable_{lab}")
        for task, entries in (table.RIGHT if right else table.WRONG).items():
            for name, answer in entries.items():
                yield task, name, answer


def verdicts(labs: Iterable[str] = LABS) -> list[Row]:
    """One row for each answer of the kill tables of ``labs``; `shardgrade verdicts` shows them."""
    return [
        _row(name, right, assess(task, answer))
        for right in (False, True)
        for task, name, answer in answers(right, labs)
    ]


def _row(name: str, right: bool, result: Assessment) -> Row:
    missed = tuple(v.criterion.name for v in result.verdicts if v.fault)
    return Row(result.task.id, name, right, result.points, result.task.points, missed)
