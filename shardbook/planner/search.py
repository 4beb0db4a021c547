"""All layouts of a model on a cluster, judged by memory and closed form: tens of thousands at once.

The loops follow what depends on what. Degrees fix how parameters are dealt out; a micro-batch, a
schedule and a recomputation fix activations and compute; stage and offload fix states and what is
waited for. So most layouts cost one sum for memory and one for time, and become a `Layout` only if
somebody asks. They are those of `layouts`, in its order.
"""

import math
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from shardbook.ledger.activations import RECOMPUTE
from shardbook.planner.layouts import (
    Layout,
    Limits,
    choices,
    degrees,
    powers_of_two,
    refused,
    sharding_complexity,
    shardings,
)
from shardbook.planner.memory import (
    States,
    activations,
    no_room_beside,
    no_room_on_card,
    states,
)
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.steptime import Exchange, Pass, exchange, one_pass, own_parameters, sharded

#: step times within this part of each other count as equal
TIE: Final = 0.02
_STEP: Final = math.log1p(TIE)

#: tensor, context, expert, pipeline, data, stage, recomputation, micro-batch, schedule, chunks,
#: offload: the arguments of a `Layout`
Choices = tuple[int, int, int, int, int, int, str, int, str, int, str]
#: how a layout ranks: time in steps of `TIE`, complexity, time in s, when it was found
Rank = tuple[int, int, float, int]


@dataclass(slots=True)
class Reason:
    """How many layouts fail for a reason, and the one of them that needs fewest B."""

    count: int
    nearest_bytes: int
    nearest: Choices


@dataclass(slots=True)
class Found:
    """What a search has found: the layouts that fit, with their rank, and why the others don't."""

    considered: int = 0
    fitting: list[tuple[Rank, Choices]] = field(default_factory=list)
    reasons: dict[str, Reason] = field(default_factory=dict)

    def best(self, count: int) -> list[Layout]:
        """The ``count`` best that fit, best first."""
        return [Layout(*made) for _, made in nsmallest(count, self.fitting)]

    def reject(self, reason: str, made: Choices, size: int = 0, count: int = 1) -> None:
        """Count layouts that fail for ``reason``; ``size``: B that they need, if known."""
        known = self.reasons.get(reason)
        if known is None:
            self.reasons[reason] = Reason(count, size, made)
            return
        known.count += count
        if size < known.nearest_bytes:
            known.nearest_bytes, known.nearest = size, made


def rank(seconds: float, complexity: int, found: int = 0) -> Rank:
    """Return a layout's place: by time, but the simplest first where times nearly tie."""
    return math.floor(math.log(seconds) / _STEP), complexity, seconds, found


def search(model: Model, cluster: Cluster, limits: Limits, recipe: str) -> Found:
    """Judge all layouts (S71).

    Raises:
        InputError: an unknown recipe.
    """
    found = Found()
    for tensor, context, expert, pipeline in degrees(model, cluster, limits):
        data = cluster.size // (tensor * context * pipeline)
        pairs = shardings(cluster, limits, data * context)
        if not pairs:
            continue
        held: dict[int, _Shardings] = {}
        for micro_batch in powers_of_two(limits.most_micro_batch):
            for schedule, chunks in choices(limits, pipeline):
                one = Layout(
                    tensor, context, expert, pipeline, data, pairs[0][0], limits.recompute[0],
                    micro_batch, schedule, chunks, pairs[0][1],
                )  # fmt: skip
                reason = refused(model, cluster, one)
                if reason is not None:
                    found.considered += len(pairs)
                    found.reject(reason, _made(one), count=len(pairs))
                    continue
                if chunks not in held:
                    held[chunks] = _shardings(model, cluster, one, pairs, recipe)
                _judge(found, model, cluster, limits, one, held[chunks])
    return found


@dataclass(frozen=True, slots=True)
class _Shardings:
    """What stage and offload decide, the same for all micro-batches and recomputations.

    ``each``: stage, offload, states, complexity.
    """

    moved: Exchange
    own: float
    each: list[tuple[int, str, States, int]]


def _shardings(
    model: Model, cluster: Cluster, layout: Layout, pairs: list[tuple[int, str]], recipe: str
) -> _Shardings:
    each = []
    for stage, offload in pairs:
        held = states(model, layout, stage, offload, recipe)
        more = sharding_complexity(stage, offload, layout.replicas)
        each.append((stage, offload, held, more))
    return _Shardings(exchange(model, cluster, layout), own_parameters(model, layout), each)


def _judge(
    found: Found, model: Model, cluster: Cluster, limits: Limits, one: Layout, held: _Shardings
) -> None:
    """Judge ``one`` with each stage, offload and recomputation."""
    room, replicas = cluster.card.memory * limits.usable, one.replicas
    before, after = _made(one)[:5], _made(one)[7:10]
    plain = one.complexity - sharding_complexity(one.stage, one.offload, replicas)
    plain -= RECOMPUTE.index(one.recompute)
    used = {
        (offload, recompute): activations(model, one, recompute, offload)
        for offload in dict.fromkeys(offload for _, offload, _, _ in held.each)
        for recompute in limits.recompute
    }
    passes: dict[str, Pass] = {}
    add = found.fitting.append
    for stage, offload, kept, more in held.each:
        for recompute in limits.recompute:
            found.considered += 1
            made = (*before, stage, recompute, *after, offload)
            part = used[offload, recompute]
            reason = no_room_on_card(room, kept, part) or no_room_beside(cluster, kept, part)
            if reason is not None:
                found.reject(reason, made, kept.card.bytes + part.card.bytes)
                continue
            done = passes.get(recompute)
            if done is None:
                done = one_pass(model, cluster, Layout(*before, stage, recompute, *after))
                passes[recompute] = done
            data, away = sharded(cluster, held.moved, held.own, done, stage, offload, replicas)
            complexity = plain + more + RECOMPUTE.index(recompute)
            add((rank(done.base_seconds + data + away, complexity, len(found.fitting)), made))


def _made(layout: Layout) -> Choices:
    return (
        layout.tensor, layout.context, layout.expert, layout.pipeline, layout.data, layout.stage,
        layout.recompute, layout.micro_batch, layout.schedule, layout.chunks, layout.offload,
    )  # fmt: skip
