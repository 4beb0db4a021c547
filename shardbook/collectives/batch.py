"""The global batch: micro-batch × accumulation × data-parallel replicas, never × all ranks."""

from math import prod

from shardbook.errors import InputError, whole

MOST = 1 << 40


def data_replicas(ranks: int, **model_parallel: int) -> int:
    """Return how many replicas see different data: the ranks over the model-parallel ones.

    ``model_parallel``: degrees that split one replica, such as ``tensor=4, pipeline=2``.
    Raises InputError if these do not divide the ranks.

    (S60, S62)
    """
    total = whole("ranks", ranks, 1, MOST)
    one = prod(whole(name, degree, 1, MOST) for name, degree in model_parallel.items())
    if total % one:
        degrees = " × ".join(f"{name} {degree}" for name, degree in model_parallel.items())
        raise InputError("ranks", total, f"give a multiple of {degrees} = {one:,}")
    return total // one


def global_batch(micro_batch: int, accumulation: int, replicas: int) -> int:
    """Return the samples of one update: micro-batch × accumulation × replicas (S62).

    Raises InputError.
    """
    return (
        whole("micro-batch", micro_batch, 1, MOST)
        * whole("accumulation", accumulation, 1, MOST)
        * whole("replicas", replicas, 1, MOST)
    )
