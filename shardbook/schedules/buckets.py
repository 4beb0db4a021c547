"""DDP's gradient buckets: all-reduce in the shadow of the backward.

Source: Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3: gradients are bucketed in the
reverse order of the forward; a bucket is reduced once all of its gradients are there.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final

from shardbook.errors import InputError, real, whole
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COMMUNICATION, COMPUTE, Action, Plan, Run, simulate
from shardbook.schedules.timeline import exposed

MIB: Final = 2**20
#: PyTorch's defaults: `bucket_cap_mb`, and the first bucket, small so that reduction starts early
BUCKET: Final = 25 * MIB
FIRST_BUCKET: Final = 1 * MIB

_SETTLED: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its forward and backward (s) and the ``size`` of its gradient (B)."""

    forward: float
    backward: float
    size: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """The all-reduce, over all ranks: 2(N − 1)·(``latency`` + bytes/(N·``bandwidth``)), s."""

    ranks: int
    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        whole("ranks", self.ranks, 1, 2**20)
        real("latency", self.latency, 0, 1e6, "s")
        real("bandwidth", self.bandwidth, 1e-9, 1e30, "B/s")

    def seconds(self, size: int) -> float:
        """Time of one all-reduce of ``size`` bytes, s."""
        return 2 * (self.ranks - 1) * (self.latency + size / (self.ranks * self.bandwidth))


@dataclass(frozen=True, slots=True)
class BucketRun:
    """A step: ``buckets`` as layers in the order of the backward, and what is not hidden.

    ``tail``: from the end of the last backward to the end of the step, s. ``exposed``:
    communication while no rank computes, s.
    """

    run: Run
    buckets: tuple[tuple[int, ...], ...]
    makespan: float
    tail: float

    @property
    def exposed(self) -> float:
        """Computed when asked for."""
        return exposed(self.run)


def fill_buckets(
    sizes: Sequence[int], capacity: int = BUCKET, first: int | None = FIRST_BUCKET
) -> tuple[tuple[int, ...], ...]:
    """Put gradients of these sizes (B, in the order of the forward) into buckets (S66).

    From the last layer to the first; a bucket is closed as soon as it holds ``capacity`` bytes
    (the first bucket: ``first``, if given), so that it may hold more.
    """
    whole("capacity", capacity, 1, 2**63)
    limit = capacity if first is None else whole("first", first, 1, 2**63)
    buckets: list[tuple[int, ...]] = []
    bucket: list[int] = []
    held = 0
    for layer in reversed(range(len(sizes))):
        bucket.append(layer)
        held += whole("size", sizes[layer], 0, 2**63)
        if held >= limit:
            buckets.append(tuple(bucket))
            bucket, held, limit = [], 0, capacity
    if bucket:
        buckets.append(tuple(bucket))
    return tuple(buckets)


def ddp_step(
    layers: Sequence[Layer],
    reduction: Reduction,
    *,
    capacity: int = BUCKET,
    first: int | None = FIRST_BUCKET,
    slowdown: Sequence[float] = (1.0,),
    contention: float = 0.0,
) -> BucketRun:
    """Simulate one step of data parallelism (S66).

    ``slowdown``: how much longer each simulated rank computes; a bucket is reduced when every
    rank has its gradients, so the slowest sets the step. ``contention``: the share of a
    compute stream's speed that an all-reduce under it takes away, from 0 to 0.9.
    """
    if not layers:
        raise InputError("layers", layers, "give at least one layer")
    factors = [real("slowdown", factor, 1e-3, 1e3) for factor in slowdown]
    if not factors:
        raise InputError("slowdown", slowdown, "give a factor for at least one rank")
    share = real("contention", contention, 0, 0.9)
    buckets = fill_buckets([layer.size for layer in layers], capacity, first)
    plan = _plan(buckets, len(layers), len(factors))
    seconds = _seconds(layers, reduction, buckets, factors)
    run = simulate(plan, seconds)
    run = _contended(run, seconds, share) if share else run
    computed = [run.end_of(at) for at in range(len(seconds) - len(buckets))]
    return BucketRun(run, buckets, run.makespan, run.makespan - max(computed))


@lru_cache(maxsize=32)
def _plan(buckets: tuple[tuple[int, ...], ...], layers: int, ranks: int) -> Plan:
    """The step, compiled once for all times: the ranks' computing, then the all-reduces."""
    actions: list[Action] = []
    last: dict[int, list[int]] = {}
    for rank in range(ranks):
        name = f"rank {rank}"
        for at in range(layers):
            actions.append(Action(f"F{at}", name, 1, host=name))
        for at in reversed(range(layers)):
            last.setdefault(at, []).append(len(actions))
            actions.append(Action(f"B{at}", name, 1, host=name))
    for at, bucket in enumerate(buckets):
        needs = tuple(last[bucket[-1]])
        actions.append(Action(f"AR{at}", "network", 1, needs, COMMUNICATION, "network"))
    return compile_plan(actions)


def _seconds(
    layers: Sequence[Layer],
    reduction: Reduction,
    buckets: tuple[tuple[int, ...], ...],
    factors: list[float],
) -> list[float]:
    """What each action of the plan takes, s."""
    seconds: list[float] = []
    for factor in factors:
        seconds += [layer.forward * factor for layer in layers]
        seconds += [layer.backward * factor for layer in reversed(layers)]
    for bucket in buckets:
        seconds.append(reduction.seconds(sum(layers[layer].size for layer in bucket)))
    return seconds


def _contended(run: Run, base: list[float], share: float) -> Run:
    """Lengthen what computes under an all-reduce, until nothing changes.

    What happens up to a time depends on earlier times only, and an error in an action's length
    shrinks by ``share`` a pass: this ends.
    """
    network, computing = (
        [at for at, action in enumerate(run.plan.actions) if action.kind == kind]
        for kind in (COMMUNICATION, COMPUTE)
    )
    lengths = base
    while True:
        before, lengths = lengths, base.copy()
        busy_until = _busy_until([(run.start_of(at), run.end_of(at)) for at in network])
        for at in computing:
            end = run.end_of(at)
            lengths[at] += share * (busy_until(end) - busy_until(end - before[at]))
        run = simulate(run.plan, lengths)
        if max(abs(a - b) for a, b in zip(lengths, before, strict=True)) <= _SETTLED * run.makespan:
            return run


def _busy_until(spans: list[tuple[float, float]]) -> Callable[[float], float]:
    """How long these spans, in order, have lasted in all at a time."""
    since = [start for start, _ in spans]
    before = list(accumulate((end - start for start, end in spans), initial=0.0))

    def busy_until(time: float) -> float:
        at = bisect_right(since, time)
        return before[at] - max(0.0, spans[at - 1][1] - time) if at else 0.0

    return busy_until
