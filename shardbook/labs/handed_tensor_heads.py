"""Attention heads on ranks, handed in as plain data: which rank has which, and what each computes.

Query head g uses key/value head g // group: grouped-query attention. Source: Ainslie et al., "GQA",
EMNLP 2023. A key/value head that several ranks need is on each of them: those are its copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.labs.values import Fault, show
from shardbook.training.splitting.blocks import attend, attend_backward
from shardbook.training.splitting.wires import Exchange, Wires

Array = NDArray[Any]

#: numbers of a head
HEAD_SIZE: Final = 2


@dataclass(frozen=True, slots=True)
class HeadCut:
    """Each rank's query heads and key/value heads; ``group`` query heads share one of the latter."""

    q: tuple[tuple[int, ...], ...]
    kv: tuple[tuple[int, ...], ...]
    group: int


def read_heads(value: Any, heads: int, kv_heads: int, ranks: int) -> HeadCut | Fault:
    """Return the cut that ``value['q']`` and ``value['kv']`` stand for, or what is wrong.

    Every query head must be on one rank, and what it uses on the same one.
    """
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    lists: dict[str, list[tuple[int, ...]]] = {"q": [], "kv": []}
    for key, count in (("q", heads), ("kv", kv_heads)):
        rows = value.get(key)
        if not isinstance(rows, (list, tuple)) or len(rows) != ranks:
            return Fault(f"result['{key}']", "a list with one list for each rank", show(rows))
        for rank, row in enumerate(rows):
            if not _are_heads(row, count):
                wanted = f"a list of heads from 0 to {count - 1}, none twice"
                return Fault(f"rank {rank}, '{key}'", wanted, show(row))
            lists[key].append(tuple(row))
    group = heads // kv_heads
    placed = [head for row in lists["q"] for head in row]
    for head in range(heads):
        if placed.count(head) != 1:
            return Fault(f"query head {head}", "on one rank", f"on {placed.count(head)}")
    for rank, (q, kv) in enumerate(zip(lists["q"], lists["kv"], strict=True)):
        for head in q:
            if head // group not in kv:
                wanted = "the key/value head it uses on the same rank"
                return Fault(f"rank {rank}, query head {head}", wanted, f"only {show(list(kv))}")
    return HeadCut(tuple(lists["q"]), tuple(lists["kv"]), group)


def _are_heads(row: Any, count: int) -> bool:
    if not isinstance(row, (list, tuple)) or not 1 <= len(row) <= count:
        return False
    return all(type(head) is int and 0 <= head < count for head in row) and len(set(row)) == len(
        row
    )


def unequal_heads(cut: HeadCut) -> Fault | None:
    """Say which rank has more or fewer query heads than another, or key/value heads for nothing."""
    share = sum(map(len, cut.q)) // len(cut.q)
    for rank, (q, kv) in enumerate(zip(cut.q, cut.kv, strict=True)):
        if len(q) != share:
            return Fault(f"rank {rank}", "an equal share of the query heads", f"{len(q)}")
        idle = [head for head in kv if head not in {number // cut.group for number in q}]
        if idle:
            where = f"rank {rank}, key/value head {idle[0]}"
            return Fault(where, "a query head of this rank that uses it", "none")
        fewest = max(1, -(-share // cut.group))
        if len(kv) > fewest:
            where = f"rank {rank}, its key/value heads"
            return Fault(where, "fewer, with other query heads", f"{len(kv)}")
    return None


def columns_of(row: Sequence[int]) -> list[int]:
    """The columns of these heads in a weight with all of them."""
    return [head * HEAD_SIZE + place for head in row for place in range(HEAD_SIZE)]


def attend_heads(cut: HeadCut, rank: int, q: Array, k: Array, v: Array) -> Array:
    """Return a rank's attention, as wide as its q; a wrong width raises ValueError."""
    return _flat(attend(*_by_query(cut, rank, q, k, v))[0])


def attend_heads_back(
    cut: HeadCut, rank: int, q: Array, k: Array, v: Array, gradient: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v; a wrong shape raises ValueError."""
    if gradient.shape != q.shape:
        raise ValueError(f"q is {shape(q)}, the gradient {shape(gradient)}")
    by_query = _by_query(cut, rank, q, k, v)
    through = _heads(gradient, len(cut.q[rank]), HEAD_SIZE)
    found = attend_backward(*by_query, attend(*by_query)[1], through)
    places = _places(cut, rank)
    shared = []
    for by_head in found[1:]:
        summed = np.zeros((len(cut.kv[rank]), *by_head.shape[1:]))
        np.add.at(summed, places, by_head)
        shared.append(_flat(summed))
    return _flat(found[0]), shared[0], shared[1]


def _by_query(cut: HeadCut, rank: int, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Each [query heads, t, size], with the keys and values that each query head uses."""
    places = _places(cut, rank)
    rows = len(q)
    for name, array, heads in (
        ("q", q, cut.q[rank]),
        ("k", k, cut.kv[rank]),
        ("v", v, cut.kv[rank]),
    ):
        if array.shape != (rows, len(heads) * HEAD_SIZE):
            raise ValueError(f"{name} is {shape(array)}, for {len(heads)} heads of {HEAD_SIZE}")
    keys, values = (_heads(array, len(cut.kv[rank]), HEAD_SIZE)[places] for array in (k, v))
    return _heads(q, len(cut.q[rank]), HEAD_SIZE), keys, values


def _places(cut: HeadCut, rank: int) -> list[int]:
    return [cut.kv[rank].index(head // cut.group) for head in cut.q[rank]]


def _heads(array: Array, heads: int, size: int) -> Array:
    return array.reshape(len(array), heads, size).swapaxes(0, 1)


def _flat(array: Array) -> Array:
    return array.swapaxes(0, 1).reshape(array.shape[1], -1)


def shape(array: Array) -> str:
    """Write a shape as a reader says it."""
    return f"{len(array)} × {array.shape[1]}"


def sum_copies(cut: HeadCut, wires: Wires, what: str, parts: Sequence[Array]) -> list[Array]:
    """Sum each key/value head's columns over the ranks that have a copy of it.

    ``wires`` logs it as one exchange, ``sum_copies``. A wrong shape raises ValueError.
    """
    for part, kv in zip(parts, cut.kv, strict=True):
        if part.shape != (len(parts[0]), len(kv) * HEAD_SIZE):
            raise ValueError(f"{shape(part)}, for {len(kv)} heads of {HEAD_SIZE}")
    summed = [part.copy() for part in parts]
    sent = [0] * len(parts)
    for head in sorted({head for kv in cut.kv for head in kv}):
        holders = [rank for rank, kv in enumerate(cut.kv) if head in kv]
        places = {rank: cut.kv[rank].index(head) * HEAD_SIZE for rank in holders}
        pieces = [parts[rank][:, places[rank] : places[rank] + HEAD_SIZE] for rank in holders]
        links = Wires(holders)
        for rank, total in zip(holders, links.all_reduce(what, pieces), strict=True):
            summed[rank][:, places[rank] : places[rank] + HEAD_SIZE] = total
        for rank, count in zip(holders, links.sent(), strict=True):
            sent[rank] += count
    if any(sent):
        wires.exchanges.append(Exchange(wires.phase, "sum_copies", what, tuple(sent)))
    return summed
