"""A proved lower bound for pp.3: no order of F, I and W actions is shorter.

The proofs stand in the text of the lab.
"""

from shardbook.errors import InputError, real, whole


def lower_bound(
    stages: int, micro_batches: int, times: tuple[float, float, float], limit: int
) -> float:
    """Return the bound, s, for stages that hold at most ``limit`` micro-batches each.

    ``times``: seconds of a stage's forward, backward for the input and backward for the weights.
    A bad value raises `InputError`.
    """
    whole("stages", stages, 1, 4096)
    whole("micro-batches", micro_batches, 1, 10**6)
    whole("limit", limit, 1, 10**6)
    if len(times) != 3:
        raise InputError("times", times, "give three times: forward, input and weights")
    forward, inputs, weights = (real("times", value, 0, 1e12, "s") for value in times)
    work = micro_batches * (forward + inputs + weights)
    held = stages * (forward + inputs) + weights
    return max(
        (stages - 1) * forward + work,
        stages * forward + (stages - 1) * inputs + work - min(limit, micro_batches) * forward,
        (stages - 1 + micro_batches) * (forward + inputs)
        + (max(0, micro_batches - limit) + 1) * weights,
        -(-micro_batches // limit) * held + (micro_batches - 1) % limit * forward,
    )
