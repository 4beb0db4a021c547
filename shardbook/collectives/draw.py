"""A plan as text: one row a round, one column a rank, in each cell what the rank receives."""

from itertools import islice
from typing import Final

from shardbook.collectives.plan import Plan, Round

_ROWS: Final = 16
_COLUMNS: Final = 8
_IN_A_CELL: Final = 3


def grid(plan: Plan, fault: tuple[int | None, int] | None = None) -> str:
    """Return the round × rank grid of ``plan``.

    ``+3←0`` adds chunk 3 from rank 0, ``3←0`` stores it. ``fault`` (round from 0, or None for
    the end; rank) is marked ✗. A large plan is cut to 16 rounds and 8 ranks, around the fault.
    """
    rank = fault[1] if fault and fault[1] in plan.ranks else plan.ranks[0]
    ranks = _window(plan.ranks, plan.ranks.index(rank))
    first, rows = _rows(plan, fault)
    header = ["round", *(f"rank {rank}" for rank in ranks)]
    table = [header]
    for number, moves in enumerate(rows, first):
        marked = fault[1] if fault and fault[0] == number else None
        cells = [_cell(moves, rank, mark=rank == marked) for rank in ranks]
        table.append([str(number + 1), *cells])
    if fault and fault[0] is None:
        table.append(["end", *("✗" if rank == fault[1] else "" for rank in ranks)])
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    if len(ranks) < len(plan.ranks):
        lines.append(f"({len(ranks)} of {len(plan.ranks)} ranks shown)")
    return "\n".join(lines)


def _rows(plan: Plan, fault: tuple[int | None, int] | None) -> tuple[int, list[Round]]:
    """Return up to 16 rounds and the number of the first of them."""
    if fault and fault[0] is None:
        total = sum(1 for _ in plan.rounds)
        first = max(0, total - _ROWS)
    else:
        first = max(0, (fault[0] or 0) - _ROWS // 2) if fault else 0
    return first, list(islice(plan.rounds, first, first + _ROWS))


def _window(ranks: tuple[int, ...], place: int) -> tuple[int, ...]:
    start = max(0, min(place - _COLUMNS // 2, len(ranks) - _COLUMNS))
    return ranks[start : start + _COLUMNS]


def _cell(moves: Round, rank: int, *, mark: bool) -> str:
    received = [
        f"{'+' if move.add else ''}{move.chunk}←{move.source}"
        for move in moves
        if move.target == rank
    ]
    shown = received[:_IN_A_CELL] + (["…"] if len(received) > _IN_A_CELL else [])
    return " ".join((["✗"] if mark else []) + shown) or "·"
