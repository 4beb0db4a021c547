"""The visible examples of lab n47: what the text shows, compared with the engine."""

from typing import Any, Final

from shardbook.labs.checking import Rule
from shardbook.labs.handed_units import incomplete, read_program, run_program
from shardbook.labs.values import Fault, compare, show
from shardbook.schedules.buckets import Layer, Reduction, ddp_step
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COMPUTE, Action, Buffer, Run, held_over_time, simulate
from shardbook.schedules.fsdp import PARAMETERS, equal_units
from shardbook.schedules.units import flat_parameter

_POOL: Final = "on top"
#: bytes of an element gathered and of its gradient, of a reduced gradient, of what is kept
_BF16, _FP32, _KEPT = 2, 4, 12
#: forward, backward, gather and reduce-scatter of a unit, s
_QUICK: Final = (12, 9, 3, 2)
_SLOW: Final = (5, 8, 9, 4)


def _layout(sizes: list[tuple[str, int]], ranks: int, value: Any) -> Fault | None:
    flat = flat_parameter(dict(sizes), ranks)
    pieces: list[list[tuple[str, int, int]]] = [[] for _ in range(ranks)]
    for piece in flat.pieces:
        pieces[piece.rank].append((piece.name, piece.start, piece.stop))
    return compare(
        {
            "offsets": list(flat.offsets.values()),
            "shard": flat.shard,
            "padding": flat.padding,
            "pieces": pieces,
        },
        value,
    )


def _buckets(
    layers: list[tuple[float, int]],
    capacity: int,
    first: int,
    latency: float,
    bandwidth: float,
    value: Any,
) -> Fault | None:
    # On two ranks, the engine's all-reduce takes twice its latency, and its bytes ÷ bandwidth.
    step = ddp_step(
        [Layer(0.0, seconds, size) for seconds, size in layers],
        Reduction(2, latency / 2, bandwidth),
        capacity=capacity,
        first=first,
    )
    return compare({"buckets": list(step.buckets), "end": step.makespan}, value, exact=False)


def _ran(count: int, buffers: int, value: Any) -> Run | Fault:
    steps = read_program(value)
    if isinstance(steps, Fault):
        return steps
    units = equal_units(count, *_QUICK)
    return incomplete(steps, count) or run_program(steps, units, buffers=buffers, drawn=True)


def _order(count: int, buffers: int, value: Any) -> Fault | None:
    run = _ran(count, buffers, value)
    return run if isinstance(run, Fault) else None


def _hidden_gathers(count: int, buffers: int, value: Any) -> Fault | None:
    run = _ran(count, buffers, value)
    if isinstance(run, Fault):
        return run
    forward, backward, gather, scatter = _QUICK
    shortest = gather + count * (forward + backward) + scatter
    if run.makespan <= shortest:
        return None
    wanted = f"the {shortest} s in which only the first gather and the last reduction show"
    return Fault("the makespan", wanted, f"{run.makespan:g} s")


def _limiter(program: list[str], limit: int, value: Any) -> Fault | None:
    steps = read_program(value)
    if isinstance(steps, Fault):
        return steps
    kept = [f"{kind}{unit}" for kind, unit in steps if not kind.startswith("WAIT")]
    if kept != program:
        return Fault("the program", "the same texts in the same order, and waits", show(value))
    units = equal_units(sum(text.startswith("F") for text in program), *_SLOW)
    run = run_program(steps, units, drawn=True)
    if isinstance(run, Fault):
        return run
    peak = run.peaks[PARAMETERS]
    return None if peak <= limit else Fault("the peak", f"at most {limit} units", f"{peak}")


def _none(*arguments: Any) -> Fault | None:
    return compare(None, arguments[-1])


def _memory(units: list[tuple[int, int]], ranks: int, prefetch: bool, value: Any) -> Fault | None:
    shards = [flat_parameter({"unit": size}, ranks).shard for size, _ in units]
    run = simulate(
        compile_plan(_accounts(units, [shard * ranks for shard in shards], ranks, prefetch))
    )
    during: dict[str, int] = {}
    for _, held, index in held_over_time(run, _POOL):
        name = run.plan.actions[index].name
        during[name] = max(held, during.get(name, 0))
    peak = max(during, key=lambda name: during[name])
    expected = {"steady": _KEPT * sum(shards), "during": during, "peak": peak}
    return compare(expected, value, exact=False)


