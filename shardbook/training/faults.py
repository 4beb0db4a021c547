"""Faults by name: what goes wrong, as an edit of one rank's program, data, calls or memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from shardbook.errors import InputError, one_of, whole
from shardbook.training.device import Name
from shardbook.training.programs import Action, Program
from shardbook.training.rank import Rank
from shardbook.training.rendezvous import Call
from shardbook.training.settings import Settings
from shardbook.training.trainer import Hooks

#: name → what goes wrong
FAULTS: Final = {
    "missing-parameter-all-gather": "the updated weights are not gathered from their owners",
    "reduced-parameter": "the weights are reduced instead of the gradient",
    "local-gradient": "one rank updates with its own gradient instead of the sum over ranks",
    "sum-for-mean": "the ranks' mean gradients are summed and not divided by their number",
    "repeated-data": "one rank reads the rows of another one",
    "skipped-collective": "one rank skips the first reduction of a gradient",
    "mismatched-count": "one rank gives the first reduction one element too few",
    "mismatched-dtype": "one rank gives the first reduction float32 instead of its dtype",
    "swapped-collectives": "one rank makes its first two reductions in the wrong order",
    "bit-flip": "one bit of one rank's stored master weights changes after a step",
}
#: those with which the run can't go on
HANGS: Final = frozenset(
    {"skipped-collective", "mismatched-count", "mismatched-dtype", "swapped-collectives"}
)
_REDUCTIONS: Final = frozenset({"all-reduce", "reduce-scatter"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault on ``rank`` from step ``step`` (from 0) on; a bit flip happens after it only.

    A wrong program or loss is wrong on all ranks (``rank`` is then of no matter), a wrong loss
    in all steps.

    (S23, S70)

    Raises:
        InputError: an unknown name, or a rank or step out of range.
    """

    name: str
    rank: int = 1
    step: int = 0
    #: bit flip: the element of the rank's first unit, and the bit of its float32 (25: 16 times
    #: as large, or as small)
    element: int = 0
    bit: int = 25

    def __post_init__(self) -> None:
        one_of("fault", self.name, FAULTS)
        whole("fault rank", self.rank, 0, 1023)
        whole("fault step", self.step, 0, 100_000)
        whole("fault element", self.element, 0, 2**24)
        whole("fault bit", self.bit, 0, 31)


def checked(fault: Fault, settings: Settings) -> None:
    """Refuse a fault that the run can't have.

    Raises:
        InputError: one rank alone, a rank that isn't there, or a strategy that makes no such call.
    """
    if settings.ranks < 2:
        raise InputError("ranks", settings.ranks, "a fault needs at least 2")
    whole("fault rank", fault.rank, 0, settings.ranks - 1)
    gathers = settings.kind.gathers_after_update or settings.layout.shard > 1
    if fault.name == "missing-parameter-all-gather" and not (
        gathers and settings.kind.shards_optimizer
    ):
        raise InputError("fault", fault.name, f"{settings.strategy} gathers no weights")


def faulty_settings(fault: Fault, settings: Settings) -> Settings:
    """Return the settings of the faulty run; only a wrong loss changes them."""
    if fault.name == "sum-for-mean":
        return replace(settings, weighting="sum-of-means")
    return settings


def hooks(fault: Fault, settings: Settings) -> Hooks:
    """Return where the fault takes hold of a run. Raises InputError as `checked` does."""
    checked(fault, settings)

    def program(step: int, rank: int, healthy: Program) -> Program:
        if step < fault.step:
            return healthy
        return _faulty_program(fault, rank, healthy)

    def reads(step: int, rank: int) -> int:
        if fault.name == "repeated-data" and rank == fault.rank and step >= fault.step:
            return 0 if rank else 1
        return rank

    def call(step: int, rank: int, action: Action, healthy: Call) -> Call | None:
        first = Action(settings.kind.reduction, len(settings.units) - 1)
        if rank != fault.rank or step < fault.step or action != first:
            return healthy
        if fault.name == "skipped-collective":
            return None
        if fault.name == "mismatched-count":
            return replace(healthy, elements=healthy.elements - 1)
        if fault.name == "mismatched-dtype":
            other = "float16" if healthy.dtype == "float32" else "float32"
            return replace(healthy, dtype=other)
        return healthy

    def after(step: int, ranks: Sequence[Rank]) -> None:
        if fault.name == "bit-flip" and step == fault.step:
            flip_bit(ranks[fault.rank], fault.element, fault.bit)

    return Hooks(program, reads, call, after)


def flip_bit(rank: Rank, element: int, bit: int) -> None:
    """Flip one bit of one float32 master weight of the rank's first unit."""
    master = rank.device.get(Name("master_weights", 0))
    master.view(np.uint32)[element % len(master)] ^= np.uint32(1 << bit)


def _faulty_program(fault: Fault, rank: int, program: Program) -> Program:
    if fault.name == "missing-parameter-all-gather":
        return tuple(a for a in program if a.kind not in ("all-gather", "unshard"))
    if fault.name == "reduced-parameter":
        return tuple(_variant(a, "weights") for a in program)
    if rank != fault.rank:
        return program
    if fault.name == "local-gradient":
        return tuple(_variant(a, "unused") for a in program)
    where = [i for i, a in enumerate(program) if a.kind in _REDUCTIONS]
    if fault.name == "swapped-collectives" and len(where) > 1:
        return _swapped(program, where[0], where[1])
    return program


def _variant(action: Action, how: str) -> Action:
    if action.kind in _REDUCTIONS:
        return Action(f"{action.kind}-{how}", action.unit)
    return action


def _swapped(program: Program, first: int, second: int) -> Program:
    """Put off the first reduction until after the second, with what follows it on its unit."""
    unit = program[first].unit
    moved = [a for a in program[first:second] if a.unit == unit and a.kind != "unshard"]
    kept = [a for a in program[first:second] if a not in moved]
    return (*program[:first], *kept, program[second], *moved, *program[second + 1 :])
