"""Hidden checks of offload.4 and offload.5: bandwidth, and layers that stream through two memories.

The engine knows one link and a depth in layers only. How short a pass can be comes from the
reference; plans are handed in as data and run by the engine.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_layers import Layer, run_layers
from shardbook.labs.values import Fault
from shardgrade.checks.judging import Case, HiddenCheck, Probe
from shardgrade.checks.offload_graphs import entries

_NAMES: Final = ("nvme", "pcie", "network", "cxl", "disk")


def _links(rng: Random, count: int) -> list[tuple[str, float, float]]:
    return [
        (name, rng.uniform(1, 40) * 1e9, rng.uniform(3, 90) * 1e9)
        for name in rng.sample(_NAMES, k=count)
    ]


def _step(rng: Random, seconds: float) -> tuple[float, float]:
    """FLOP and FLOP/s whose quotient is ``seconds``."""
    peak = rng.uniform(40, 400) * 1e12
    return seconds * peak, peak


def _slowest(links: list[tuple[str, float, float]]) -> float:
    return max(size / bandwidth for _, size, bandwidth in links)


def _in_turn(rng: Random) -> Iterable[Case]:
    for count in (1, 2, 3, 2):
        links = _links(rng, count)
        yield (*_step(rng, rng.uniform(0.1, 9)), links, False, 0.5)


def _beside(rng: Random) -> Iterable[Case]:
    for share in (0.3, 3.0, 0.8, 1.5):
        links = _links(rng, rng.randint(1, 3))
        yield (*_step(rng, share * _slowest(links)), links, True, 0.5)


def _which_is_slow(rng: Random) -> Iterable[Case]:
    """A link with the least bandwidth and little to carry; every other time the compute."""
    for share in (0.5, 1.3, 0.7, 2.0, 0.4, 0.6):
        _, *links = _links(rng, 3)
        small = min(bandwidth for _, _, bandwidth in links)
        links.insert(rng.randint(0, 2), ("bus", 0.01 * small * _slowest(links), small / 2))
        yield (*_step(rng, share * _slowest(links)), links, rng.random() < 0.5, 0.5)


def _within_reach(rng: Random) -> Iterable[Case]:
    for overlapped in (True, False, True, False, True, False):
        links = _links(rng, rng.randint(1, 3))
        wanted = rng.choice((0.5, 0.8, 0.9))
        times = sum(size / bandwidth for _, size, bandwidth in links)
        compute = _slowest(links) if overlapped else 2 * times * wanted / (1 - wanted)
        yield (*_step(rng, compute), links, overlapped, wanted)


def _out_of_reach(rng: Random) -> Iterable[Case]:
    for overlapped, slow in ((False, 1), (False, 1), (True, 2)):
        links = [
            (name, 3e12, 1e9) if place < slow else (name, size, bandwidth)
            for place, (name, size, bandwidth) in enumerate(_links(rng, 3))
        ]
        yield (*_step(rng, rng.uniform(1, 9)), links, overlapped, 0.9)


def _layers(rng: Random, count: int, least: int = 1) -> list[Layer]:
    return [
        (rng.randint(least, least + 9), *(float(rng.randint(1, 9)) for _ in range(3)))
        for _ in range(count)
    ]


def _largest(layers: list[Layer]) -> int:
    return max(layer[0] for layer in layers)


def _few_layers(rng: Random) -> Iterable[Case]:
    yield _layers(rng, 1), 10, 10
    for count in (1, 2, 5, 9):
        layers = _layers(rng, count)
        most = _largest(layers)
        yield layers, most, most
        yield layers, most + rng.randint(0, 9), most + rng.randint(0, 9)


def _no_place(rng: Random) -> Iterable[Case]:
    """Two layers fit on the GPU now and then, but never one beside the largest."""
    for count in (4, 7, 10, 12):
        layers = [*_layers(rng, count, 3), (13 + count % 3, 2.0, 3.0, 4.0)]
        rng.shuffle(layers)
        most = _largest(layers)
        least = min(layer[0] for layer in layers)
        yield layers, most + rng.randint(4, 2 * most), most + least - 1
    # While a large layer computes for long, many small ones fit into host memory.
    small = [(rng.randint(3, 5), float(rng.randint(2, 4)), 1.0, 1.0) for _ in range(9)]
    yield [(13, 1.0, 1.0, 25.0), *small], 39, 15


def _up_to_seven(rng: Random) -> Iterable[Case]:
    for count in (3, 5, 6, 7, 7):
        layers = _layers(rng, count)
        most, total = _largest(layers), sum(layer[0] for layer in layers)
        yield layers, most + rng.randint(0, most), most + rng.randint(total // 4, total // 2)


def _up_to_twenty(rng: Random) -> Iterable[Case]:
    for count in (13, 16, 20):
        layers = _layers(rng, count, 4)
        most, total = _largest(layers), sum(layer[0] for layer in layers)
        yield layers, 2 * most, most + total // 4


def _passes(more: float | None) -> Callable[[Case, Any, Outcome], Fault | None]:
    """The plan runs and fits; ``more``: by how much the pass may be longer than the expected's."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        run = run_layers(*case, outcome.value)
        if isinstance(run, Fault) or more is None:
            return run if isinstance(run, Fault) else None
        best = run_layers(*case, expected)
        if isinstance(best, Fault) or run.makespan <= best.makespan * (1 + more) + 1e-9:
            return None
        return Fault("the pass", "a shorter one", f"{run.makespan:g} s")

    return judge


_BANDWIDTH: Final = "shardbook.planner.bandwidth"

THROUGH_LINKS: Final = HiddenCheck(
    blocked=(
        f"{_BANDWIDTH}:intensity",
        f"{_BANDWIDTH}:efficiency",
        f"{_BANDWIDTH}:required_bandwidth",
    ),
    probes=(
        Probe("one after the other", _in_turn, entries("efficiency")),
        Probe("side by side", _beside, entries("efficiency")),
        Probe("the slowest", _which_is_slow, entries("slowest")),
        Probe("bandwidth needed", _within_reach, entries("needed")),
        Probe("never enough", _out_of_reach, entries("needed")),
    ),
)

STREAM: Final = HiddenCheck(
    blocked=(),
    probes=(
        Probe("runs and fits", _few_layers, _passes(None)),
        Probe("as early as memory allows", _no_place, _passes(0.0)),
        Probe("what to keep", _up_to_seven, _passes(0.0)),
        Probe("many layers", _up_to_twenty, _passes(0.03)),
    ),
)
