"""Hidden check of n48.3: runs that the engine makes, with faults that no example has."""

import copy
import functools
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.run_records import watched
from shardbook.labs.values import Fault, compare, show
from shardbook.numbers.loss_scaling import LossScale
from shardbook.training.faults import Fault as Cause
from shardbook.training.faults import faulty_settings, hooks
from shardbook.training.optimizers import SGD
from shardbook.training.programs import Options
from shardbook.training.settings import Settings
from shardbook.training.trainer import Hooks
from shardgrade.checks.judging import Case, HiddenCheck, Probe, same_value

_Records = list[dict[str, Any]]
_STEPS: Final = 4


def _settings(strategy: str, ranks: int, micro_batches: int = 1, **more: Any) -> Settings:
    return Settings(
        strategy=strategy,
        ranks=ranks,
        layers=(3, 5, 4, 2),
        samples=3,
        options=Options(micro_batches=micro_batches),
        **more,
    )


@functools.cache
def _faulty(name: str, strategy: str, ranks: int, rank: int, step: int) -> _Records:
    settings, cause = _settings(strategy, ranks), Cause(name, rank, step)
    return watched(faulty_settings(cause, settings), hooks(cause, settings), _STEPS)


def _rereading(ranks: int, reader: int, read: int, first: int) -> _Records:
    def reads(step: int, rank: int) -> int:
        return read if rank == reader and step >= first else rank

    return watched(_settings("zero3", ranks, 2), Hooks(reads=reads), _STEPS)


@functools.cache
def _healthy(strategy: str, ranks: int, micro_batches: int) -> _Records:
    return watched(_settings(strategy, ranks, micro_batches), Hooks(), _STEPS)


def _overflowing(ranks: int) -> _Records:
    """The scale is far too large at first: these steps are skipped, and that is no fault."""
    settings = _settings("zero2", ranks, loss_scale=LossScale(2.0**18, backoff=2.0**-4))
    return watched(settings, Hooks(), _STEPS)


def _rounded_much(ranks: int) -> _Records:
    return watched(_settings("dp", ranks, 4, optimizer=SGD(rate=0.5)), Hooks(), _STEPS)


def _other_weights(run: _Records, step: int, rank: int, unit: int) -> _Records:
    """From ``step`` on, one rank uses other weights of a unit, new ones in each step."""
    changed = copy.deepcopy(run)
    for number, seen in enumerate(changed[step:]):
        seen["weights"][rank][unit] = 10_000 + number
    return changed


def _read_twice(run: _Records, step: int, place: int, owner: int) -> _Records:
    """From ``step`` on, one of the last rank's micro-batches is the first one of ``owner``."""
    changed = copy.deepcopy(run)
    for seen in changed[step:]:
        seen["batches"][-1][place] = seen["batches"][owner][0]
    return changed


def _data(rng: Random) -> Iterable[Case]:
    for reader, read, first in ((2, 1, 1), (0, 2, 2), (3, 2, 0), (1, 3, 3)):
        yield (_rereading(4, reader, read, first),)
    yield (_read_twice(_healthy("zero3", 3, 2), rng.choice((1, 2)), 1, 1),)


def _weights(rng: Random) -> Iterable[Case]:
    for rank, step in ((0, 1), (0, 3), (3, 2), (2, 0)):
        yield (_other_weights(_healthy("zero2", 4, 1), step, rank, rng.randrange(3)),)
    yield (_faulty("missing-parameter-all-gather", "zero1", 3, 0, 1),)


def _storage(rng: Random) -> Iterable[Case]:
    for rank, step in ((0, 1), (2, 0), (1, 2), (2, 2)):
        yield (_faulty("bit-flip", rng.choice(("zero1", "zero2", "zero3")), 3, rank, step),)


def _gradient(rng: Random) -> Iterable[Case]:
    for rank, step in ((1, 1), (2, 2), (3, 3)):
        yield (_faulty("local-gradient", "dp", 4, rank, step)[: step + 1],)
    for strategy in ("zero2", "zero3"):
        yield (_faulty("sum-for-mean", strategy, 3, 0, 0),)
        yield (_faulty("reduced-parameter", strategy, 3, 0, rng.randint(0, 2)),)


def _first(rng: Random) -> Iterable[Case]:
    """Of two faults the one that is seen first, whichever rule it breaks."""
    run = _healthy("zero2", 4, 1)
    for step, later in ((1, 2), (0, 3), (2, 3)):
        rank, unit = rng.randint(1, 2), rng.randrange(3)
        yield (_other_weights(_read_twice(run, later, 0, 0), step, rank, unit),)
        yield (_other_weights(_read_twice(run, step, 0, 0), later, rank, unit),)
        flipped = _faulty("bit-flip", "zero2", 4, rank, 2)
        yield (_read_twice(flipped, step, 0, 0),)


def _none_wrong(rng: Random) -> Iterable[Case]:
    for strategy in ("dp", "zero2", "zero3"):
        yield (_healthy(strategy, rng.choice((2, 3, 4)), rng.choice((1, 2))),)
    yield (_overflowing(3),)
    yield (_rounded_much(4),)
    # Else a function that never finds anything would be right.
    yield (_faulty("bit-flip", "zero2", 3, 1, 1),)


def _alarm(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    if expected is None:
        return compare(None, outcome.value)
    found = outcome.value
    if not isinstance(found, (tuple, list)) or len(found) != len(expected):
        return Fault("result of a faulty run", "a tuple (step, rank, rule)", show(found))
    return None


def _probes(*named: tuple[str, Any]) -> Sequence[Probe]:
    return [Probe(name, cases, same_value) for name, cases in named]


FIRST_FAULT: Final = HiddenCheck(
    blocked=(
        "shardbook.training.checks:distinct_data",
        "shardbook.training.checks:findings",
        "shardbook.training.checks:joint_gradient",
        "shardbook.training.checks:same_weights",
        "shardbook.training.checks:state_at_rest",
    ),
    probes=(
        *_probes(
            ("data", _data),
            ("weights", _weights),
            ("storage", _storage),
            ("gradient", _gradient),
            ("first", _first),
        ),
        Probe("no false alarm", _none_wrong, _alarm),
    ),
)