def _accounts(
    units: list[tuple[int, int]], padded: list[int], ranks: int, prefetch: bool
) -> list[Action]:
    """A step on one stream that takes and releases what the text says."""
    last = len(units) - 1
    order = [("F", at) for at in range(last + 1)] + [("B", at) for at in range(last, -1, -1)]
    whole = [Buffer(_POOL, f"unit {at}", _BF16 * size) for at, size in enumerate(padded)]
    kept = [Buffer(_POOL, f"activations {at}", size) for at, (_, size) in enumerate(units)]
    made = [Buffer(_POOL, f"gradient {at}", _BF16 * size) for at, size in enumerate(padded)]
    reduced = [
        Buffer(_POOL, f"reduced {at}", _FP32 * size // ranks) for at, size in enumerate(padded)
    ]
    actions: list[Action] = []
    there: set[int] = set()
    for step, (kind, at) in enumerate(order):
        following = order[step + 1][1] if step < 2 * last + 1 else at
        new = [
            unit for unit in dict.fromkeys((at, following if prefetch else at)) if unit not in there
        ]
        there.update(new)
        takes = [whole[unit] for unit in new]
        releases = [whole[at]] if following != at or step == 2 * last + 1 else []
        there -= {at} if releases else set()
        if kind == "F":
            takes.append(kept[at])
        else:
            takes.append(made[at])
            takes += [reduced[at + 1]] if at < last else []
            releases += [kept[at], *([made[at + 1]] if at < last else [])]
        actions.append(
            Action(f"{kind}{at}", COMPUTE, 1.0, takes=tuple(takes), releases=tuple(releases))
        )
    return actions


_PLAIN: Final = ["AG0", "F0", "AG1", "F1", "AG2", "F2", "B2", "RS2", "AG1", "B1", "RS1"]
_AHEAD: Final = ["AG0", "AG1", "F0", "AG2", "F1", "F2", "AG1", "B2", "RS2", "AG0", "B1", "RS1"]

#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "n47.1": (
        Rule(
            "a tensor may lie on two ranks, and the end is padded",
            "The text works this one out, rank by rank.",
            ([("weight", 6), ("bias", 4)], 4),
            _layout,
        ),
        Rule(
            "what divides needs no padding",
            "Here every rank has four elements.",
            ([("weight", 9), ("bias", 3)], 3),
            _layout,
        ),
    ),
    "n47.2": (
        Rule(
            "gradients are bucketed from the last layer on",
            "The text works this one out.",
            ([(0.002, 30), (0.001, 30), (0.003, 30), (0.001, 30)], 60, 60, 0.001, 1e5),
            _buckets,
        ),
        Rule(
            "the first bucket is small, and the last holds what is left",
            "Follow the bytes in the bucket, gradient by gradient.",
            (
                [(0.002, 50), (0.001, 90), (0.003, 20), (0.001, 70), (0.002, 10)],
                100,
                10,
                0.001,
                1e5,
            ),
            _buckets,
        ),
    ),
    "n47.3": (
        Rule(
            "every action has what it needs, and every gather a buffer",
            "In the picture, the first fault stands between > and <.",
            (3, 2),
            _order,
        ),
        Rule(
            "one buffer is enough",
            "A unit must be freed before the next one is gathered.",
            (3, 1),
            _order,
        ),
        Rule(
            "quick gathers are hidden",
            "Which gathers do the forwards and backwards wait for?",
            (4, 2),
            _hidden_gathers,
        ),
    ),
    "n47.4": (
        Rule(
            "one unit at a time",
            "The text works a program like this one out.",
            ([*_PLAIN, "AG0", "B0", "RS0"], 1),
            _limiter,
        ),
        Rule(
            "two units at a time",
            "Count at each gather: how many were allocated before, and how many are surely freed?",
            ([*_AHEAD, "B0", "RS0"], 2),
            _limiter,
        ),
        Rule(
            "a limit that can't be kept is told",
            "When the second gather comes, the host has issued nothing that frees the first unit.",
            ([*_AHEAD, "B0", "RS0"], 1),
            _none,
        ),
    ),
    "n47.5": (
        Rule(
            "steady bytes, bytes in each F and B, and the peak",
            "The text works this one out.",
            ([(10, 30), (6, 20)], 4, False),
            _memory,
        ),
        Rule(
            "the same with prefetch",
            "Which unit is needed next? Its parameters are there already.",
            ([(10, 30), (6, 20), (7, 0)], 4, True),
            _memory,
        ),
    ),
}
