"""Hidden checks of n46.3 to n46.5: token weights, a ring's cost, a broadcast in pieces.

The engine weighs ranks, never the micro-batches of a rank before an average over the ranks, and
nothing in it looks for a number of pieces.
"""

import math
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, compare, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

_COLLECTIVES: Final = ("reduce-scatter", "all-gather", "all-reduce")
_RELATIVE: Final = 1e-9


def _unequal_ranks(rng: Random) -> Iterable[Case]:
    for _ in range(10):
        yield ([[rng.randint(1, 99)] for _ in range(rng.randint(2, 6))],)


def _accumulated(rng: Random) -> Iterable[Case]:
    for _ in range(10):
        yield ([[rng.randint(1, 99) for _ in range(rng.randint(2, 5))]],)


def _some_empty(rng: Random) -> Iterable[Case]:
    for _ in range(6):
        counts = [rng.randint(1, 99), 0]
        rng.shuffle(counts)
        yield ([counts],)
    yield ([[0, 0], [0]],)


def _latency(rng: Random) -> float:
    return rng.choice((2e-6, 5e-6, 1e-5, 3e-5))


def _bandwidth(rng: Random) -> float:
    return rng.choice((25e9, 50e9, 1e11, 4.5e11))


def _even_chunks(rng: Random) -> Iterable[Case]:
    for collective in _COLLECTIVES * 3:
        sizes = [rng.randint(1, 9) * 10**6] * rng.randint(2, 9)
        yield collective, sizes, _latency(rng), _bandwidth(rng)


def _uneven_chunks(rng: Random) -> Iterable[Case]:
    for collective in _COLLECTIVES * 4:
        sizes = rng.sample(range(0, 9 * 10**6, 1000), k=rng.randint(2, 7))
        yield collective, sizes, _latency(rng), _bandwidth(rng)


def _one_chunk(rng: Random) -> Iterable[Case]:
    for collective in _COLLECTIVES:
        yield collective, [rng.randint(1, 10**6)], _latency(rng), _bandwidth(rng)


def _entry(key: str) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        if not isinstance(outcome.value, dict):
            return Fault("result", "a dict", show(outcome.value))
        where = f"result['{key}'] of {case[0]}"
        return compare(expected[key], outcome.value.get(key), where=where, exact=False)

    return judge


def _chain_seconds(ranks: int, size: int, latency: float, bandwidth: float, pieces: int) -> float:
    return (ranks + pieces - 2) * (latency + size / (pieces * bandwidth))


def _small_messages(rng: Random) -> Iterable[Case]:
    """So few pieces are best that one more or less can be told apart."""
    for _ in range(24):
        ranks, latency, bandwidth = rng.randint(3, 12), _latency(rng), _bandwidth(rng)
        about = rng.uniform(1.2, 14)
        size = max(1, int(about * about * latency * bandwidth / (ranks - 2)))
        yield ranks, size, latency, bandwidth, 1000


def _limited(rng: Random) -> Iterable[Case]:
    for _ in range(8):
        ranks, latency, bandwidth = rng.randint(3, 12), _latency(rng), _bandwidth(rng)
        size = int(10_000 * latency * bandwidth)
        yield ranks, size, latency, bandwidth, rng.randint(1, 20)


def _without_latency(rng: Random) -> Iterable[Case]:
    for _ in range(4):
        yield rng.randint(3, 9), rng.randint(10**6, 10**9), 0.0, _bandwidth(rng), rng.randint(2, 50)


def _huge_messages(rng: Random) -> Iterable[Case]:
    for _ in range(3):
        yield rng.randint(100, 1000), rng.randint(10**14, 10**15), 1e-9, 1e10, 10**9


def _chosen(case: Case, value: Any) -> tuple[float, Fault | None]:
    """The seconds of the pieces that were chosen, or what is wrong with them."""
    if not isinstance(value, dict):
        return 0.0, Fault("result", "a dict", show(value))
    pieces = value.get("pieces")
    if type(pieces) is not int or not 1 <= pieces <= 10**12:
        return 0.0, Fault("result['pieces']", "an int from 1 to the limit", show(pieces))
    return _chain_seconds(*case[:4], pieces), None


def _reported(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    seconds, fault = _chosen(case, outcome.value)
    where = "result['seconds'] of your pieces"
    return fault or compare(seconds, outcome.value.get("seconds"), where=where, exact=False)


def _fastest(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    seconds, fault = _chosen(case, outcome.value)
    if fault or seconds <= expected["seconds"] * (1 + _RELATIVE):
        return fault
    return Fault("your pieces", "a time as short as any", f"{show(outcome.value['pieces'])} pieces")


def _within(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    _, fault = _chosen(case, outcome.value)
    if fault or outcome.value["pieces"] <= case[4]:
        return fault
    return Fault("your pieces", "no more than the limit", show(outcome.value["pieces"]))


def _as_many(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    seconds, fault = _chosen(case, outcome.value)
    if fault or math.isclose(seconds, expected["seconds"], rel_tol=1e-6):
        return fault
    return Fault("your pieces", "a time as short as any", f"{show(outcome.value['pieces'])} pieces")


LOSS_FACTORS: Final = HiddenCheck(
    blocked=(
        "shardbook.collectives.averaging:divisor",
        "shardbook.collectives.averaging:token_shares",
    ),
    probes=(
        Probe("unequal ranks", _unequal_ranks),
        Probe("accumulation", _accumulated),
        Probe("no tokens", _some_empty),
    ),
)

RING_COST: Final = HiddenCheck(
    blocked=(
        "shardbook.collectives.bandwidth:busbw",
        "shardbook.collectives.bandwidth:busbw_factor",
        "shardbook.collectives.bandwidth:ring_seconds",
        "shardbook.collectives.closed_form:all_reduce_cost",
        "shardbook.collectives.closed_form:_ring",
        "shardbook.collectives.measure:measure",
        "shardbook.collectives.step:step_traffic",
    ),
    probes=(
        Probe("rounds", _even_chunks, _entry("rounds")),
        Probe("bytes sent", _uneven_chunks, _entry("sent")),
        Probe("seconds", _uneven_chunks, _entry("seconds")),
        Probe("bus bandwidth", _even_chunks, _entry("busbw")),
        Probe("one rank", _one_chunk),
    ),
)

BEST_PIECES: Final = HiddenCheck(
    blocked=(
        "shardbook.collectives.measure:measure",
        "shardbook.collectives.ring:ring_broadcast",
    ),
    probes=(
        Probe("time", _small_messages, _reported),
        Probe("fastest", _small_messages, _fastest),
        Probe("limit", _limited, _within),
        Probe("no latency", _without_latency, _as_many),
        Probe("many pieces", _huge_messages, _as_many),
    ),
)
