"""A program of array operations that all ranks run in step: texts, read, run and counted.

``z = x @ up`` is done by each rank on arrays of its own; ``y = all_reduce(p)`` by all together. An
array always has two axes. Storage and wires are the engine's, so what is kept and sent is known.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.labs.handed_tensor_heads import (
    HeadCut,
    attend_heads,
    attend_heads_back,
    shape,
    sum_copies,
)
from shardbook.labs.values import Fault, show
from shardbook.training.splitting.wires import Exchange, Wires

Array = NDArray[Any]

FORWARD: Final = "forward"
BACKWARD: Final = "backward"

_MOST_OPERATIONS: Final = 400
_MOST_NUMBERS: Final = 1 << 16
_LONGEST: Final = 100
_EPSILON: Final = 1e-5
_NAME: Final = r"[a-z][a-z0-9_]{0,30}"
_MADE: Final = re.compile(rf"({_NAME}(?:, {_NAME}){{0,2}}) = (.*)", re.ASCII)
_BINARY: Final = re.compile(rf"({_NAME}(?:\.T)?) ([@+*/-]) ({_NAME}(?:\.T)?)", re.ASCII)
_CALL: Final = re.compile(rf"({_NAME})\(({_NAME}(?:, {_NAME}){{0,3}})\)", re.ASCII)


def gelu(z: Array) -> Array:
    """The GELU in its tanh form; source: Hendrycks and Gimpel, arXiv 1606.08415, section 2."""
    bent: Array = z * (1 + np.tanh(_inner(z))) / 2
    return bent


def gelu_slope(z: Array) -> Array:
    """The derivative of `gelu` at z."""
    bent = np.tanh(_inner(z))
    inside = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * z**2)
    slope: Array = (1 + bent + z * (1 - bent**2) * inside) / 2
    return slope


def _inner(z: Array) -> Array:
    inside: Array = np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)
    return inside


def norm(x: Array) -> Array:
    """Each row divided by the root of its mean square; source: Zhang and Sennrich, NeurIPS 2019."""
    return x / _root(x)


def norm_back(x: Array, gradient: Array) -> Array:
    """The gradient of x from that of norm(x)."""
    if x.shape != gradient.shape:
        raise ValueError(f"x is {shape(x)}, the gradient {shape(gradient)}")
    found = norm(x)
    back: Array = (gradient - found * (gradient * found).mean(axis=1, keepdims=True)) / _root(x)
    return back


def _root(x: Array) -> Array:
    root: Array = np.sqrt((x**2).mean(axis=1, keepdims=True) + _EPSILON)
    return root


_OF_ONE: Final[Mapping[str, Callable[[Array], Array]]] = {
    "gelu": gelu,
    "gelu_slope": gelu_slope,
    "exp": np.exp,
    "log": np.log,
    "norm": norm,
    "rowsum": lambda a: a.sum(axis=1, keepdims=True),
    "rowmax": lambda a: a.max(axis=1, keepdims=True),
    "colsum": lambda a: a.sum(axis=0, keepdims=True),
}
_OF_TWO: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}

_COLLECTIVES: Final = (
    *("all_reduce", "all_reduce_max", "reduce_scatter", "all_to_all", "sum_copies"),
    *("all_gather", "all_gather_columns"),
)
#: operation → how many arrays it takes and how many it makes
_COUNTS: Final = {
    **dict.fromkeys((*_OF_ONE, *_COLLECTIVES), (1, 1)),
    "norm_back": (2, 1),
    "attend": (3, 1),
    "attend_back": (4, 3),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """``made`` = ``kind`` of ``taken``; a taken name may end with .T."""

    text: str
    made: tuple[str, ...]
    kind: str
    taken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """What each rank holds: ``arrays``, of which ``weights`` are names, and ``arriving`` gradients.

    Gradients come between the two phases. ``heads`` tells whose heads are where, if there are any.
    """

    arrays: tuple[Mapping[str, Array], ...]
    weights: frozenset[str]
    arriving: tuple[Mapping[str, Array], ...]
    heads: HeadCut | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """What two phases left and did.

    ``after``: phase → each rank's arrays; ``made``: (phase, name) → the action, from 1, that made
    it last. ``kept``: the names that the backward read of what was there before it, weights left
    out. ``products``: phase → how many @.
    """

    after: Mapping[str, tuple[Mapping[str, Array], ...]]
    made: Mapping[tuple[str, str], int]
    exchanges: tuple[Exchange, ...]
    kept: tuple[str, ...]
    products: Mapping[str, int]


def read_phase(phase: str, value: Any) -> tuple[Operation, ...] | Fault:
    """Return the operations that a list of texts stands for, or what is wrong with it."""
    if not isinstance(value, (list, tuple)):
        return Fault(f"the {phase}", "a list of texts such as z = x @ up", show(value))
    if len(value) > _MOST_OPERATIONS:
        return Fault(f"the {phase}", "far fewer actions", f"{len(value):,}")
    operations = []
    for number, text in enumerate(value, start=1):
        operation = _read(text)
        if operation is None:
            wanted = "one operation of the table, such as z = x @ up"
            return Fault(f"{phase}, action {number}", wanted, show(text))
        operations.append(operation)
    return tuple(operations)


def _read(text: Any) -> Operation | None:
    match = _MADE.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    if not match:
        return None
    made = tuple(match[1].split(", "))
    if binary := _BINARY.fullmatch(match[2]):
        operation = Operation(text, made, binary[2], (binary[1], binary[3]))
        turned = any(name.endswith(".T") for name in operation.taken)
        return operation if len(made) == 1 and (binary[2] == "@" or not turned) else None
    if (call := _CALL.fullmatch(match[2])) and call[1] in _COUNTS:
        operation = Operation(text, made, call[1], tuple(call[2].split(", ")))
        fits = _COUNTS[call[1]] == (len(operation.taken), len(made))
        return operation if fits and len(set(made)) == len(made) else None
    return None


def run_phases(
    start: Start, forward: Sequence[Operation], backward: Sequence[Operation]
) -> Ran | Fault:
    """Run both phases on all ranks, or say which rank stopped at which action, and why."""
    wires = Wires(len(start.arrays))
    held = [dict(arrays) for arrays in start.arrays]
    made: dict[tuple[str, str], int] = {}
    after: dict[str, tuple[Mapping[str, Array], ...]] = {}
    products: dict[str, int] = {}
    kept: dict[str, None] = {}
    old: set[str] = set()
    for phase, operations in ((FORWARD, forward), (BACKWARD, backward)):
        wires.phase = phase
        products[phase] = sum(operation.kind == "@" for operation in operations)
        if phase == BACKWARD:
            own = {name for name in start.weights if (FORWARD, name) not in made}
            old = held[0].keys() - own
            for arrays, gradients in zip(held, start.arriving, strict=True):
                arrays.update(gradients)
                old -= gradients.keys()
        for number, operation in enumerate(operations, start=1):
            names = [name.removesuffix(".T") for name in operation.taken]
            kept.update(dict.fromkeys(name for name in names if name in old))
            where = f"{phase}, action {number}"
            with np.errstate(all="ignore"):  # overflow is a result here
                results = _run(operation, held, wires, start.heads, where)
            if isinstance(results, Fault):
                return replace(results, got=f"{operation.text}: {results.got}")
            for arrays, new in zip(held, results, strict=True):
                arrays.update(zip(operation.made, new, strict=True))
            old -= set(operation.made)
            made.update({(phase, name): number for name in operation.made})
        after[phase] = tuple(dict(arrays) for arrays in held)
    return Ran(after, made, tuple(wires.exchanges), tuple(kept), products)


def _run(
    operation: Operation,
    held: Sequence[Mapping[str, Array]],
    wires: Wires,
    heads: HeadCut | None,
    where: str,
) -> list[tuple[Array, ...]] | Fault:
    taken = []
    for rank, arrays in enumerate(held):
        row = []
        for name in operation.taken:
            array = arrays.get(name.removesuffix(".T"))
            if array is None:
                return Fault(f"rank {rank}, {where}", "arrays that are there", f"no {name}")
            row.append(array.T if name.endswith(".T") else array)
        taken.append(row)
    if heads is None and operation.kind in ("attend", "attend_back", "sum_copies"):
        return Fault(where, "an operation without heads", "there are none in this task")
    rank = 0
    try:
        if operation.kind in _COLLECTIVES:
            parts = [row[0] for row in taken]
            united = _collective(operation.kind, parts, wires, heads, f"{where}: {operation.text}")
            return [(array,) for array in united]
        results = []
        for rank, row in enumerate(taken):
            results.append(_on_rank(operation.kind, row, rank, heads))
    except ValueError as error:
        return Fault(f"rank {rank}, {where}", "arrays of fitting shapes", str(error))
    return results


def _on_rank(
    kind: str, arrays: Sequence[Array], rank: int, heads: HeadCut | None
) -> tuple[Array, ...]:
    if kind == "@":
        left, right = arrays
        if left.shape[1] != len(right):
            raise ValueError(f"{shape(left)} @ {shape(right)}")
        _check_size(len(left) * right.shape[1])
        return (left @ right,)
    if kind in _OF_TWO:
        left, right = arrays
        if any(a != b and 1 not in (a, b) for a, b in zip(left.shape, right.shape, strict=True)):
            raise ValueError(f"{shape(left)} {kind} {shape(right)}")
        _check_size(max(len(left), len(right)) * max(left.shape[1], right.shape[1]))
        return (_OF_TWO[kind](left, right),)
    if kind in _OF_ONE:
        return (_OF_ONE[kind](arrays[0]),)
    if kind == "norm_back":
        return (norm_back(*arrays),)
    assert heads
    _check_size(len(arrays[0]) ** 2 * len(heads.q[rank]))
    if kind == "attend":
        return (attend_heads(heads, rank, *arrays),)
    return attend_heads_back(heads, rank, *arrays)


def _collective(
    kind: str, parts: Sequence[Array], wires: Wires, heads: HeadCut | None, what: str
) -> list[Array]:
    if kind == "sum_copies":
        assert heads
        return sum_copies(heads, wires, what, parts)
    free = {"all_gather": 0, "all_gather_columns": 1}.get(kind)
    for rank, part in enumerate(parts):
        if any(part.shape[axis] != parts[0].shape[axis] for axis in (0, 1) if axis != free):
            raise ValueError(f"{shape(part)} on rank {rank}, {shape(parts[0])} on rank 0")
    if free is not None:
        _check_size(sum(part.size for part in parts))
        return wires.all_gather(what, parts, free)
    if kind == "reduce_scatter":
        return wires.reduce_scatter(what, parts)
    if kind == "all_to_all":
        _check_size(parts[0].size * len(parts))
        came = wires.all_to_all(what, [np.array_split(part, len(parts)) for part in parts])
        return [np.concatenate(row, axis=1) for row in came]
    summed = wires.all_reduce(what, parts)
    # A maximum travels as a sum does: the same plan, the same bytes.
    return [np.maximum.reduce(parts)] * len(parts) if kind == "all_reduce_max" else summed


def _check_size(numbers: int) -> None:
    if numbers > _MOST_NUMBERS:
        raise ValueError(f"the result would have {numbers:,} numbers, far too many")
