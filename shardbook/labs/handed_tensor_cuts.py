"""The cut of a linear handed in as plain data: read, run and compared with one device.

A cut is a dict. ``input``: for each rank the columns of x it is given, (start, stop). ``weight``:
for each rank a list of blocks of the weight, (row start, row stop, column start, column stop).
``output``: ``join`` or ``sum``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.labs.values import Fault, kind_of, show

Array = NDArray[Any]
Range = tuple[int, int]
#: row start, row stop, column start, column stop
Block = tuple[int, int, int, int]

JOIN: Final = "join"
SUM: Final = "sum"
_MOST_BLOCKS: Final = 200
_TOKENS: Final = 2


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut of a weight [rows, columns]: input ranges and blocks by rank, how outputs unite."""

    rows: int
    columns: int
    inputs: tuple[Range, ...]
    blocks: tuple[tuple[Block, ...], ...]
    output: str

    def owned(self, rank: int) -> Array:
        """How often ``rank`` holds each number of the weight, [rows, columns]."""
        count = np.zeros((self.rows, self.columns), int)
        for top, bottom, left, right in self.blocks[rank]:
            count[top:bottom, left:right] += 1
        return count


def read_cut(value: Any, rows: int, columns: int, ranks: int) -> Cut | Fault:
    """Return the cut that plain data stands for, or what is wrong with the data."""
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    for key in ("input", "weight", "output"):
        if key not in value:
            return Fault("result", f"an entry '{key}'", "none")
    for key in ("input", "weight"):
        if not isinstance(value[key], (list, tuple)) or len(value[key]) != ranks:
            return Fault(
                f"result['{key}']", "a list with one entry for each rank", show(value[key])
            )
    if value["output"] not in (JOIN, SUM):
        return Fault("result['output']", "'join' or 'sum'", show(value["output"]))
    inputs, blocks = [], []
    for rank, (given, held) in enumerate(zip(value["input"], value["weight"], strict=True)):
        if not _inside(given, (rows,)):
            return Fault(
                f"rank {rank}, the input", "(start, stop) in the columns of x", show(given)
            )
        if not isinstance(held, (list, tuple)) or not 1 <= len(held) <= _MOST_BLOCKS:
            return Fault(f"rank {rank}, the weight", "a list of blocks", show(held))
        for number, block in enumerate(held):
            where = f"rank {rank}, block {number} of the weight"
            if not _inside(block, (rows, columns)):
                wanted = "(row start, row stop, column start, column stop) in the weight"
                return Fault(where, wanted, show(block))
            if block[0] < given[0] or block[1] > given[1]:
                return Fault(where, "rows that meet the rank's columns of x", show(block))
        inputs.append((given[0], given[1]))
        blocks.append(tuple((b[0], b[1], b[2], b[3]) for b in held))
    return Cut(rows, columns, tuple(inputs), tuple(blocks), value["output"])


def _inside(value: Any, lengths: Sequence[int]) -> bool:
    """Whether it holds a start and a stop for each length, not empty."""
    if not isinstance(value, (list, tuple)) or len(value) != 2 * len(lengths):
        return False
    if any(type(number) is not int for number in value):
        return False
    pairs = zip(value[::2], value[1::2], lengths, strict=True)
    return all(0 <= start < stop <= length for start, stop, length in pairs)


def wrong_output(cut: Cut) -> Fault | None:
    """Run the linear on simulated ranks and say where the united output is not one device's."""
    stream = np.random.default_rng(cut.rows * 1009 + cut.columns)
    x = stream.integers(1, 9, (_TOKENS, cut.rows))
    weight = stream.integers(1, 9, (cut.rows, cut.columns))
    outputs: list[Array] = []
    present: list[Array] = []
    for rank in range(len(cut.blocks)):
        count = cut.owned(rank)
        outputs.append(x @ (count * weight))
        present.append(count.max(axis=0) > 0)
    if cut.output == SUM:
        for rank, columns in enumerate(present):
            if not np.array_equal(columns, present[0]):
                return Fault(f"rank {rank}, its output", "rank 0's columns, to be summed", "others")
        united = np.sum(outputs, axis=0)
    else:
        united = np.zeros_like(outputs[0])
        for output, columns in zip(outputs, present, strict=True):
            united = np.where(columns, output, united)
    found = np.any(np.array(present), axis=0).tolist()
    for column in range(cut.columns):
        where = f"column {column} of the output"
        if not found[column]:
            return Fault(where, "a rank that computes it", "none")
        if not np.array_equal(united[:, column], (x @ weight)[:, column]):
            rank = next(rank for rank, columns in enumerate(present) if columns[column])
            return Fault(f"rank {rank}, {where}", "one device's numbers", "others")
    return None


def needless_input(cut: Cut) -> Fault | None:
    """Say which rank is given columns of x that no row of its weight meets."""
    for rank, (start, stop) in enumerate(cut.inputs):
        met = np.any(cut.owned(rank)[start:stop], axis=1)
        if not np.all(met):
            where = f"rank {rank}, the input"
            return Fault(where, "only columns of x that meet its rows", f"{start} to {stop - 1}")
    return None


def unequal_share(cut: Cut) -> Fault | None:
    """Say which rank does not hold its equal share of the weight, or what another one holds."""
    ranks = len(cut.blocks)
    owners = np.full((cut.rows, cut.columns), -1)
    for rank in range(ranks):
        count = cut.owned(rank)
        if count.max() > 1:
            return Fault(f"rank {rank}", "every number once", "blocks that overlap")
        taken = owners[(count > 0) & (owners >= 0)]
        if taken.size:
            return Fault(f"rank {rank}", "numbers of its own", f"some of rank {taken[0]}'s")
        owners[count > 0] = rank
        if ranks * count.sum() != cut.rows * cut.columns:
            return Fault(f"rank {rank}", "an equal share of the weight", f"{count.sum()} numbers")
    return None


def unlike_parts(cut: Cut, parts: int) -> Fault | None:
    """Say which rank has other columns of one part than of another; parts lie side by side."""
    width = cut.columns // parts
    for rank in range(len(cut.blocks)):
        columns = cut.owned(rank).any(axis=0).reshape(parts, width)
        for part in range(1, parts):
            if not np.array_equal(columns[part], columns[0]):
                where = f"rank {rank}, part {part} of the weight"
                return Fault(where, "the same columns as of part 0", "others")
    return None


def not_refused(value: Any) -> Fault | None:
    """Say what came in place of None."""
    return None if value is None else Fault("result", kind_of(None), show(value))
