"""Run a plan on numpy arrays, in the plan's own summation order. Needs numpy.

Nothing is changed in place: a sum is a new array, so an array seen by a callback stays as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.plan import Plan, Transfer
from shardbook.errors import InputError

Array = NDArray[Any]
#: called with the number of the round (from 0), the transfer, and the array that is sent
OnTransfer = Callable[[int, Transfer, Array], None]


def run(
    plan: Plan, held: Sequence[Mapping[int, Array]], on_transfer: OnTransfer | None = None
) -> list[dict[int, Array]]:
    """Run ``plan`` and return which chunks each rank then holds (S19).

    ``held[i]`` maps chunk to a 1-D array for the i-th rank of ``plan.ranks``. Arrays of a round
    are read as they were when it began; sums into one chunk follow the order of the round's
    transfers. Raises InputError if a rank sends, or adds to, a chunk it does not hold.
    """
    at = {rank: dict(chunks) for rank, chunks in zip(plan.ranks, held, strict=True)}
    for number, transfers in enumerate(plan.rounds):
        sent = [_held(at, move.source, move) for move in transfers]
        for move, array in zip(transfers, sent, strict=True):
            if on_transfer is not None:
                on_transfer(number, move, array)
            if move.add:
                array = _held(at, move.target, move) + array
            elif move.target not in at:
                raise InputError("plan", str(move), f"rank {move.target} does not take part")
            at[move.target][move.chunk] = array
    return [at[rank] for rank in plan.ranks]


def run_on_vectors(
    plan: Plan, vectors: Sequence[Array], on_transfer: OnTransfer | None = None
) -> list[Array]:
    """Run ``plan`` on one 1-D array per rank and return one per rank.

    ``vectors[i]`` has the chunks that the i-th rank of ``plan.ranks`` is a source of, one behind
    the other (all-reduce and reduce-scatter: the full vector; all-gather: its shard; a rank that
    holds nothing: an empty array); the result likewise has the chunks it is a target of. All
    arrays must have one dtype. Raises InputError for another length, dtype or dimension.
    """
    if len(vectors) != len(plan.ranks):
        raise InputError("vectors", len(vectors), f"give {len(plan.ranks)} arrays, one per rank")
    dtype = vectors[0].dtype
    if any(vector.dtype != dtype for vector in vectors):
        shown = ", ".join(str(vector.dtype) for vector in vectors)
        raise InputError("vectors", shown, "give arrays of one dtype")
    starting, ending = chunks_by_rank(plan)
    held = [
        cut(plan, starting[rank], vector) for rank, vector in zip(plan.ranks, vectors, strict=True)
    ]
    after = run(plan, held, on_transfer)
    nothing = np.empty(0, dtype)
    return [
        np.concatenate([nothing, *(chunks[chunk] for chunk in ending[rank])])
        for rank, chunks in zip(plan.ranks, after, strict=True)
    ]


def chunks_by_rank(plan: Plan) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return the chunks each rank starts with, and those it must end with."""
    starting: dict[int, list[int]] = {rank: [] for rank in plan.ranks}
    ending: dict[int, list[int]] = {rank: [] for rank in plan.ranks}
    for number, chunk in enumerate(plan.chunks):
        for rank in chunk.sources:
            starting[rank].append(number)
        for rank in chunk.targets:
            ending[rank].append(number)
    return starting, ending


def cut(plan: Plan, numbers: Sequence[int], vector: Array) -> dict[int, Array]:
    """Cut a 1-D array into views, one for each chunk numbered in ``numbers``."""
    total = sum(plan.chunks[number].size for number in numbers)
    if vector.shape != (total,):
        raise InputError("vector", vector.shape, f"give a 1-D array of {total:,} elements")
    views = {}
    start = 0
    for number in numbers:
        end = start + plan.chunks[number].size
        views[number] = vector[start:end]
        start = end
    return views


def _held(at: Mapping[int, Mapping[int, Array]], rank: int, move: Transfer) -> Array:
    if move.chunk not in at.get(rank, {}):
        raise InputError("plan", str(move), f"rank {rank} does not hold chunk {move.chunk}")
    return at[rank][move.chunk]
