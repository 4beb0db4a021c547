"""Two-level collectives: rings inside the nodes, rings between them.

Nodes are runs of ``ranks_per_node`` consecutive ranks. Between nodes each rank talks only to the
ranks at its own place in the other nodes, so that all network cards of a node work.
Source of the two-level sum: Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.2 (hybrid
sharding).
"""

from collections.abc import Callable, Iterator, Sequence

from shardbook.collectives.contract import contract
from shardbook.collectives.plan import (
    Chunk,
    Plan,
    Round,
    Rounds,
    Transfer,
    chunk_sizes,
    one_after_another,
    participants,
    side_by_side,
)
from shardbook.collectives.ring import all_gather_rounds, reduce_scatter_rounds
from shardbook.collectives.tree import binary, broadcast_rounds, reduce_rounds
from shardbook.errors import InputError, one_of, whole

Groups = tuple[tuple[int, ...], ...]


def hierarchical(
    collective: str,
    ranks: int | Sequence[int],
    sizes: int | Sequence[int],
    ranks_per_node: int,
) -> Plan:
    """Plan a collective in two levels.

    All-reduce: reduce-scatter in the nodes, all-reduce between them, all-gather in the nodes.
    Reduce-scatter: in the nodes, then between them; all-gather: the other way round. All-to-all:
    inside the node to the rank at the target's place, then between nodes. Broadcast and reduce:
    binary trees, one over the nodes' first ranks and one in each node. ``sizes``: elements of
    the N chunks (broadcast and reduce: of any number), or their total. Raises InputError.
    """
    allowed = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce")
    one_of("collective", collective, allowed)
    order = participants(ranks)
    rows = _nodes(order, ranks_per_node)
    if collective in ("broadcast", "reduce"):
        return _rooted(collective, order, rows, sizes)
    chunks = contract(collective, order, sizes, len(order))
    if collective == "all-to-all":
        return Plan(collective, order, chunks, Rounds(_two_hops, (rows,)))
    inside, across = _inside(rows), _across(rows)
    sums = [_phase(reduce_scatter_rounds, inside), _phase(reduce_scatter_rounds, across)]
    copies = [_phase(all_gather_rounds, across), _phase(all_gather_rounds, inside)]
    phases = {"reduce-scatter": sums, "all-gather": copies, "all-reduce": sums + copies}
    return Plan(collective, order, chunks, one_after_another(*phases[collective]))


def hybrid_reduce(
    ranks: int | Sequence[int], sizes: int | Sequence[int], ranks_per_shard_group: int
) -> Plan:
    """Plan the gradient sum of hybrid sharding: each rank ends with its group's shard of it (S33).

    Reduce-scatter in each group of F = ``ranks_per_shard_group`` consecutive ranks, then
    all-reduce among the N/F ranks that hold the same shard. Chunk m·F + l is the m-th part of
    shard l. ``sizes``: elements of the N chunks, or their total. F = N is full sharding, F = 1
    data parallelism. Raises InputError.
    """
    order = participants(ranks)
    rows = _nodes(order, ranks_per_shard_group)
    replicas = tuple(zip(*rows, strict=True))
    counts = chunk_sizes(sizes, len(order))
    chunks = tuple(
        Chunk(size, order, replicas[number % len(replicas)]) for number, size in enumerate(counts)
    )
    inside, across = _inside(rows), _across(rows)
    phases = [
        _phase(reduce_scatter_rounds, inside),
        _phase(reduce_scatter_rounds, across),
        _phase(all_gather_rounds, across),
    ]
    return Plan("hybrid reduce", order, chunks, one_after_another(*phases))


def _nodes(order: tuple[int, ...], per_node: int) -> Groups:
    width = whole("ranks per node", per_node, 1, len(order))
    if len(order) % width:
        raise InputError("ranks per node", width, f"give a divisor of the {len(order)} ranks")
    return tuple(order[i : i + width] for i in range(0, len(order), width))


def _inside(rows: Groups) -> list[tuple[tuple[int, ...], Groups]]:
    """Return the rings inside nodes, with the chunks of each place: one for each node."""
    width = len(rows[0])
    blocks = tuple(tuple(range(place, width * len(rows), width)) for place in range(width))
    return [(row, blocks) for row in rows]


def _across(rows: Groups) -> list[tuple[tuple[int, ...], Groups]]:
    """Return the rings between nodes, one for each place, with one chunk for each node."""
    width = len(rows[0])
    return [
        (column, tuple((node * width + place,) for node in range(len(rows))))
        for place, column in enumerate(zip(*rows, strict=True))
    ]


def _phase(
    make: Callable[..., Iterator[Round]], rings: list[tuple[tuple[int, ...], Groups]]
) -> Rounds:
    return side_by_side(*(Rounds(make, ring) for ring in rings))


def _rooted(
    collective: str, order: tuple[int, ...], rows: Groups, sizes: int | Sequence[int]
) -> Plan:
    chunks = contract(collective, order, sizes, len(sizes) if isinstance(sizes, Sequence) else 1)
    numbers = tuple(range(len(chunks)))
    make = broadcast_rounds if collective == "broadcast" else reduce_rounds
    heads = Rounds(make, (binary(tuple(row[0] for row in rows)), numbers))
    inside = side_by_side(*(Rounds(make, (binary(row), numbers)) for row in rows))
    phases = (heads, inside) if collective == "broadcast" else (inside, heads)
    return Plan(collective, order, chunks, one_after_another(*phases))


def _two_hops(rows: Groups) -> Iterator[Round]:
    width, nodes = len(rows[0]), len(rows)
    n = width * nodes
    if width > 1:
        yield tuple(
            Transfer(row[i], row[j], (node * width + i) * n + chunk, False)
            for node, row in enumerate(rows)
            for i in range(width)
            for j in range(width)
            if i != j
            for chunk in range(j, n, width)
        )
    if nodes > 1:
        yield tuple(
            Transfer(rows[a][j], rows[b][j], (a * width + i) * n + b * width + j, False)
            for a in range(nodes)
            for b in range(nodes)
            if a != b
            for j in range(width)
            for i in range(width)
        )
