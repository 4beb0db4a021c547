"""A plan: which rank sends which chunk to which rank in which round, made without data.

A chunk says who holds a contribution to it at the start and who must hold the whole of it at
the end; that alone tells an all-reduce from an all-gather. All transfers of a round happen at
once: each sends what its rank held when the round began.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, zip_longest
from typing import Any, Final, NamedTuple

from shardbook.errors import InputError, whole

MOST_RANKS: Final = 1 << 16
MOST_ELEMENTS: Final = 1 << 62


class Transfer(NamedTuple):
    """One chunk sent from one rank to another; ``add`` sums it into the receiver's chunk."""

    source: int
    target: int
    chunk: int
    add: bool

    def __str__(self) -> str:
        return f"rank {self.source} → {self.target}: chunk {self.chunk}{' +' if self.add else ''}"


Round = tuple[Transfer, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the data: its size in elements, the ranks it starts on and must end on."""

    size: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds made each time they are asked for, so that a plan of millions stays small."""

    make: Callable[..., Iterable[Round]]
    arguments: tuple[Any, ...]

    def __iter__(self) -> Iterator[Round]:
        return iter(self.make(*self.arguments))


@dataclass(frozen=True, slots=True)
class Plan:
    """A collective among ``ranks`` (global numbers, in the algorithm's order).

    ``rounds`` is iterated anew for every use: a tuple, or lazily made `Rounds`.
    """

    collective: str
    ranks: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    rounds: Iterable[Round]

    @property
    def elements(self) -> int:
        """Elements of all chunks together."""
        return sum(chunk.size for chunk in self.chunks)


def participants(ranks: int | Sequence[int]) -> tuple[int, ...]:
    """Return the ranks of a collective: ``range(ranks)``, or the global ranks given, in order.

    Raises InputError for none, for more than 65,536, or for one named twice.
    """
    if not isinstance(ranks, Sequence):
        return tuple(range(whole("ranks", ranks, 1, MOST_RANKS)))
    members = tuple(whole("ranks", rank, 0, 1 << 31) for rank in ranks)
    if not 1 <= len(members) <= MOST_RANKS:
        raise InputError("ranks", members, f"give 1 to {MOST_RANKS:,} ranks")
    if len(set(members)) < len(members):
        raise InputError("ranks", members, "name each rank once")
    return members


def ceil_div(number: int, divisor: int) -> int:
    """Return ``number / divisor``, rounded up."""
    return -(-number // divisor)


def even_sizes(elements: int, pieces: int) -> tuple[int, ...]:
    """Cut ``elements`` into ``pieces`` that differ by one at most, the longer ones first."""
    small, longer = divmod(elements, pieces)
    return (small + 1,) * longer + (small,) * (pieces - longer)


def chunk_sizes(sizes: int | Sequence[int], pieces: int) -> tuple[int, ...]:
    """Return ``pieces`` chunk sizes in elements: those given, or a total cut evenly.

    Raises InputError if another number of sizes is given, or one is negative.
    """
    if not isinstance(sizes, Sequence):
        return even_sizes(whole("elements", sizes, 0, MOST_ELEMENTS), pieces)
    checked = tuple(whole("size", size, 0, MOST_ELEMENTS) for size in sizes)
    if len(checked) != pieces:
        raise InputError("sizes", checked, f"give {pieces} chunk sizes, empty ones as 0")
    return checked


def starts(sizes: Iterable[int]) -> tuple[int, ...]:
    """Return where each chunk starts when they lie one behind the other."""
    return tuple(accumulate(sizes, initial=0))[:-1]


def one_after_another(*phases: Iterable[Round]) -> Rounds:
    """Join phases: the next begins when the one before has ended."""
    return Rounds(chain, phases)


def side_by_side(*parts: Iterable[Round]) -> Rounds:
    """Join parts that run at the same time: their first rounds together, then their second."""
    return Rounds(_merged, parts)


def _merged(*parts: Iterable[Round]) -> Iterator[Round]:
    for rounds in zip_longest(*parts, fillvalue=()):
        yield tuple(chain.from_iterable(rounds))
