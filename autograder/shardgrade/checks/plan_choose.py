"""Hidden check of plan.5: layouts handed in, measured by the planner's closed form.

The best step known is the reference solution's: no layout of the planner's own search is faster by
more than a hair, as a test shows. So grading takes one measurement a case, not a search.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_layouts import (
    Measured,
    model_of,
    run_layout,
    set_up,
    too_slow,
)
from shardbook.labs.values import Fault
from shardbook.planner.layouts import Layout
from shardbook.planner.memory import peak_memory
from shardgrade.blocking import lifted
from shardgrade.checks.judging import Case, HiddenCheck, Probe
from shardgrade.checks.plan_blocked import PLANNER

_WIDTH: Final = 128
_PLENTY: Final = 500 * 10**9

#: nodes, cards, heads, layers, batch: where the cards' number is no good degree of one kind
_AWKWARD: Final = (
    (1, 6, 9, 16, 3),
    (1, 6, 12, 16, 9),
    (1, 12, 20, 18, 3),
    (2, 6, 16, 15, 6),
    (3, 4, 12, 22, 3),
    (2, 8, 12, 36, 24),
)


def _model(rng: Random, **given: int) -> dict[str, int]:
    heads = given.get("heads") or rng.choice((16, 24, 32))
    model = {
        "layers": rng.choice((16, 24, 32, 48)),
        "hidden": heads * _WIDTH,
        "heads": heads,
        "vocabulary": rng.choice((32_000, 51_200)),
        "sequence": rng.choice((1024, 2048, 4096)),
        "batch": rng.choice((64, 128, 256)),
    }
    return model | given


def _cluster(rng: Random, nodes: int, cards: int, **given: float) -> dict[str, Any]:
    cluster = {
        "nodes": nodes,
        "cards": cards,
        "memory": _PLENTY,
        "flops": rng.choice((60e12, 150e12, 400e12)),
        "inside": rng.choice((150e9, 300e9)),
        "inside_latency": 2e-6,
        "between": rng.choice((12.5e9, 25e9)),
        "between_latency": rng.choice((5e-6, 10e-6)),
    }
    return cluster | given


def _least(model: dict[str, int], cluster: dict[str, Any]) -> int:
    """Bytes (B) a card with everything sharded and recomputed, one sequence at a time."""
    cards = cluster["nodes"] * cluster["cards"]
    return peak_memory(model_of(model), Layout(data=cards, stage=3, recompute="full")).bytes


def _room(
    rng: Random, model: dict[str, int], cluster: dict[str, Any], low: float, high: float
) -> Case:
    return model, cluster | {"memory": int(_least(model, cluster) * rng.uniform(low, high))}


def _awkward(rng: Random) -> Iterable[Case]:
    for nodes, cards, heads, layers, batch in _AWKWARD:
        model = _model(rng, heads=heads, layers=layers, batch=batch)
        yield model, _cluster(rng, nodes, cards)


def _tight(rng: Random) -> Iterable[Case]:
    for vocabulary in (32_000, 51_200, 256_000, 256_000):
        model = _model(rng, vocabulary=vocabulary)
        yield _room(rng, model, _cluster(rng, rng.choice((1, 2)), 8), 1.01, 1.15)


def _mixed(rng: Random) -> Iterable[Case]:
    for cards in (2, 4, 2, 4):
        slow = _cluster(rng, 8, cards, between=rng.choice((1e9, 3e9)))
        yield _room(rng, _model(rng), slow, 1.5, 6)


def _one_node(rng: Random) -> Iterable[Case]:
    for cards in (4, 8, 4, 8):
        yield _room(rng, _model(rng), _cluster(rng, 1, cards), 4, 12)


def _several_nodes(rng: Random) -> Iterable[Case]:
    for nodes in (2, 2, 4, 4):
        slow = _cluster(rng, nodes, 8, between=rng.choice((2e9, 5e9, 10e9)))
        yield _room(rng, _model(rng), slow, 6, 20)


def _little_memory(rng: Random) -> Iterable[Case]:
    for nodes in (1, 1, 2, 2):
        yield _room(rng, _model(rng), _cluster(rng, nodes, 8, between=50e9), 1.2, 2.5)


def _can_be_set_up(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    with lifted():
        found = set_up(*case, outcome.value)
    return found if isinstance(found, Fault) else None


def _fits(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    with lifted():
        found = run_layout(*case, outcome.value)
    return found if isinstance(found, Fault) else None


def _within(times: float) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        with lifted():
            best, found = (run_layout(*case, value) for value in (expected, outcome.value))
        assert isinstance(best, Measured)
        return found if isinstance(found, Fault) else too_slow(found, best, times)

    return judge


CHOOSE: Final = HiddenCheck(
    blocked=PLANNER,
    probes=(
        Probe("can be set up", _awkward, _can_be_set_up),
        Probe("fits", _tight, _fits),
        Probe("half as fast", _mixed, _within(2.0)),
        Probe("one node", _one_node, _within(1.05)),
        Probe("several nodes", _several_nodes, _within(1.05)),
        Probe("short of memory", _little_memory, _within(1.05)),
    ),
)
