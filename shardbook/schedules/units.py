"""FSDP units: the flat parameter's layout, and what the size of a unit costs.

Source: Zhao et al., "PyTorch FSDP", VLDB 2023, sections 3.2.1 (flat parameters) and 3.2.3 (peak
memory O(Ψ/N + max ψ) against the number of collectives).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, real, whole

_MOST_ELEMENTS: Final = 10**16
_MOST_RANKS: Final = 2**20


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements ``start`` to ``stop`` (exclusive) of a tensor that a rank stores."""

    rank: int
    name: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.name}[{self.start}:{self.stop}]"


@dataclass(frozen=True, slots=True)
class FlatParameter:
    """Tensors laid end to end, padded on the right, cut into one ``shard`` a rank (elements).

    ``offsets``: where each tensor's view begins; autograd writes a tensor's gradient into the
    same place of the flat gradient. ``pieces``: what each rank stores, padding left out.
    """

    offsets: dict[str, int]
    padding: int
    shard: int
    pieces: tuple[Piece, ...]


def flat_parameter(sizes: Mapping[str, int], ranks: int) -> FlatParameter:
    """Lay out tensors of these sizes (elements) for ``ranks``; the padding is below ``ranks``.

    (S17)
    """
    whole("ranks", ranks, 1, _MOST_RANKS)
    if not sizes:
        raise InputError("sizes", sizes, "give at least one tensor")
    offsets, total = {}, 0
    for name, size in sizes.items():
        offsets[name] = total
        total += whole(name, size, 0, _MOST_ELEMENTS)
    shard = -(-total // ranks)
    pieces = []
    for name, offset in offsets.items():
        at, end = offset, offset + sizes[name]
        while at < end:
            rank = at // shard
            stop = min(end, (rank + 1) * shard)
            pieces.append(Piece(rank, name, at - offset, stop - offset))
            at = stop
    return FlatParameter(offsets, shard * ranks - total, shard, tuple(pieces))


@dataclass(frozen=True, slots=True)
class Granularity:
    """What a choice of units costs on each rank: bytes, and collectives of a step.

    ``peak_bytes`` of parameters: the shard and the largest gathered unit. ``collectives``: two
    all-gathers and a reduce-scatter a unit (one gather less where the last unit is kept).
    """

    units: int
    shard_bytes: int
    gathered_bytes: int
    padding: int
    collectives: int

    @property
    def peak_bytes(self) -> int:
        """The shard and the largest unit, gathered, B."""
        return self.shard_bytes + self.gathered_bytes


def granularity(
    units: Sequence[int], ranks: int, *, bytes_per_element: int = 2, keep_last: bool = True
) -> Granularity:
    """Price a choice of units, given as elements in the order of the forward (S25)."""
    whole("ranks", ranks, 1, _MOST_RANKS)
    width = whole("bytes_per_element", bytes_per_element, 1, 16)
    if not units:
        raise InputError("units", units, "give at least one unit")
    shards = [-(-whole("units", size, 0, _MOST_ELEMENTS) // ranks) for size in units]
    return Granularity(
        units=len(units),
        shard_bytes=sum(shards) * width,
        gathered_bytes=max(shards) * ranks * width,
        padding=sum(shards) * ranks - sum(units),
        collectives=3 * len(units) - keep_last,
    )


def transformer_units(width: int, layers: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Four ways to cut a transformer of 12·width² elements a layer and a tied embedding (S25).

    Whole model, blocks, half blocks (attention 4·width², FFN 8·width²) and single linears; the
    embedding is a unit of its own in all but the first. Biases and norms are left out.
    """
    square = whole("width", width, 1, 10**6) ** 2
    whole("layers", layers, 1, 10**4)
    embedding = whole("vocabulary", vocabulary, 0, 10**8) * width
    outside = (embedding,) if embedding else ()
    return {
        "whole model": (12 * square * layers + embedding,),
        "blocks": outside + (12 * square,) * layers,
        "half blocks": outside + (4 * square, 8 * square) * layers,
        "linears": outside + (*(square,) * 4, *(4 * square,) * 2) * layers,
    }


def all_gather_seconds(
    size: int, ranks: int, latency: float, bandwidth: float, *, even: bool = True
) -> float:
    """Time of gathering ``size`` bytes on a ring: (N − 1)·(α + size/(N·B)), s (S26, S27).

    ``latency`` α in s a round, ``bandwidth`` B in B/s one-way. Not ``even``: each rank's part is
    broadcast on the same ring, N broadcasts one after the other, as NCCL's all-gather takes equal
    parts only (FSDP paper, section 3.2.1): N·(N − 1)·α + size/B.
    """
    whole("size", size, 0, 2**63)
    whole("ranks", ranks, 1, _MOST_RANKS)
    real("latency", latency, 0, 1e6, "s")
    real("bandwidth", bandwidth, 1e-9, 1e30, "B/s")
    if ranks == 1:
        return 0.0
    if even:
        return (ranks - 1) * (latency + size / (ranks * bandwidth))
    return ranks * (ranks - 1) * latency + size / bandwidth


def gather_slowdown(size: int, ranks: int, latency: float, bandwidth: float) -> float:
    """Time of an even all-gather ÷ its time without latency: 1 + N·α·B/size (S26).

    Below the knee (N·α·B bytes) latency dominates: FSDP paper, figure 2b.
    """
    whole("size", size, 1, 2**63)
    whole("ranks", ranks, 2, _MOST_RANKS)
    return all_gather_seconds(size, ranks, latency, bandwidth) / all_gather_seconds(
        size, ranks, 0.0, bandwidth
    )


@dataclass(frozen=True, slots=True)
class HybridTraffic:
    """Bytes one rank sends in a step of hybrid sharding, its unit sizes padded.

    ``within``: in its sharding group, two all-gathers and a reduce-scatter. ``between``: among
    the replicas of its shard, an all-reduce. ``shard_bytes``: the parameters it stores.
    """

    within: int
    between: int
    shard_bytes: int


def hybrid_traffic(size: int, ranks: int, group: int) -> HybridTraffic:
    """Traffic for ``size`` bytes of parameters, sharded in groups of ``group`` of all ``ranks``.

    Group 1 is data parallel, group = ranks full sharding. Source: FSDP paper, section 3.2.2.

    (S34)
    """
    whole("size", size, 0, _MOST_ELEMENTS)
    whole("ranks", ranks, 1, _MOST_RANKS)
    whole("group", group, 1, ranks)
    if ranks % group:
        raise InputError("group", group, f"give a divisor of the {ranks} ranks")
    part = -(-size // ranks)
    replicas = ranks // group
    return HybridTraffic(
        within=3 * (group - 1) * part * replicas,
        between=2 * (replicas - 1) * part,
        shard_bytes=part * replicas,
    )
