"""Averaging gradients as PyTorch's DDP and FSDP2 do over gloo, to the bit.

Both sum with gloo's ring; they differ in the layout of the vector, which decides the order in
which an element's terms are added, and in how they divide by the number of ranks.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.ring import gloo_sizes, ring_all_reduce
from shardbook.collectives.run import run_on_vectors
from shardbook.errors import one_of
from shardbook.training.flat import flat_units, padded

Array = NDArray[Any]
_Scale = Callable[[Array, int], Array]


def _as_is(vector: Array, ranks: int) -> Array:
    return vector


def _multiply(vector: Array, ranks: int) -> Array:
    product: Array = vector * (1 / np.array(ranks, vector.dtype))
    return product


def _divide(vector: Array, ranks: int) -> Array:
    quotient: Array = vector / np.array(ranks, vector.dtype)
    return quotient


#: how to divide by the number of ranks → (before the sum, after the sum)
DIVISIONS: Final[dict[str, tuple[_Scale, _Scale]]] = {
    "multiply-before": (_multiply, _as_is),
    "divide-before": (_divide, _as_is),
    "multiply-after": (_as_is, _multiply),
    "divide-after": (_as_is, _divide),
}


def average(vectors: Sequence[Array], division: str) -> Array:
    """Return the ranks' average [n], summed with gloo's ring and divided as ``division`` says.

    All four divisions give the same bits if the number of ranks is a power of two and nothing
    is subnormal. Raises InputError for an unknown division.
    """
    before, after = DIVISIONS[one_of("division", division, DIVISIONS)]
    ranks = len(vectors)
    sizes = gloo_sizes(len(vectors[0]), vectors[0].itemsize, ranks)
    plan = ring_all_reduce(ranks, sizes, direction=-1)
    return after(run_on_vectors(plan, [before(vector, ranks) for vector in vectors])[0], ranks)


def ddp(
    local: Sequence[Array],
    layers: tuple[int, ...],
    *,
    rebuilt: bool = True,
    division: str = "multiply-before",
) -> Array:
    """Return the average of the ``local`` flat gradients [Ψ] as DDP with one bucket makes it.

    In the first step the bucket holds the parameters in forward order, from the second one on
    (``rebuilt``) in the reverse order, the one in which their gradients become ready.
    """
    places = np.arange(len(local[0]))
    order = np.concatenate(np.split(places, _parameter_starts(layers))[::-1]) if rebuilt else places
    result = np.empty_like(local[0])
    result[order] = average([vector[order] for vector in local], division)
    return result


def fsdp2(
    local: Sequence[Array], layers: tuple[int, ...], *, division: str = "divide-after"
) -> Array:
    """Return the average of the ``local`` flat gradients [Ψ] as FSDP2, one unit a layer, makes it.

    Each parameter's rows are padded to a multiple of the ranks and cut into as many pieces; the
    unit's buffer holds piece 0 of the weight, piece 0 of the bias, piece 1 of the weight, ….
    """
    ranks = len(local)
    results = []
    start = 0
    for unit in flat_units(layers, 1):
        places = np.arange(unit.elements)
        # The buffer's element i comes from the unit's element order[i]; −1 is padding.
        tables = [_piece_table(view, ranks) for view in unit.views(places)]
        order = np.concatenate([table[i] for i in range(ranks) for table in tables])
        own = [vector[start : start + unit.elements] for vector in local]
        buffers = [np.where(order < 0, vector.dtype.type(0), vector[order]) for vector in own]
        result = np.empty(unit.elements, local[0].dtype)
        result[order[order >= 0]] = average(buffers, division)[order >= 0]
        results.append(result)
        start += unit.elements
    return np.concatenate(results)


def _parameter_starts(layers: tuple[int, ...]) -> list[int]:
    """Where each parameter but the first begins: weight, bias, weight, bias, …."""
    sizes = [view.size for u in flat_units(layers, 1) for view in u.views(np.empty(u.elements))]
    return [int(start) for start in np.cumsum(sizes)[:-1]]


def _piece_table(places: Array, ranks: int) -> Array:
    """Pad the rows of a parameter's places with −1 and return one row of places per piece."""
    rows = places.reshape(len(places), -1)
    table = np.full((padded(len(rows), ranks), rows.shape[1]), -1)
    table[: len(rows)] = rows
    return table.reshape(ranks, -1)
