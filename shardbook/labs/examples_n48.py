"""The visible examples of lab n48: programs, copies and runs, tried on the engine."""

from typing import Any, Final

from shardbook.labs.checking import Rule
from shardbook.labs.handed_copies import misplaced, needless, reshard
from shardbook.labs.handed_programs import Ran, idle_unit, read_program, run_step, wrong_weights
from shardbook.labs.run_records import watched
from shardbook.labs.values import Fault, compare, show
from shardbook.training.faults import Fault as Cause
from shardbook.training.faults import hooks
from shardbook.training.programs import Options, program
from shardbook.training.settings import Settings
from shardbook.training.strategies import strategy
from shardbook.training.trainer import Hooks


def _run(units: int, micro_batches: int, value: Any) -> tuple[Ran, Ran] | Fault:
    """What the program did, and what the engine's own does; or what is wrong with it."""
    actions = read_program(units, value)
    if isinstance(actions, Fault):
        return actions
    options = Options(micro_batches, reduce_each=True, regather_last=False)
    right = run_step(program(strategy("zero3"), units, options), units, micro_batches)
    ran = run_step(actions, units, micro_batches)
    if isinstance(ran, Fault):
        return ran
    assert isinstance(right, Ran)
    return idle_unit(actions, units, micro_batches) or (ran, right)


def _result(units: int, micro_batches: int, value: Any) -> Fault | None:
    both = _run(units, micro_batches, value)
    return both if isinstance(both, Fault) else wrong_weights(*both)


def _resources(units: int, micro_batches: int, value: Any) -> Fault | None:
    both = _run(units, micro_batches, value)
    if isinstance(both, Fault):
        return both
    ran, right = both
    if ran.left:
        return Fault("after the step", "the arrays of before", ran.left)
    if ran.peak_bytes > right.peak_bytes:
        got = f"{ran.peak_bytes} B\n{ran.picture}"
        return Fault(f"the peak, at {ran.peak_at}", "fewer bytes", got)
    if ran.sent_bytes > right.sent_bytes:
        return Fault("what a rank sends", "fewer bytes", f"{ran.sent_bytes} B")
    return wrong_weights(ran, right)


def _copies(units: list[int], old: int, new: int, value: Any) -> Fault | None:
    done = reshard(units, old, new, value)
    if isinstance(done, Fault):
        return done
    return misplaced(units, new, done) or needless(done)


def _finding(wanted: tuple[int, int, str]) -> Any:
    def judge(steps: list[dict[str, Any]], value: Any) -> Fault | None:
        if not isinstance(value, (tuple, list)) or len(value) != 3:
            return Fault("result", "a tuple (step, rank, rule)", show(value))
        for name, right, got in zip(("step", "rank", "rule"), wanted, value, strict=True):
            if fault := compare(right, got, where=f"the {name}"):
                return fault
        return None

    return judge


def _healthy(steps: list[dict[str, Any]], value: Any) -> Fault | None:
    return compare(None, value)


_SMALL: Final = Settings(strategy="zero2", ranks=3, layers=(3, 4, 2), samples=2)


def _faulty(name: str, rank: int) -> list[dict[str, Any]]:
    return watched(_SMALL, hooks(Cause(name, rank, step=1), _SMALL), 3)


#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "n48.1": (
        Rule(
            "the step can run and updates by the joint batch's gradient",
            "What must be there before forward, before backward, before the update?",
            (2, 1),
            _result,
        ),
        Rule(
            "several micro-batches make one update",
            "Which actions come once a micro-batch, and which once a step?",
            (2, 2),
            _result,
        ),
        Rule(
            "no more bytes held, left or sent than needed",
            "Every array: when is it first needed, and when for the last time?",
            (3, 2),
            _resources,
        ),
    ),
    "n48.2": (
        Rule(
            "every element gets to its place, and is copied once",
            "The text works this one out.",
            ([10], 4, 2),
            _copies,
        ),
        Rule(
            "each unit has shards of its own, with padding of its own",
            "Write down the shards before and after, element by element.",
            ([7, 12], 2, 5),
            _copies,
        ),
    ),
    "n48.3": (
        Rule(
            "a batch read by two ranks is found",
            "In step 1 a rank reads the rows of another one.",
            (_faulty("repeated-data", 2),),
            _finding((1, 2, "data")),
        ),
        Rule(
            "a bit that flips in memory is found",
            "It flips after step 1, when nobody is looking.",
            (_faulty("bit-flip", 1),),
            _finding((2, 1, "storage")),
        ),
        Rule(
            "a healthy run is healthy",
            "The gradients are summed in FP16: some rounding is no fault.",
            (watched(_SMALL, Hooks(), 3),),
            _healthy,
        ),
    ),
}
