"""Hidden check of n45.4: the interval that recomputes least and still fits.

The engine has peaks and the interval of the least peak; which interval recomputes least under a
limit stands nowhere in it.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, compare, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

#: peak bytes and recomputed layers by interval
_Table = dict[int, tuple[int, int]]


@functools.cache  # asked for again in each submission's process, which inherits it
def _table(layers: int, layer: int, checkpoint: int) -> _Table:
    table = {}
    for interval in range(1, layers + 1):
        sizes = [min(interval, layers - start) for start in range(0, layers, interval)]
        held = enumerate(sizes, start=1)
        peak = max(number * checkpoint + size * layer for number, size in held)
        table[interval] = (peak, layers - sizes[-1])
    return table


def _models(rng: Random) -> Iterator[tuple[tuple[int, int, int], _Table]]:
    while True:
        model = rng.randint(4, 40), rng.randint(8, 64), rng.randint(1, 24)
        yield model, _table(*model)


def _some(rng: Random, few: int, limits: Callable[[_Table, int], list[int]]) -> Iterable[Case]:
    """``few`` models with one of the limits that suit them."""
    made = 0
    for model, table in _models(rng):
        if suitable := limits(table, model[2]):
            yield (*model, rng.choice(suitable))
            made += 1
        if made == few:
            return


def _fitting(rng: Random) -> Iterable[Case]:
    return _some(rng, 16, lambda table, _: sorted({peak for peak, _ in table.values()}))


def _close(rng: Random) -> Iterable[Case]:
    """Some interval is just over the limit and would recompute less."""

    def limits(table: _Table, checkpoint: int) -> list[int]:
        found = []
        for peak, recomputed in table.values():
            under = [again for other, again in table.values() if other < peak]
            if under and recomputed < min(under):
                found.append(peak - 1)
        return found

    return _some(rng, 16, limits)


def _tied(rng: Random) -> Iterable[Case]:
    """All that fit recompute the same; nothing is just over the limit."""

    def limits(table: _Table, checkpoint: int) -> list[int]:
        found = []
        for limit in sorted({peak for peak, _ in table.values()}):
            fitting = [again for peak, again in table.values() if peak <= limit]
            near = [peak for peak, _ in table.values() if limit < peak <= limit + checkpoint]
            if len(fitting) > 1 and len(set(fitting)) == 1 and not near:
                found.append(limit)
        return found

    return _some(rng, 12, limits)


def _hopeless(rng: Random) -> Iterable[Case]:
    def limits(table: _Table, checkpoint: int) -> list[int]:
        return [max(0, min(peak for peak, _ in table.values()) - checkpoint - 1)]

    for case in _some(rng, 8, limits):
        yield case
        layers, layer, checkpoint, _ = case
        yield layers, layer, checkpoint, layers * (layer + checkpoint)


def _chosen(case: Case, value: Any) -> tuple[int, int, Fault | None]:
    """Peak and recomputed layers of the interval that was chosen, or what is wrong with it."""
    if not isinstance(value, dict):
        return 0, 0, Fault("result", "a dict", show(value))
    interval = value.get("interval")
    if type(interval) is not int or not 1 <= interval <= case[0]:
        return 0, 0, Fault("result['interval']", "an int from 1 to layers", show(interval))
    peak, recomputed = _table(*case[:3])[interval]
    return peak, recomputed, None


def _peak(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    peak, _, fault = _chosen(case, outcome.value)
    where = "result['peak'] of your interval"
    return fault or compare(peak, outcome.value.get("peak"), where=where, exact=False)


def _recomputed(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    _, recomputed, fault = _chosen(case, outcome.value)
    where = "result['recomputed'] of your interval"
    return fault or compare(recomputed, outcome.value.get("recomputed"), where=where, exact=False)


def _under_limit(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    peak, _, fault = _chosen(case, outcome.value)
    if fault or peak <= case[3]:
        return fault
    return Fault("your interval", "a peak within the limit", "a peak above it")


def _fewest(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    _, recomputed, fault = _chosen(case, outcome.value)
    if fault or recomputed <= expected["recomputed"]:
        return fault
    return Fault("your interval", "as few recomputed layers as any that fits", "more")


def _tie(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    _, _, fault = _chosen(case, outcome.value)
    where = "result['interval']"
    return fault or compare(expected["interval"], outcome.value["interval"], where=where)


def _none_or_some(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    return compare(None, outcome.value) if expected is None else _chosen(case, outcome.value)[2]


BEST_INTERVAL: Final = HiddenCheck(
    blocked=(
        "shardbook.ledger.checkpointing:_interval",
        "shardbook.ledger.checkpointing:best_interval",
        "shardbook.ledger.checkpointing:checkpoint_peak_bytes",
        "shardbook.ledger.checkpointing:intervals",
    ),
    probes=(
        Probe("peak", _fitting, _peak),
        Probe("recomputed", _fitting, _recomputed),
        Probe("within the limit", _close, _under_limit),
        Probe("fewest", _fitting, _fewest),
        Probe("ties", _tied, _tie),
        Probe("nothing fits", _hopeless, _none_or_some),
    ),
)
