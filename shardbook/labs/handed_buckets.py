"""Gradient buckets handed in as lists of layers: checked, and timed by the engine."""

from collections.abc import Sequence
from typing import Any

from shardbook.labs.values import Fault, show
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COMMUNICATION, COMPUTE, Action, simulate


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
