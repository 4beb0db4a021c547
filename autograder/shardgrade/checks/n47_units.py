"""Hidden checks of n47.1, n47.2 and n47.5: a unit's layout, buckets, bytes in a step."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, compare, show
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COMMUNICATION, COMPUTE, Action, simulate
from shardgrade.checks.judging import Case, HiddenCheck, Probe


def _tensors(rng: Random, sizes: list[int]) -> list[tuple[str, int]]:
    names = rng.sample("abcdefghijklmnopqrstuvw", k=len(sizes))
    return list(zip(names, sizes, strict=True))


def _any_tensors(rng: Random) -> Iterable[Case]:
    for _ in range(8):
        sizes = [rng.randint(1, 60) for _ in range(rng.randint(2, 7))]
        yield _tensors(rng, sizes), rng.randint(1, 8)


def _uneven_tensors(rng: Random) -> Iterable[Case]:
    for _ in range(12):
        ranks = rng.randint(3, 8)
        sizes = [rng.randint(30, 60) for _ in range(rng.randint(3, 6))]
        sizes[-1] += -sum(sizes) % ranks + rng.randint(1, ranks - 1)
        yield _tensors(rng, sizes), ranks


def _even_tensors(rng: Random) -> Iterable[Case]:
    for _ in range(12):
        ranks = rng.randint(1, 6)
        sizes = [rng.randint(1, 50) for _ in range(rng.randint(2, 6))]
        sizes.append(ranks + -sum(sizes) % ranks)
        rng.shuffle(sizes)
        yield _tensors(rng, sizes), ranks


def _little_to_store(rng: Random) -> Iterable[Case]:
    for _ in range(4):
        sizes = [rng.randint(1, 2), 0, rng.randint(1, 2)]
        yield _tensors(rng, sizes), rng.randint(7, 12)
        sizes = [0, 4 * rng.randint(1, 9), 0, 4 * rng.randint(1, 9)]
        yield _tensors(rng, sizes), 4


def _entries(*keys: str) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        value = outcome.value
        if not isinstance(value, dict):
            return Fault("result", "a dict", show(value))
        for key in keys:
            if fault := compare(expected[key], value.get(key), where=f"result['{key}']"):
                return fault
        return None

    return judge


def _layers(rng: Random, sizes: list[int]) -> list[tuple[float, int]]:
    return [(rng.randint(1, 8) * 1e-3, size) for size in sizes]


def _network(rng: Random) -> tuple[float, float]:
    return rng.choice((1e-4, 5e-4, 2e-3)), rng.choice((2e4, 1e5, 5e5))


def _filled(rng: Random) -> Iterable[Case]:
    """Layer 0 fills a bucket, so that nothing is left; the first bucket is as the others."""
    for _ in range(10):
        capacity = rng.randint(60, 200)
        sizes = [rng.randint(5, 90) for _ in range(rng.randint(5, 12))]
        layers = _layers(rng, [capacity + rng.randint(0, 20), *sizes])
        yield (layers, capacity, capacity, *_network(rng))


def _small_first(rng: Random) -> Iterable[Case]:
    """Layers of one size that divides both capacities; nothing is left."""
    for _ in range(6):
        size, few = rng.randint(10, 30), rng.randint(3, 5)
        first = rng.randint(1, few - 1)
        layers = _layers(rng, [size] * (first + few * rng.randint(1, 3)))
        yield (layers, size * few, size * first, *_network(rng))


def _some_left(rng: Random) -> Iterable[Case]:
    """The same, but something is left."""
    for _ in range(6):
        size, few = rng.randint(10, 30), rng.randint(3, 5)
        layers = _layers(rng, [size] * (few * rng.randint(1, 3) + rng.randint(1, few - 1)))
        yield (layers, size * few, size * few, *_network(rng))


def whole_buckets(value: Any, count: int) -> list[list[int]] | Fault:
    """Return the buckets, each of ``count`` layers in one of them, or what is wrong."""
    wanted = "lists of layers, each layer in one of them"
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(bucket, (list, tuple)) and bucket for bucket in value
    ):
        return Fault("the buckets", wanted, show(value))
    buckets = [list(bucket) for bucket in value]
    layers = [layer for bucket in buckets for layer in bucket]
    if any(type(layer) is not int for layer in layers) or sorted(layers) != list(range(count)):
        return Fault("the buckets", wanted, show(value))
    return buckets


def bucket_seconds(
    layers: Sequence[tuple[float, int]],
    buckets: Sequence[Sequence[int]],
    latency: float,
    bandwidth: float,
) -> float:
    """The end of the last all-reduce, s from the start of the backward.

    ``layers``: seconds of the backward and bytes, in the order of the forward. A bucket takes
    ``latency`` s and its bytes ÷ ``bandwidth`` (B/s).
    """
    last = len(layers) - 1
    actions = [Action(f"B{at}", COMPUTE, layers[at][0]) for at in range(last, -1, -1)]
    for number, bucket in enumerate(buckets):
        seconds = latency + sum(layers[at][1] for at in bucket) / bandwidth
        needs = tuple(last - at for at in bucket)
        actions.append(Action(f"AR{number}", COMMUNICATION, seconds, needs, COMMUNICATION))
    return simulate(compile_plan(actions)).makespan


def _handed(case: Case, outcome: Outcome) -> list[list[int]] | Fault:
    value = outcome.value
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    return whole_buckets(value.get("buckets"), len(case[0]))


def _on_buckets(
    look: Callable[[list[list[int]], list[list[int]]], bool], wanted: str
) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        buckets = _handed(case, outcome)
        if isinstance(buckets, Fault):
            return buckets
        if look(buckets, expected["buckets"]):
            return None
        return Fault("the buckets", wanted, show(buckets))

    return judge


def _same_order(got: list[list[int]], wanted: list[list[int]]) -> bool:
    return list(chain(*got)) == list(chain(*wanted))


def _same_layers(got: list[list[int]], wanted: list[list[int]]) -> bool:
    return list(map(sorted, got)) == list(map(sorted, wanted))


def _same_first(got: list[list[int]], wanted: list[list[int]]) -> bool:
    return sorted(got[0]) == sorted(wanted[0])


def _first_bucket(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    return _on_buckets(_same_first, "another first one")(case, expected, outcome)


def _last_bucket(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    value = outcome.value
    buckets = value.get("buckets") if isinstance(value, dict) else None
    if isinstance(buckets, (list, tuple)) and buckets and isinstance(buckets[-1], (list, tuple)):
        last = [layer for layer in buckets[-1] if type(layer) is int]
        if sorted(last) == sorted(expected["buckets"][-1]):
            return None
    return Fault("the last bucket", "what is left", "something else")


def _end(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    buckets = _handed(case, outcome)
    if isinstance(buckets, Fault):
        return buckets
    seconds = bucket_seconds(case[0], buckets, case[3], case[4])
    where = "result['end'] of your buckets"
    return compare(seconds, outcome.value.get("end"), where=where, exact=False)


def _models(
    prefetch: bool, activations: Callable[[Random], int]
) -> Callable[[Random], Iterable[Case]]:
    def cases(rng: Random) -> Iterable[Case]:
        for count in (1, 2, 3, rng.randint(4, 6), rng.randint(5, 8)):
            units = [(rng.randint(20, 900), activations(rng)) for _ in range(count)]
            yield units, rng.randint(2, 9), prefetch

    return cases


def _some_activations(rng: Random) -> int:
    return rng.randint(10, 4000)


def _during(
    kinds: str,
) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        value = outcome.value
        during = value.get("during") if isinstance(value, dict) else None
        if not isinstance(during, dict):
            return Fault("result['during']", "a dict", show(during))
        for name, size in expected["during"].items():
            if name[0] in kinds:
                where = f"result['during']['{name}']"
                if fault := compare(size, during.get(name), where=where, exact=False):
                    return fault
        return None

    return judge


def _peak(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    value = outcome.value
    during = value.get("during") if isinstance(value, dict) else None
    if not isinstance(during, dict):
        return Fault("result['during']", "a dict", show(during))
    sizes = [during.get(name) for name in expected["during"]]
    if not all(type(size) in (int, float) for size in sizes):
        return Fault("result['during']", "bytes for every F and B", show(during))
    first = list(expected["during"])[sizes.index(max(sizes))]
    where = "result['peak'] of your bytes"
    return compare(first, value.get("peak"), where=where)


FLAT_LAYOUT: Final = HiddenCheck(
    blocked=("shardbook.schedules.units:flat_parameter",),
    probes=(
        Probe("offsets", _any_tensors, _entries("offsets")),
        Probe("shard and padding", _uneven_tensors, _entries("shard", "padding")),
        Probe("sizes that divide", _even_tensors, _entries("pieces")),
        Probe("sizes that don't", _uneven_tensors, _entries("pieces")),
        Probe("nothing to store", _little_to_store, _entries("pieces")),
    ),
)

GRADIENT_BUCKETS: Final = HiddenCheck(
    blocked=(
        "shardbook.schedules.buckets:ddp_step",
        "shardbook.schedules.buckets:fill_buckets",
    ),
    probes=(
        Probe("order", _filled, _on_buckets(_same_order, "the order of the backward")),
        Probe("capacity", _filled, _on_buckets(_same_layers, "other borders")),
        Probe("first bucket", _small_first, _first_bucket),
        Probe("last bucket", _some_left, _last_bucket),
        Probe("end of the step", _filled, _end),
    ),
)

MEMORY_OF_STEP: Final = HiddenCheck(
    blocked=(
        "shardbook.labs.examples_n47:_accounts",
        "shardbook.labs.examples_n47:_memory",
        "shardbook.schedules.peaks:phase_peaks",
        "shardbook.schedules.units:granularity",
    ),
    probes=(
        Probe("steady", _models(False, _some_activations), _entries("steady")),
        Probe("forward", _models(False, _some_activations), _during("F")),
        Probe("backward", _models(False, _some_activations), _during("B")),
        Probe("prefetch", _models(True, lambda rng: 0), _during("FB")),
        Probe("peak", _models(False, _some_activations), _peak),
    ),
)
