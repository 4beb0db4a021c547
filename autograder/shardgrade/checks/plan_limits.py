"""Hidden checks of plan.3 and plan.4: the first limit of a layout, and how its batch is dealt out."""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from shardgrade.checks.judging import Case, HiddenCheck, Probe
from shardgrade.checks.plan_blocked import BATCH, LIMITS

_MEMORY: Final = 80 * 10**9


def _layout(rng: Random, *broken: str, spare: int = 3) -> Case:
    """Arguments of plan.3 that keep all rules but the broken ones; ``spare`` micro-batches."""
    many = bool(broken)
    tensor, pipeline = (rng.choice((2, 4)) if many else rng.choice((1, 2, 4)) for _ in range(2))
    context = 2 if "sequence" in broken else rng.choice((1, 2))
    data, micro_batch = rng.randint(2, 4), rng.randint(2, 4)
    cards, nodes = tensor * context, data * pipeline
    if "node" in broken:
        cards, nodes = tensor // 2, 2 * context * nodes
    if "cards" in broken:
        nodes += rng.choice((-1, 1, 2))
    count = pipeline - 1 if "micro-batches" in broken else pipeline + spare
    model = {
        "layers": pipeline * rng.randint(4, 9) + ("layers" in broken),
        "hidden": 2048,
        "heads": tensor * rng.randint(4, 9) + ("heads" in broken),
        "vocabulary": 32_000,
        "sequence": 4 * 512 * rng.randint(1, 4) + 2 * ("sequence" in broken),
        "batch": data * micro_batch * count + rng.choice((1, data)) * ("batch" in broken),
    }
    peak = (
        _MEMORY + rng.randint(1, 10**9) if "memory" in broken else rng.randint(10**9, _MEMORY - 1)
    )
    cluster = {"nodes": nodes, "cards": cards, "memory": _MEMORY}
    layout = {
        "tensor": tensor,
        "context": context,
        "pipeline": pipeline,
        "data": data,
        "micro_batch": micro_batch,
    }
    return model, cluster, layout, peak


def _degrees(rng: Random) -> Iterable[Case]:
    for broken in ("cards", "node") * 5:
        yield _layout(rng, broken)
        yield _layout(rng)


def _divisors(rng: Random) -> Iterable[Case]:
    for broken in ("heads", "sequence", "layers", "batch") * 4:
        yield _layout(rng, broken)
        yield _layout(rng)


def _too_few(rng: Random) -> Iterable[Case]:
    for _ in range(5):
        yield _layout(rng, "micro-batches")
        yield _layout(rng, spare=0)


def _full(rng: Random) -> Iterable[Case]:
    for _ in range(5):
        yield _layout(rng, "memory")
        model, cluster, layout, _ = _layout(rng)
        yield model, cluster, layout, _MEMORY


def _several(rng: Random) -> Iterable[Case]:
    order = ("cards", "heads", "layers", "batch", "micro-batches", "memory")
    for first in range(len(order) - 1):
        for second in order[first + 1 :]:
            yield _layout(rng, order[first], second)


def _batch(rng: Random, each: int, **given: int) -> tuple[int, dict[str, int]]:
    """A batch of ``each`` sequences for every replica, and a layout."""
    layout: dict[str, Any] = {"tensor": 1, "context": 1, "pipeline": 1, "data": rng.randint(2, 9)}
    layout |= given
    return layout["data"] * each, layout


def _replicas(rng: Random) -> Iterable[Case]:
    for _ in range(6):
        split = {"tensor": rng.choice((2, 4)), "context": rng.choice((2, 4))}
        batch, layout = _batch(rng, 2 ** rng.randint(5, 7), **split)
        yield batch, layout, rng.choice((2, 4, 8))


def _enough(rng: Random) -> Iterable[Case]:
    for pipeline in (2, 4, 8, rng.randint(3, 7)):
        batch, layout = _batch(rng, 2 ** rng.randint(3, 5), pipeline=pipeline)
        yield batch, layout, 32
        yield 8 * pipeline, layout | {"data": 1}, 8


def _any_factor(rng: Random) -> Iterable[Case]:
    for each, most in ((45, 8), (30, 8), (21, 16), (30, 7), (2 * rng.choice((7, 11, 13)), 30)):
        batch, layout = _batch(rng, each)
        yield batch, layout, most


def _no_way(rng: Random) -> Iterable[Case]:
    for pipeline in (1, 2, 4):
        batch, layout = _batch(rng, 16, pipeline=pipeline)
        yield batch, layout, 2
        yield batch + 1, layout, 8
        yield 4 * layout["data"], layout | {"pipeline": 16}, 8


FIRST_LIMIT: Final = HiddenCheck(
    blocked=LIMITS,
    probes=(
        Probe("degrees", _degrees),
        Probe("what must divide", _divisors),
        Probe("micro-batches", _too_few),
        Probe("memory", _full),
        Probe("the first of several", _several),
    ),
)

DEAL: Final = HiddenCheck(
    blocked=BATCH,
    probes=(
        Probe("replicas", _replicas),
        Probe("enough for the pipeline", _enough),
        Probe("the largest", _any_factor),
        Probe("nothing goes", _no_way),
    ),
)
