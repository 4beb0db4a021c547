"""DDP's gradient buckets: all-reduce in the shadow of the backward.

Source: Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3: gradients are bucketed in the
reverse order of the forward; a bucket is reduced once all of its gradients are there.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Final

from shardbook.errors import InputError, real, whole
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COMMUNICATION, Action, Plan, Run, simulate
from shardbook.schedules.timeline import exposed

MIB: Final = 2**20
#: PyTorch's defaults: `bucket_cap_mb`, and the first bucket, small so that reduction starts early
BUCKET: Final = 25 * MIB
FIRST_BUCKET: Final = 1 * MIB


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

    ``reducing``: all all-reduces together, s. ``tail``: from the end of the last backward to the
    end of the step, s. ``exposed``: communication while no rank computes, s.
    """

    run: Run
    buckets: tuple[tuple[int, ...], ...]
    reducing: float
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
    buckets, plan = _plan(tuple(layer.size for layer in layers), capacity, first, len(factors))
    seconds: list[float] = []
    for factor in factors:
        seconds += [layer.forward * factor for layer in layers]
        seconds += [layer.backward * factor for layer in reversed(layers)]
    reducing = [reduction.seconds(sum(layers[at].size for at in bucket)) for bucket in buckets]
    if share:
        seconds = _contended(seconds, reducing, buckets, len(factors), share)
    run = simulate(plan, seconds + reducing)
    computed = max(run.end_of(2 * len(layers) * rank - 1) for rank in range(1, len(factors) + 1))
    return BucketRun(run, buckets, sum(reducing), run.makespan, run.makespan - computed)


@lru_cache(maxsize=32)
def _plan(
    sizes: tuple[int, ...], capacity: int, first: int | None, ranks: int
) -> tuple[tuple[tuple[int, ...], ...], Plan]:
    """The buckets, and the step compiled once for all times: ranks' computing, then all-reduces."""
    buckets = fill_buckets(sizes, capacity, first)
    actions: list[Action] = []
    last: dict[int, list[int]] = {}
    for rank in range(ranks):
        name = f"rank {rank}"
        for at in range(len(sizes)):
            actions.append(Action(f"F{at}", name, 1, host=name))
        for at in reversed(range(len(sizes))):
            last.setdefault(at, []).append(len(actions))
            actions.append(Action(f"B{at}", name, 1, host=name))
    for at, bucket in enumerate(buckets):
        needs = tuple(last[bucket[-1]])
        actions.append(Action(f"AR{at}", "network", 1, needs, COMMUNICATION, "network"))
    return buckets, compile_plan(actions)


def _contended(
    seconds: list[float],
    reducing: list[float],
    buckets: tuple[tuple[int, ...], ...],
    ranks: int,
    share: float,
) -> list[float]:
    """What the ranks' actions take when an all-reduce slows what computes under it, s.

    In the order of the all-reduces: what a rank computes up to the last gradient of a bucket
    depends on the all-reduces before that bucket's only.
    """
    lengths = seconds.copy()
    a_rank, alone = len(seconds) // ranks, 1 - share
    clocks = [0.0] * ranks
    spans: list[tuple[float, float]] = []  # all-reduces without a pause between are one
    done, began, ended = 0, 0.0, 0.0
    for bucket, cost in zip(buckets, reducing, strict=True):
        complete = a_rank - bucket[-1]
        for rank, time in enumerate(clocks):
            for at in range(rank * a_rank + done, rank * a_rank + complete):
                if began <= time and seconds[at] <= (ended - time) * alone:
                    lengths[at] /= alone
                elif time < ended:
                    lengths[at] += share * _under(spans, time, seconds[at], share)
                time += lengths[at]
            clocks[rank] = time
        start = max(ended, *clocks)
        if spans and start == ended:
            spans.pop()
        else:
            began = start
        done, ended = complete, start + cost
        spans.append((began, ended))
    return lengths


def _under(spans: list[tuple[float, float]], since: float, work: float, share: float) -> float:
    """Seconds that these spans, in order, cover of an action that takes ``work`` s without them."""
    covered = 0.0
    for start, end in spans[bisect_right(spans, since, key=itemgetter(1)) :]:
        free = max(0.0, start - since)
        if free >= work:
            break
        under = min(end - max(start, since), (work - free) / (1 - share))
        covered += under
        work -= free + under * (1 - share)
        since = end
    return covered
