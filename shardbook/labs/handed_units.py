"""A step of FSDP units handed in as plain data: a list of texts, run and measured by the engine.

``AG2`` gathers unit 2, ``F2`` and ``B2`` compute, ``RS2`` reduces and scatters its gradient, and at
``WAIT F2`` the host waits until F2 has ended. A unit is freed at the end of its last F or B before
it is gathered again.
"""

import re
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from shardbook.labs.values import Fault, show
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import (
    COMMUNICATION,
    COMPUTE,
    Action,
    Buffer,
    Run,
    program_fault,
    simulate,
)
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.fsdp import PARAMETERS, Unit

#: a kind and its unit
Step = tuple[str, int]

_MOST_STEPS: Final = 5_000
_TEXT: Final = re.compile(r"(WAIT F|WAIT B|AG|RS|F|B)(0|[1-9]\d{0,4})", re.ASCII)
_WAIT: Final = "WAIT "
_COMPUTING: Final = ("F", "B")


def read_program(value: Any) -> list[Step] | Fault:
    """Return the steps that a list of texts stands for, or what is wrong with it."""
    if not isinstance(value, (list, tuple)):
        return Fault("the program", "a list of texts such as AG0, F0 or RS0", show(value))
    if len(value) > _MOST_STEPS:
        return Fault("the program", "far fewer texts", f"{len(value):,}")
    steps = []
    for step, text in enumerate(value):
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if not match:
            return Fault(f"step {step}", "a text such as AG0, F0, B0 or RS0", show(text))
        steps.append((match[1], int(match[2])))
    return steps


def incomplete(steps: Sequence[Step], count: int) -> Fault | None:
    """Say what is not the forward and backward of ``count`` units, each reduced at once."""
    wanted = [("F", unit) for unit in range(count)]
    for unit in reversed(range(count)):
        wanted += [("B", unit), ("RS", unit)]
    got = [(kind, unit) for kind, unit in steps if kind in ("F", "B", "RS")]
    for number, step in enumerate(wanted):
        if number == len(got):
            return Fault("the program", "an F, B and RS of every unit", f"{number} of them")
        if got[number] != step:
            where = f"number {number} of the Fs, Bs and RSs"
            return Fault(where, "the next one of a step", "".join(map(str, got[number])))
    return None if len(got) == len(wanted) else Fault("the program", "no F, B or RS twice", "more")


def run_program(
    steps: Sequence[Step], units: Sequence[Unit], *, buffers: int | None = None, drawn: bool = False
) -> Run | Fault:
    """Run a program; memory is allocated when it is issued.

    ``buffers``: as many there are, and a gather takes over the one that was freed first, in the
    order of issue (None: any number). ``drawn`` adds the picture of a fault.
    """
    if any(unit >= len(units) for _, unit in steps):
        return Fault("the program", f"units below {len(units)}", str(max(u for _, u in steps)))
    try:
        return simulate(compile_plan(_actions(steps, units, buffers)), allocate="issue")
    except ScheduleError as error:
        picture = f"\n{error.picture}" if drawn else ""
        where = f"{error.rank}, step {error.step}"
        return Fault(where, "a program that can run", f"{error.action}: {error.reason}{picture}")


def _actions(steps: Sequence[Step], units: Sequence[Unit], buffers: int | None) -> list[Action]:
    actions: list[Action] = []
    issued: dict[Step, int] = {}
    gathered: dict[int, int] = {}
    free: deque[int | None] = deque([None] * (buffers or 0))
    waits: tuple[int, ...] = ()
    problem = ""
    for at, (kind, unit) in enumerate(steps):
        if kind.startswith(_WAIT):
            waited = issued.get((kind.removeprefix(_WAIT), unit))
            if waited is None:
                problem = problem or f"its host waits for {kind[-1]}{unit} before it is issued"
            else:
                waits += (waited,)
            continue
        memory = (Buffer(PARAMETERS, f"unit {unit}"),)
        needs: tuple[int, ...] = ()
        frees = False
        if kind == "AG":
            if unit in gathered:
                problem = problem or f"unit {unit} is gathered already, and not used since"
            elif buffers is not None and not free:
                problem = problem or f"no buffer is free: {len(gathered)} units are gathered"
            elif buffers is not None:
                freed = free.popleft()
                needs = () if freed is None else (freed,)
            gathered[unit] = len(actions)
        elif kind == "RS":
            problem = problem or ("" if ("B", unit) in issued else f"B{unit} is not issued yet")
            needs = (issued.get(("B", unit), 0),)
        else:
            problem = problem or ("" if unit in gathered else f"unit {unit} is not gathered")
            needs = (gathered.get(unit, 0),)
            frees = _is_last_use(steps, at)
        computes = kind in _COMPUTING
        action = Action(
            f"{kind}{unit}",
            COMPUTE if computes else COMMUNICATION,
            _seconds(kind, units[unit]),
            needs,
            COMPUTE if computes else COMMUNICATION,
            waits=waits,
            takes=memory if kind == "AG" else (),
            releases=memory if frees else (),
        )
        if problem:
            raise program_fault([*actions, action], len(actions), problem)
        if frees:
            del gathered[unit]
            free.append(len(actions))
        issued[kind, unit] = len(actions)
        actions.append(action)
        waits = ()
    return actions


def _is_last_use(steps: Sequence[Step], at: int) -> bool:
    """Whether the unit is gathered again, or not used again, after this step."""
    unit = steps[at][1]
    after = (kind for kind, other in steps[at + 1 :] if other == unit and kind in ("AG", "F", "B"))
    return next(after, "AG") == "AG"


def _seconds(kind: str, unit: Unit) -> float:
    return {
        "AG": unit.all_gather,
        "F": unit.forward,
        "B": unit.backward,
        "RS": unit.reduce_scatter,
    }[kind]


def too_slow(run: Run, seconds: float) -> Fault | None:
    """Say whether the makespan is longer than ``seconds``."""
    if run.makespan <= seconds * (1 + 1e-9):
        return None
    return Fault("the makespan", "a shorter one", f"{run.makespan:g} s")
