"""Hidden checks of n47.3 and n47.4: programs handed in as data, run and measured by the engine.

[Note: the shortest step] With the RS of a unit right after its B, a gather can't be issued before
the B that frees its buffer. The reference issues it there, and keeps what the backward needs first:
then each gather and each RS has as little before it on its stream as in any program. (Where the
gathers of units differ and the network is the slower, keeping a unit that takes long to gather
can be shorter. A program that knows no times can't tell, and the text says to plan for equal ones;
in the cases here the gathers hide behind the forwards.)
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_units import Step, incomplete, read_program, run_program, too_slow
from shardbook.labs.values import Fault, show
from shardbook.schedules.core import Run
from shardbook.schedules.fsdp import PARAMETERS, Unit
from shardgrade.checks.judging import Case, HiddenCheck, Probe


def _one_or_more(rng: Random) -> Iterable[Case]:
    for count in (1, 3, 4, rng.randint(5, 9)):
        yield count, 2
    yield 1, 3


def _every_number_of_buffers(rng: Random) -> Iterable[Case]:
    for count in (3, rng.randint(4, 7)):
        for buffers in (1, 2, 3, count, count + 2):
            yield count, buffers


def _kept_units(rng: Random) -> Iterable[Case]:
    for buffers in (2, 3, 4):
        yield rng.randint(buffers + 1, buffers + 5), buffers
    yield 4, 6


def _two_buffers(rng: Random) -> Iterable[Case]:
    for _ in range(4):
        yield rng.randint(3, 9), 2


def _more_buffers(rng: Random) -> Iterable[Case]:
    for buffers in (3, 3, 4, 5):
        yield rng.randint(2 * buffers, 3 * buffers), buffers


def _times(
    case: Case,
    gather: tuple[int, int],
    scatter: tuple[int, int],
    forward: tuple[int, int] = (12, 14),
) -> list[Unit]:
    """As many units, each with times (s) of its own; a forward of 12 s or more hides a gather."""
    rng = Random(f"{case}")
    return [
        Unit(
            rng.randint(*forward),
            rng.randint(7, 9),
            rng.randint(*gather),
            rng.randint(*scatter),
        )
        for _ in range(case[0])
    ]


def _quick(case: Case) -> list[Unit]:
    return _times(case, (2, 4), (1, 3))


def _slow(case: Case) -> list[Unit]:
    return _times(case, (1, 12), (1, 3))


def _exposed(case: Case) -> list[Unit]:
    return _times(case, (8, 10), (3, 5), (4, 7))


def _complete(value: Any, count: int) -> list[Step] | Fault:
    steps = read_program(value)
    if isinstance(steps, Fault):
        return steps
    if any(kind.startswith("WAIT") for kind, _ in steps):
        return Fault("the program", "no WAIT", "one")
    return incomplete(steps, count) or steps


def _run(case: Case, value: Any, units: list[Unit], buffers: int | None) -> Run | Fault:
    steps = _complete(value, case[0])
    return steps if isinstance(steps, Fault) else run_program(steps, units, buffers=buffers)


def _runs(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    run = _run(case, outcome.value, _quick(case), None)
    return run if isinstance(run, Fault) else None


def _has_buffers(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    run = _run(case, outcome.value, _quick(case), case[1])
    return run if isinstance(run, Fault) else None


def _gathers(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    run = _run(case, outcome.value, _quick(case), case[1])
    if isinstance(run, Fault):
        return run
    number = sum(action.name.startswith("AG") for action in run.plan.actions)
    if number <= sum(text.startswith("AG") for text in expected):
        return None
    return Fault("the gathers", "fewer", str(number))


def _as_short(
    times: Callable[[Case], list[Unit]],
) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        best = _run(case, expected, times(case), case[1])
        run = _run(case, outcome.value, times(case), case[1])
        assert isinstance(best, Run)
        return run if isinstance(run, Fault) else too_slow(run, best.makespan)

    return judge


def _program(count: int, ahead: int, behind: int, kept: int) -> list[str]:
    """A step with forward and backward prefetch that keeps its last ``kept`` units."""
    texts, there = [], set()

    def gather(units: Iterable[int]) -> None:
        for unit in units:
            if 0 <= unit < count and unit not in there:
                there.add(unit)
                texts.append(f"AG{unit}")

    for unit in range(count):
        gather(range(unit, unit + ahead + 1))
        texts.append(f"F{unit}")
        if unit < count - kept:
            there.discard(unit)
    for unit in reversed(range(count)):
        gather(range(unit, unit - behind - 1, -1))
        texts.extend((f"B{unit}", f"RS{unit}"))
    return texts


def _some_program(rng: Random, count: int, ahead: int) -> tuple[list[str], int]:
    """A program, and the smallest limit it can keep."""
    program = _program(count, ahead, rng.randint(1, 2), rng.randint(1, 2))
    held, most = set(), 0
    for at, text in enumerate(program):
        kind, unit = text.rstrip("0123456789"), text.lstrip("AGFBRS")
        if kind == "AG":
            held.add(unit)
            most = max(most, len(held))
        elif kind != "RS":
            later = [other for other in program[at + 1 :] if other in _uses(unit)]
            if not later or later[0].startswith("AG"):
                held.discard(unit)
    return program, most


def _uses(unit: str) -> tuple[str, str, str]:
    return f"AG{unit}", f"F{unit}", f"B{unit}"


def _feasible(rng: Random) -> Iterable[Case]:
    for number in range(6):
        program, least = _some_program(rng, rng.randint(5, 9), number % 3)
        yield program, least + number // 3


def _plenty(rng: Random) -> Iterable[Case]:
    for _ in range(4):
        program, _ = _some_program(rng, rng.randint(4, 8), rng.randint(0, 2))
        yield program, sum(text.startswith("AG") for text in program) + rng.randint(0, 2)


def _at_the_edge(rng: Random) -> Iterable[Case]:
    for _ in range(4):
        program, least = _some_program(rng, rng.randint(4, 8), rng.randint(0, 2))
        yield program, least - 1
        # Else a function that always says None would be right.
        yield program, least


def _limited(case: Case, value: Any, times: Callable[[Case], list[Unit]]) -> Run | Fault:
    """Run what was handed in, if it is the program with waits in it."""
    program = case[0]
    steps = read_program(value)
    if isinstance(steps, Fault):
        return steps
    kept = [f"{kind}{unit}" for kind, unit in steps if not kind.startswith("WAIT")]
    if kept != program:
        return Fault("the program", "the same texts in the same order, and waits", show(value))
    count = sum(text.startswith("F") for text in program)
    return run_program(steps, times((count, case[1])))


def _keeps_limit(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    for times in (_quick, _exposed):
        run = _limited(case, outcome.value, times)
        if isinstance(run, Fault):
            return run
        peak = run.peaks[PARAMETERS]
        if peak > case[1]:
            return Fault("the peak", f"at most {case[1]} units", str(peak))
    return None


def _waits_least(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    best = _limited(case, expected, _exposed)
    run = _limited(case, outcome.value, _exposed)
    assert isinstance(best, Run)
    return run if isinstance(run, Fault) else too_slow(run, best.makespan)


def _unchanged(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    if outcome.value == case[0]:
        return None
    return Fault("the program", "the same list without a WAIT", show(outcome.value))


def _tells(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    if expected is None:
        is_none = outcome.value is None
        return None if is_none else Fault("result", "None", show(outcome.value))
    run = _limited(case, outcome.value, _quick)
    return run if isinstance(run, Fault) else None


ISSUE_ORDER: Final = HiddenCheck(
    blocked=(
        "shardbook.schedules.fsdp:fsdp_plan",
        "shardbook.schedules.fsdp:fsdp_run",
        "shardbook.schedules.fsdp:_Program.gather",
        "shardbook.schedules.fsdp:_Program.step",
    ),
    probes=(
        Probe("runs", _one_or_more, _runs),
        Probe("buffers", _every_number_of_buffers, _has_buffers),
        Probe("gathers", _kept_units, _gathers),
        Probe("two buffers", _two_buffers, _as_short(_quick)),
        Probe("more buffers", _more_buffers, _as_short(_slow)),
    ),
)

RATE_LIMIT: Final = HiddenCheck(
    blocked=(
        "shardbook.schedules.fsdp:fsdp_plan",
        "shardbook.schedules.fsdp:fsdp_run",
        "shardbook.schedules.fsdp:_Program.limiter",
    ),
    probes=(
        Probe("buffers", _feasible, _keeps_limit),
        Probe("no longer than needed", _feasible, _waits_least),
        Probe("enough memory", _plenty, _unchanged),
        Probe("too small a limit", _at_the_edge, _tells),
    ),
)
