"""Hidden checks of plan.1 and plan.2: what a card holds, and with whom it speaks over which link."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, compare, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe
from shardgrade.checks.plan_blocked import GROUPS, MEMORY

_STATES: Final = ("weights", "gradients", "optimizer")
_RECOMPUTE: Final = ("none", "selective", "full")


def _card(rng: Random, *, place: int = 0, **given: Any) -> Case:
    """A model and a layout in which every division comes out even, 1F1B has enough to do."""
    layout = {
        "tensor": rng.choice((2, 4)),
        "context": rng.choice((2, 4)),
        "pipeline": 1,
        "data": rng.choice((2, 3)),
        "stage": 0,
        "recompute": "none",
        "micro_batch": rng.randint(1, 4),
    } | given
    heads = rng.choice((12, 24))
    pipeline, count = layout["pipeline"], layout["pipeline"] + rng.randint(1, 9)
    model = {
        "layers": pipeline * rng.randint(2, 6),
        "hidden": 128 * heads,
        "heads": heads,
        "vocabulary": rng.choice((32_000, 48_000)),
        "sequence": rng.choice((1024, 2048)),
        "batch": layout["data"] * layout["micro_batch"] * count,
    }
    return model, layout, place


def _every_place(rng: Random) -> Iterable[Case]:
    for pipeline in (1, 2, 4):
        for place in range(pipeline):
            yield _card(rng, pipeline=pipeline, place=place, stage=rng.choice((0, 1, 2)))


def _every_stage(rng: Random) -> Iterable[Case]:
    for stage in (1, 2, 3) * 3:
        yield _card(rng, stage=stage)


def _every_recomputation(rng: Random) -> Iterable[Case]:
    for recompute in _RECOMPUTE * 3:
        yield _card(rng, recompute=recompute)


def _running_ahead(rng: Random) -> Iterable[Case]:
    for pipeline in (2, 3, rng.randint(5, 8)):
        for place in range(pipeline):
            yield _card(rng, pipeline=pipeline, place=place, recompute="full", context=1)


def _for_a_while(rng: Random) -> Iterable[Case]:
    for stage in (0, 1, 2, 3):
        for recompute in _RECOMPUTE:
            yield _card(rng, stage=stage, recompute=recompute)
        pipeline = rng.randint(2, 4)
        for place in range(pipeline):
            yield _card(rng, pipeline=pipeline, place=place, stage=stage)
        yield _card(rng, stage=stage, data=1, context=1)
    model, layout, place = _card(rng, pipeline=3, place=1, stage=3)
    yield model | {"layers": 3}, layout, place


def _entries(*names: str) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        value = outcome.value
        if not isinstance(value, dict):
            return Fault("result", "a dict", show(value))
        got = {name: value[name] for name in names if name in value}
        return compare({name: expected[name] for name in names}, got, exact=False)

    return judge


def _axes(rng: Random, names: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(name, rng.choice((1, 2, 2, 3, 4))) for name in names]


def _in_a_grid(axes: list[tuple[str, int]], cards: int, rng: Random) -> Case:
    ranks = 1
    for _, degree in axes:
        ranks *= degree
    return axes, cards, rng.randrange(ranks)


def _usual_order(rng: Random) -> Iterable[Case]:
    yield [("tensor", 1), ("data", 1)], 4, 0
    for _ in range(12):
        axes = _axes(rng, ("tensor", "context", "data", "pipeline"))
        yield _in_a_grid(axes, rng.choice((2, 4, 8)), rng)


def _two_axes(rng: Random) -> Iterable[Case]:
    for _ in range(12):
        axes = [("tensor", rng.randint(2, 6)), ("data", rng.randint(2, 6))]
        yield _in_a_grid(axes, rng.choice((2, 3, 4, 8)), rng)


def _another_order(rng: Random) -> Iterable[Case]:
    for _ in range(12):
        names = ("tensor", "context", "expert", "data", "pipeline")
        some = tuple(rng.sample(names, k=rng.randint(2, 3)))
        yield _in_a_grid(_axes(rng, some), rng.choice((2, 4, 8)), rng)


def _part(index: int) -> Callable[[Case, Any, Outcome], Fault | None]:
    """Look at the ranks (0) or at the transfers that leave the node (1)."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        for name, pair in expected.items():
            got = outcome.value.get(name) if isinstance(outcome.value, dict) else outcome.value
            if not isinstance(got, (tuple, list)) or len(got) != 2:
                return Fault(f"result['{name}']", "a pair (ranks, transfers)", show(got))
            where = f"{('the group', 'transfers that leave a node')[index]} of {name}"
            if fault := compare(pair[index], got[index], where=where, exact=False):
                return fault
        return None

    return judge


CARD_BYTES: Final = HiddenCheck(
    blocked=MEMORY,
    probes=(
        Probe("weights of a card", _every_place, _entries("weights")),
        Probe("sharded states", _every_stage, _entries(*_STATES)),
        Probe("kept by a layer", _every_recomputation, _entries("activations")),
        Probe("in flight", _running_ahead, _entries("activations")),
        Probe("temporary", _for_a_while, _entries("temporary")),
    ),
)

RINGS: Final = HiddenCheck(
    blocked=GROUPS,
    probes=(
        Probe("groups", _usual_order, _part(0)),
        Probe("any order", _another_order, _part(0)),
        Probe("leaving the node", _two_axes, _part(1)),
    ),
)
