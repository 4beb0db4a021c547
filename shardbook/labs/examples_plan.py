"""The visible examples of lab plan: cards, groups, limits and layouts, by the planner's functions."""

from collections.abc import Callable
from typing import Any, Final

from shardbook.collectives.groups import process_groups
from shardbook.labs.checking import Rule
from shardbook.labs.handed_layouts import (
    Measured,
    cluster_of,
    model_of,
    run_layout,
    set_up,
    too_slow,
)
from shardbook.labs.values import Fault, compare, show
from shardbook.planner.layouts import Layout, Limits
from shardbook.planner.memory import OPTIMIZER, peak_memory
from shardbook.planner.plan import plan

_Judge = Callable[..., Fault | None]

_TOO_LARGE: Final = 1e300  # an int beyond it can't be added to a float

_MODEL: Final = {
    "layers": 12, "hidden": 1536, "heads": 12, "vocabulary": 48_000, "sequence": 1024, "batch": 24,
}  # fmt: skip
_WHOLE: Final = {
    "tensor": 1, "context": 1, "pipeline": 1, "data": 1, "stage": 0, "recompute": "none",
    "micro_batch": 1,
}  # fmt: skip


def _card(model: dict[str, int], layout: dict[str, Any], place: int, value: Any) -> Fault | None:
    """By the planner's peak: ``place`` is the fullest pipeline rank in these examples."""
    pieces = dict(peak_memory(model_of(model), Layout(**layout)).pieces)
    expected = {name: pieces.pop(name) for name in ("weights", "gradients")}
    expected["optimizer"] = sum(pieces.pop(name) for name in OPTIMIZER)
    names = (*expected, "activations", "temporary")
    if not isinstance(value, dict) or set(value) != set(names):
        return Fault("result", f"a dict with {', '.join(names)}", show(value))
    for name, size in expected.items():
        if fault := compare(size, value[name], where=name, exact=False):
            return fault
    for name in ("activations", "temporary"):
        if type(value[name]) not in (int, float) or not abs(value[name]) < _TOO_LARGE:
            return Fault(name, "a number", show(value[name]))
    both = value["activations"] + value["temporary"]
    return compare(sum(pieces.values()), both, where="activations and temporary", exact=False)


def _rings(axes: list[tuple[str, int]], cards: int, rank: int, value: Any) -> Fault | None:
    if not isinstance(value, dict):
        return Fault("result", "a dict with an entry for each axis", show(value))
    for name, groups in process_groups(dict(axes)).items():
        group = next(group for group in groups if rank in group)
        leaving = sum(
            one // cards != group[(index + 1) % len(group)] // cards
            for index, one in enumerate(group)
        )
        expected = (list(group), leaving)
        if fault := compare(expected, value.get(name), where=f"rank {rank}, {name}"):
            return fault
    return None


def _is(expected: Any) -> _Judge:
    def judge(*arguments: Any) -> Fault | None:
        return compare(expected, arguments[-1])

    return judge


def _can_be_set_up(model: dict[str, int], cluster: dict[str, Any], value: Any) -> Fault | None:
    found = set_up(model, cluster, value)
    return found if isinstance(found, Fault) else None


def _near(model: dict[str, int], cluster: dict[str, Any], value: Any) -> Fault | None:
    found = run_layout(model, cluster, value)
    if isinstance(found, Fault):
        return found
    limits = Limits(schedules=("1f1b",), usable=1.0)
    ranked = plan(model_of(model), cluster_of(cluster), limits).ranked
    best = min((Measured(each.time.seconds, each.peak.bytes) for each in ranked), key=_seconds)
    return too_slow(found, best, 1.05)


def _seconds(measured: Measured) -> float:
    return measured.seconds


