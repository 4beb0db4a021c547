"""Hidden checks of n48.1 and n48.2: a step's program and a resharding, run by the engine.

Which copies reshard a checkpoint, and how few will do, stands nowhere in the engine: it gathers a
state whole and cuts it anew.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_copies import Resharded, misplaced, needless, reshard
from shardbook.labs.handed_programs import Ran, idle_unit, read_program, run_step, wrong_weights
from shardbook.labs.values import Fault
from shardgrade.checks.judging import Case, HiddenCheck, Probe


def _steps(rng: Random) -> Iterable[Case]:
    for units in range(2, 7):
        yield units, 1
    for _ in range(3):
        yield rng.randint(2, 6), rng.randint(2, 3)


def _ran(units: int, micro_batches: int, value: Any) -> Ran | Fault:
    program = read_program(units, value)
    if isinstance(program, Fault):
        return program
    return run_step(program, units, micro_batches)


def _step_judge(
    look: Callable[[Ran, Ran], Fault | None], *, whole: bool
) -> Callable[[Case, Any, Outcome], Fault | None]:
    """``whole``: only a step that computes every unit forward and backward has a peak to praise."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        ran, right = _ran(*case, outcome.value), _ran(*case, expected)
        assert isinstance(right, Ran)
        if isinstance(ran, Fault):
            return replace(ran, got=ran.got.partition("\n")[0])
        program = read_program(case[0], outcome.value)
        if whole and isinstance(program, tuple) and (fault := idle_unit(program, *case)):
            return fault
        return look(ran, right)

    return judge


def _peak(ran: Ran, right: Ran) -> Fault | None:
    if ran.peak_bytes <= right.peak_bytes:
        return None
    return Fault(f"the peak, at {ran.peak_at}", "fewer bytes", f"{ran.peak_bytes} B")


def _sent(ran: Ran, right: Ran) -> Fault | None:
    if ran.sent_bytes <= right.sent_bytes:
        return None
    return Fault("what a rank sends", "fewer bytes", f"{ran.sent_bytes} B")


def _nothing_left(ran: Ran, right: Ran) -> Fault | None:
    return Fault("after the step", "the arrays of before", ran.left) if ran.left else None


def _to_more_ranks(rng: Random) -> Iterable[Case]:
    for old, factor in ((1, 4), (2, 3), (3, 4), (4, 3)):
        new = old * factor + rng.choice((0, 1))
        yield [old * new * rng.randint(1, 3) for _ in range(rng.randint(1, 3))], old, new


def _to_fewer_ranks(rng: Random) -> Iterable[Case]:
    for units, old, new in _to_more_ranks(rng):
        yield units, new, old


def _uneven(rng: Random) -> Iterable[Case]:
    for old, new in ((2, 3), (3, 2), (3, 4), (5, 4), (4, 4)):
        sizes = [rng.randint(1, 9) * old * new for _ in range(rng.randint(1, 3))]
        yield [size + rng.randint(1, max(old, new) - 1) for size in sizes], old, new
    yield [2, 1], 4, 3


def _either_way(rng: Random) -> Iterable[Case]:
    for _ in range(8):
        old, new = rng.randint(2, 5), rng.randint(2, 5)
        yield [old * new * 4 - rng.randint(1, min(old, new) - 1)], old, new


def _neighbouring(rng: Random) -> Iterable[Case]:
    for old, new in ((2, 3), (3, 2), (3, 4), (4, 3), (4, 4), (5, 6)):
        yield [old * new * rng.randint(1, 4) for _ in range(rng.randint(1, 2))], old, new


def _copies_judge(
    look: Callable[[Case, Any, Resharded], Fault | None],
) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        done = reshard(*case, outcome.value)
        return done if isinstance(done, Fault) else look(case, expected, done)

    return judge


def _in_place(case: Case, expected: Any, done: Resharded) -> Fault | None:
    return misplaced(case[0], case[2], done)


def _once(case: Case, expected: Any, done: Resharded) -> Fault | None:
    return needless(done)


def _few(case: Case, expected: Any, done: Resharded) -> Fault | None:
    if done.copied < sum(case[0]):
        return Fault("all copies together", "more elements", f"{done.copied} elements")
    if done.copies > len(expected):
        return Fault("result", "fewer copies", f"{done.copies} copies")
    return None


ZERO3_STEP: Final = HiddenCheck(
    blocked=(
        "shardbook.training.programs:program",
        "shardbook.training.programs:_backward",
        "shardbook.training.programs:_forward",
    ),
    probes=(
        Probe("result", _steps, _step_judge(wrong_weights, whole=False)),
        Probe("peak", _steps, _step_judge(_peak, whole=True)),
        Probe("bytes sent", _steps, _step_judge(_sent, whole=True)),
        Probe("nothing left", _steps, _step_judge(_nothing_left, whole=True)),
    ),
)

RESHARD_COPIES: Final = HiddenCheck(
    blocked=(),
    probes=(
        Probe("more ranks", _to_more_ranks, _copies_judge(_in_place)),
        Probe("fewer ranks", _to_fewer_ranks, _copies_judge(_in_place)),
        Probe("uneven units", _uneven, _copies_judge(_in_place)),
        Probe("each element once", _either_way, _copies_judge(_once)),
        Probe("few copies", _neighbouring, _copies_judge(_few)),
    ),
)
