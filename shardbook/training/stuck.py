"""A run that hangs: what shows the rank, what only shows that it hangs, and a swap of rows."""

from collections.abc import Mapping
from dataclasses import replace

from shardbook.errors import InputError, one_of, whole
from shardbook.training.faults import HANGS, Fault, hooks
from shardbook.training.programs import Action
from shardbook.training.rendezvous import Call, Hang, HangError
from shardbook.training.settings import Settings
from shardbook.training.suspicions import Case, Metric, Trial
from shardbook.training.trainer import Hooks, Trainer


def hang(settings: Settings, fault: str, rank: int) -> Case:
    """Return the case of a rank whose program makes a wrong call, with a swap of rows (S70).

    The impostor's program is right, but skips a call for rows of one kind, which the rank happens
    to have. ``fault`` is one of `HANGS`. Of two ranks none is the odd one: three are needed.

    Raises:
        InputError: a value out of its range, or a fault that does not make this run hang.
    """
    one_of("fault", fault, HANGS)
    whole("ranks", settings.ranks, 3, 1024)
    whole("rank", rank, 0, settings.ranks - 1)
    other = (rank + 1) % settings.ranks
    swapped = {rank: other, other: rank}
    program = hooks(Fault(fault, rank), settings)
    stopped = _stopped(settings, program)
    in_health = Trainer(settings).step().calls
    alike = max(len({str(call) for call in row}) for row in zip(*in_health.values(), strict=True))
    counts = [len(calls) for calls in stopped.histories.values()]
    return Case(
        f"the program of rank {rank} makes a wrong call",
        "different_calls",
        alike,
        "the same in health: all ranks are in one call",
        (
            Metric("different_calls", alike, alike, _different_calls(stopped)),
            Metric("waiting_ranks", 0, 0, len(stopped.waits)),
            Metric("call_count_spread", 0, 0, max(counts) - min(counts)),
        ),
        f"let ranks {rank} and {other} swap their rows; which rank is in another call now?",
        (
            _trial(rank, "the program of that rank", stopped, _stopped(settings, program, swapped)),
            _trial(
                rank,
                "the rows of that rank",
                _stopped(settings, _skips_for(rank, settings, {})),
                _stopped(settings, _skips_for(rank, settings, swapped), swapped),
            ),
        ),
    )


def _trial(rank: int, wrong: str, before: Hang, after: Hang) -> Trial:
    odd = after.odd_ranks
    seen = " and ".join(f"rank {each}" for each in odd)
    return Trial(wrong, _different_calls(before), f"rank {rank}", seen, odd != (rank,))


def _different_calls(stopped: Hang) -> int:
    return len({str(calls[-1]) for calls in stopped.histories.values()})


def _skips_for(rows: int, settings: Settings, reads: Mapping[int, int]) -> Hooks:
    """Return a run in which whoever reads the rows of rank ``rows`` skips its first reduction."""
    first = Action(settings.kind.reduction, len(settings.units) - 1)

    def call(step: int, rank: int, action: Action, healthy: Call) -> Call | None:
        return None if action == first and reads.get(rank, rank) == rows else healthy

    return Hooks(call=call)


def _stopped(settings: Settings, made: Hooks, reads: Mapping[int, int] | None = None) -> Hang:
    """Run a step that hangs, with ranks that read the rows of others."""
    rows = reads or {}
    run = replace(made, reads=lambda step, rank: rows.get(rank, rank))
    try:
        Trainer(settings, hooks=run).step()
    except HangError as error:
        return error.hang
    raise InputError("layers", settings.layers, "give units of several sizes: this does not hang")
