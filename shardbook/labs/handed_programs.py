"""A ZeRO-3 step handed in as texts such as ``unshard 1``: read, run on devices, measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError
from shardbook.labs.calls import describe_error
from shardbook.labs.values import Fault, show
from shardbook.training.cluster import run_programs
from shardbook.training.device import Entry, Name
from shardbook.training.optimizers import SGD
from shardbook.training.programs import Action, Options, Program, parse
from shardbook.training.rank import NextBatch, Rank
from shardbook.training.settings import Settings
from shardbook.training.state import gather, initialise

#: the actions that a student may use
ACTIONS: Final = (
    *("load", "loss", "clear", "unshard", "reshard", "forward", "backward"),
    *("reduce-scatter", "keep-shard", "update"),
)
_WIDTHS: Final = (4, 9, 8, 6, 7, 5, 3)
_RANKS: Final = 3
_SAMPLES: Final = 4
#: sums in another order differ by less
_ROUNDING: Final = 1e-5
_MOST_ACTIONS: Final = 1_000
_MOST_ROWS: Final = 12


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program did; bytes (B) of the fullest rank, and of the rank that sent most."""

    weights: tuple[tuple[float, ...], ...]  #: full weights of each unit after the step
    peak_bytes: int
    peak_at: str
    sent_bytes: int
    left: str  #: what a rank holds after the step and did not before, or lost
    picture: str  #: the bytes of the fullest rank, action by action, the peak marked


def read_program(units: int, value: Any) -> Program | Fault:
    """Return the program that a list of texts stands for, or what is wrong with the list."""
    if not isinstance(value, (list, tuple)):
        return Fault("the program", "a list of texts", show(value))
    if len(value) > _MOST_ACTIONS:
        return Fault("the program", "far fewer actions", f"{len(value):,} actions")
    actions = []
    for number, text in enumerate(value, start=1):
        action = _read(units, text)
        if action is None:
            return Fault(f"action {number}", "an action of the table, on a unit", show(text))
        actions.append(action)
    return tuple(actions)


def _read(units: int, text: Any) -> Action | None:
    try:
        action = parse(text) if isinstance(text, str) and len(text) < 40 else None
    except InputError:
        return None
    if action is None or action.kind not in ACTIONS:
        return None
    return action if action.unit is None or action.unit < units else None


def idle_unit(program: Program, units: int, micro_batches: int) -> Fault | None:
    """Say which unit is not computed once forward and once backward for each micro-batch."""
    for unit in range(units):
        for kind in ("forward", "backward"):
            if (times := program.count(Action(kind, unit))) != micro_batches:
                return Fault(f"{kind} {unit}", "once for each micro-batch", f"{times} times")
        if Action("reduce-scatter", unit) not in program:
            return Fault(f"reduce-scatter {unit}", "at least once", "never")
    return None


@lru_cache(maxsize=64)
def run_step(program: Program, units: int, micro_batches: int) -> Ran | Fault:
    """Run one step on three devices, from start values and data that are always the same."""
    settings = Settings(
        ranks=_RANKS,
        layers=_WIDTHS[: units + 1],
        samples=_SAMPLES,
        optimizer=SGD(rate=1.0),
        precision="float32",
        options=Options(micro_batches=micro_batches),
    )
    ranks = [Rank(number, settings) for number in range(_RANKS)]
    initialise(ranks)
    for rank in ranks:
        rank.device.moment = "start"
        rank.device.begin()
        rank.begin(0, 1.0, _batches(rank.rank, settings.layers, micro_batches))
    before = [dict(rank.device.held_at_start) for rank in ranks]
    try:
        with np.errstate(all="ignore"):  # overflow is a result here
            traffic = run_programs(ranks, {rank.rank: program for rank in ranks})
    except (ValueError, LookupError) as error:  # an array is missing, or of another size
        return _stopped(ranks, error)
    fullest = max(ranks, key=lambda rank: rank.device.peak)
    peak, peak_at = fullest.device.peak, fullest.device.peak_at
    picture = _picture(fullest.device.log)
    left = [_difference(was, rank) for was, rank in zip(before, ranks, strict=True)]
    return Ran(
        _weights(ranks),
        peak,
        peak_at,
        max(one.sent_bytes for one in traffic.ranks.values()),
        next((difference for difference in left if difference), ""),
        picture,
    )


def _weights(ranks: Sequence[Rank]) -> tuple[tuple[float, ...], ...]:
    flat = gather(ranks, "weights").tolist()
    ends = list(accumulate(unit.elements for unit in ranks[0].units))
    return tuple(tuple(flat[start:end]) for start, end in pairwise([0, *ends]))


def wrong_weights(ran: Ran, right: Ran) -> Fault | None:
    """Say which unit's weights are further from the right ones than rounding explains."""
    for unit, (found, wanted) in enumerate(zip(ran.weights, right.weights, strict=True)):
        pairs = zip(found, wanted, strict=True)
        # NaN is not near anything
        far = [one - other for one, other in pairs if not abs(one - other) <= _ROUNDING]
        if far:
            what = "a step along the joint batch's mean gradient"
            where = f"the weights of unit {unit} after the step"
            return Fault(where, what, f"{len(far)} that are off, one by {far[0]:+.2g}")
    return None


def _batches(rank: int, layers: Sequence[int], micro_batches: int) -> NextBatch:
    rng = np.random.default_rng(rank)

    def drawn() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for _ in range(micro_batches):
            inputs = rng.standard_normal((_SAMPLES, layers[0]), np.float32)
            yield inputs, rng.standard_normal((_SAMPLES, layers[-1]), np.float32)

    coming = drawn()

    def next_batch() -> tuple[NDArray[Any], NDArray[Any]]:
        batch = next(coming, None)
        if batch is None:
            raise InputError("load", "one more", f"the step has {micro_batches} micro-batches")
        return batch

    return next_batch


def _difference(before: dict[Name, int], rank: Rank) -> str:
    rank.device.begin()
    after = rank.device.held_at_start
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            return f"rank {rank.rank}: {name}, {before.get(name, 0)} B before the step"
    return ""


def _stopped(ranks: Sequence[Rank], error: Exception) -> Fault:
    stuck = next((rank for rank in ranks if f"rank {rank.rank} " in str(error)), ranks[0])
    said = describe_error(error)
    if isinstance(error, InputError):
        said = f"{error.value}: {error.allowed}"
    picture = _picture(stuck.device.log, stuck.device.moment)
    where = f"rank {stuck.rank}, {stuck.device.moment}"
    return Fault(where, "an action that is possible then", f"{said}\n{picture}")


def _picture(log: Sequence[Entry], stopped: str = "") -> str:
    """Draw the bytes of each action that changed any, ✗ at the peak or where the rank stopped."""
    moments = [(moment, list(group)) for moment, group in groupby(log, key=lambda e: e.moment)]
    sizes = [max(entry.total for entry in group) for _, group in moments]
    rows = [f"{moment:24}{size:8,} B" for (moment, _), size in zip(moments, sizes, strict=True)]
    at = sizes.index(max(sizes, default=0)) if sizes else 0
    if stopped:
        if not moments or moments[-1][0] != stopped:
            rows.append(stopped)
        at = len(rows) - 1
    first = max(0, min(at - _MOST_ROWS // 2, len(rows) - _MOST_ROWS))
    shown = enumerate(rows[first : first + _MOST_ROWS], first)
    return "\n".join(f"{'✗' if number == at else ' '} {row}" for number, row in shown)