_NODES: Final = {
    "nodes": 2, "cards": 4, "memory": 40 * 10**9, "flops": 150e12, "inside": 300e9,
    "inside_latency": 2e-6, "between": 10e9, "between_latency": 5e-6,
}  # fmt: skip
_LARGE: Final = {
    "layers": 24, "hidden": 2048, "heads": 16, "vocabulary": 51_200, "sequence": 2048, "batch": 64,
}  # fmt: skip
_ALL_OF_THEM: Final = {
    "tensor": 4, "context": 1, "pipeline": 2, "data": 1, "stage": 0, "recompute": "none",
    "micro_batch": 1,
}  # fmt: skip
_JOB: Final = {
    "steps": 3600, "batch": 16, "flop": 1e14, "states": 160 * 10**9, "kept": 10**10, "moved": 10**10,
}  # fmt: skip
_OFFER: Final = {
    "cards": 8, "nodes": 2, "memory": 40 * 10**9, "flops": 100e12, "bandwidth": 25e9, "price": 2.0,
}  # fmt: skip

#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "plan.1": (
        Rule(
            "one card holds everything",
            "No split at all: add up the rules of the text.",
            (_MODEL, _WHOLE, 0),
            _card,
        ),
        Rule(
            "a stage shards over the cards that hold the same weights",
            "Here four cards share each layer, and six cards hold the same part of it.",
            (
                _MODEL,
                _WHOLE | {"tensor": 4, "context": 2, "data": 3, "stage": 3, "recompute": "full"},
                0,
            ),
            _card,
        ),
        Rule(
            "the first pipeline rank holds most micro-batches",
            "How many forwards has it run when its first backward comes?",
            (_MODEL, _WHOLE | {"pipeline": 4, "data": 2, "stage": 1}, 0),
            _card,
        ),
        Rule(
            "the last pipeline rank has the logits",
            "It has fewer micro-batches in flight than any other.",
            (_MODEL, _WHOLE | {"pipeline": 2, "data": 2, "stage": 2, "recompute": "full"}, 1),
            _card,
        ),
    ),
    "plan.2": (
        Rule(
            "the fastest-varying axis has neighbours",
            "The text works this grid out.",
            ([("tensor", 4), ("data", 2)], 4, 6),
            _rings,
        ),
        Rule(
            "any order, and as many axes as there are",
            "Divide the rank by the degrees, one after the other.",
            ([("data", 3), ("pipeline", 2), ("tensor", 2)], 4, 7),
            _rings,
        ),
    ),
    "plan.3": (
        Rule(
            "all limits kept",
            "Nothing is wrong with this one.",
            (_LARGE, _NODES, _ALL_OF_THEM, 10**10),
            _is(None),
        ),
        Rule(
            "the heads",
            "Who shares the heads of a layer?",
            (_LARGE | {"heads": 18}, _NODES, _ALL_OF_THEM, 10**10),
            _is("heads"),
        ),
        Rule(
            "the first of two",
            "Both the degrees and the memory are wrong here.",
            (_LARGE, _NODES, _ALL_OF_THEM | {"data": 2}, 10**11),
            _is("cards"),
        ),
    ),
    "plan.4": (
        Rule(
            "micro-batch × accumulation × replicas is the batch",
            "The text works this one out.",
            (64, {"tensor": 2, "context": 1, "pipeline": 1, "data": 4}, 8),
            _is((8, 2)),
        ),
        Rule(
            "None if the batch can't be dealt out",
            "Three replicas, and ten sequences.",
            (10, {"tensor": 1, "context": 1, "pipeline": 1, "data": 3}, 8),
            _is(None),
        ),
    ),
    "plan.5": (
        Rule(
            "the layout can be set up",
            "Put it through plan.3.",
            (_LARGE | {"batch": 4}, _NODES),
            _can_be_set_up,
        ),
        Rule(
            "it fits, and its step is at most 5 % longer than the best that the planner finds",
            "`measure` shows the bytes and the time of your layout and of others.",
            (_LARGE, _NODES),
            _near,
        ),
        Rule(
            "the same with less memory",
            "What can be given up, and what does it cost?",
            (_LARGE, _NODES | {"nodes": 1, "memory": 8 * 10**9}),
            _near,
        ),
    ),
    "plan.6": (
        Rule(
            "the cheapest one that fits",
            "States are shared by all rented cards; the rest is not.",
            (_JOB, [_OFFER, _OFFER | {"memory": 25 * 10**9, "price": 1.5}], 100),
            _is((0, 1)),
        ),
        Rule(
            "None if the training would be late",
            "Each card runs its sequences one after the other.",
            (_JOB, [_OFFER], 1),
            _is(None),
        ),
    ),
}
