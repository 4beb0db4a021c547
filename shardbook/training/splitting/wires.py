"""Collectives among simulated devices on arrays of any shape, each one counted by phase.

For computations that all devices run in step, such as tensor parallelism: a list has one array per
rank. The plans are those of `shardbook.collectives`, so bytes and summation order are the plan's.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.exchange import direct
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.plan import Chunk, Plan, Transfer, participants
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from shardbook.collectives.run import run, run_on_vectors
from shardbook.errors import InputError

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective that was run: in which phase, of what, and the bytes each rank sent."""

    phase: str
    collective: str
    what: str
    sent_bytes: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{self.phase}: {self.collective} of {self.what} (≤ {max(self.sent_bytes):,} B a rank)"
        )


class Wires:
    """The links among ``ranks`` devices. ``exchanges`` logs what was run on them, in order.

    ``phase`` names what is running; the caller sets it. Among one rank nothing is sent or logged.
    """

    def __init__(self, ranks: int | Sequence[int]) -> None:
        self.ranks = participants(ranks)
        self.phase = "forward"
        self.exchanges: list[Exchange] = []

    def __len__(self) -> int:
        return len(self.ranks)

    def count(self) -> dict[tuple[str, str], int]:
        """Return how often each collective ran in each phase: (phase, collective) → times."""
        return dict(Counter((one.phase, one.collective) for one in self.exchanges))

    def sent(self, phase: str | None = None) -> tuple[int, ...]:
        """Return the bytes each rank sent, in one phase or in all."""
        chosen = [one.sent_bytes for one in self.exchanges if phase in (None, one.phase)]
        return tuple(map(sum, zip(*chosen, strict=True))) if chosen else (0,) * len(self)

    def all_reduce(self, what: str, parts: Sequence[Array]) -> list[Array]:
        """Return the sum of ``parts`` for each rank; all have one shape."""
        plan = ring_all_reduce(self.ranks, parts[0].size)
        summed = self._run(plan, what, [part.ravel() for part in parts])
        return [vector.reshape(parts[0].shape) for vector in summed]

    def all_gather(self, what: str, parts: Sequence[Array], axis: int = 0) -> list[Array]:
        """Return ``parts``, joined along ``axis`` in rank order, for each rank; sizes may differ."""
        plan = ring_all_gather(self.ranks, [part.size for part in parts])
        gathered = self._run(plan, what, [part.ravel() for part in parts])
        ends = np.cumsum([part.size for part in parts])[:-1]
        return [
            np.concatenate(
                [
                    piece.reshape(part.shape)
                    for piece, part in zip(np.split(vector, ends), parts, strict=True)
                ],
                axis,
            )
            for vector in gathered
        ]

    def reduce_scatter(self, what: str, parts: Sequence[Array], axis: int = 0) -> list[Array]:
        """Return to each rank its piece, along ``axis``, of the sum of ``parts``."""
        pieces = [np.array_split(part, len(self), axis) for part in parts]
        plan = ring_reduce_scatter(self.ranks, [piece.size for piece in pieces[0]])
        vectors = [np.concatenate([piece.ravel() for piece in cut]) for cut in pieces]
        own = zip(self._run(plan, what, vectors), pieces[0], strict=True)
        return [vector.reshape(piece.shape) for vector, piece in own]

    def all_to_all(self, what: str, parts: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Send ``parts[i][j]`` from rank i to rank j; return what each rank got, by sender."""
        n = len(self)
        plan = direct("all-to-all", self.ranks, [part.size for row in parts for part in row])
        held = [
            {i * n + j: part.ravel() for j, part in enumerate(row)} for i, row in enumerate(parts)
        ]
        self._log(plan, what, parts[0][0].dtype.itemsize)
        after = run(plan, held)
        return [
            [after[j][i * n + j].reshape(parts[i][j].shape) for i in range(n)] for j in range(n)
        ]

    def pass_on(self, what: str, parts: Sequence[Array]) -> list[Array]:
        """Send each rank's array to the next rank of the ring; return what each received."""
        n = len(self)
        if n == 1:
            return list(parts)
        ring = [(rank, self.ranks[(i + 1) % n]) for i, rank in enumerate(self.ranks)]
        chunks = tuple(
            Chunk(part.size, (source,), (target,))
            for part, (source, target) in zip(parts, ring, strict=True)
        )
        moves = tuple(Transfer(*pair, chunk, False) for chunk, pair in enumerate(ring))
        plan = Plan("pass on", self.ranks, chunks, (moves,))
        self._log(plan, what, parts[0].dtype.itemsize)
        after = run(plan, [{i: part.ravel()} for i, part in enumerate(parts)])
        return [after[i][(i - 1) % n].reshape(parts[(i - 1) % n].shape) for i in range(n)]

    def _run(self, plan: Plan, what: str, vectors: Sequence[Array]) -> list[Array]:
        self._log(plan, what, vectors[0].dtype.itemsize)
        return run_on_vectors(plan, vectors)

    def _log(self, plan: Plan, what: str, element_bytes: int) -> None:
        if len(self) > 1:
            sent = measure(plan, flat(0.0, 1.0), element_bytes).sent
            self.exchanges.append(Exchange(self.phase, plan.collective, what, sent))


def split(array: Array, ranks: int, axis: int, what: str) -> list[Array]:
    """Cut ``array`` along ``axis`` into one piece per rank, the longer ones first.

    Raises InputError if there are more ranks than places along the axis.
    """
    if not 1 <= ranks <= array.shape[axis]:
        raise InputError("ranks", ranks, f"give 1 to {array.shape[axis]}: {what} has no more parts")
    return np.array_split(array, ranks, axis)


def split_all(
    arrays: Mapping[str, Array], axes: Mapping[str, int], ranks: int
) -> list[dict[str, Array]]:
    """Cut each named array along its axis; return each rank's pieces by name."""
    cut = {name: split(array, ranks, axes[name], name) for name, array in arrays.items()}
    return [{name: pieces[rank] for name, pieces in cut.items()} for rank in range(ranks)]


def join_all(parts: Sequence[Mapping[str, Array]], axes: Mapping[str, int]) -> dict[str, Array]:
    """Undo `split_all`."""
    return {name: np.concatenate([part[name] for part in parts], axes[name]) for name in parts[0]}
