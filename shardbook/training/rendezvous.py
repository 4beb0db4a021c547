"""Where ranks meet: a collective starts when every rank of its group has called it.

Calls of one group are matched in program order, as NCCL does: by position, not by meaning. A
rank that skipped a call is therefore met in the wrong one. `match` finds that without data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Call:
    """What one rank asks of its group; ``what`` is for people and takes no part in matching."""

    collective: str
    group: tuple[int, ...]
    elements: int
    dtype: str
    what: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.collective} of {self.elements:,} × {self.dtype} ({self.what})"


@dataclass(frozen=True, slots=True)
class Wait:
    """A rank that can't go on: its call's number (from 0), and whom it waits for."""

    rank: int
    number: int
    call: Call
    waits_for: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hang:
    """Ranks that wait for each other, or whose calls don't fit together.

    ``histories`` holds each rank's calls so far, the one it is stuck in last; a rank that is not
    in ``waits`` has ended its program.
    """

    reason: str
    waits: tuple[Wait, ...]
    histories: Mapping[int, tuple[Call, ...]]

    def __str__(self) -> str:
        return f"{self.reason}\n{self.grid()}"

    @property
    def odd_ranks(self) -> tuple[int, ...]:
        """The ranks that are in another call than most: where to look first (S70)."""
        most = _largest_camp(self.waits)
        return tuple(rank for rank in self.histories if rank not in {w.rank for w in most})

    def grid(self, rows: int = 4) -> str:
        """Draw the last calls, a column a rank; ✗ marks the first row in which a rank is stuck."""
        columns = list(self.histories.values())
        longest = max(len(calls) for calls in columns)
        table = [[_cell(calls, row) for calls in columns] for row in range(longest)]
        fault = min(wait.number for wait in self.waits if wait.waits_for)
        shown = range(max(0, fault - rows + 1), min(longest, fault + 2))
        heads = [f"rank {rank}" for rank in self.histories]
        widths = [
            max(len(heads[i]), *(len(table[row][i]) for row in shown)) for i in range(len(heads))
        ]
        lines = ["call   " + "  ".join(h.ljust(w) for h, w in zip(heads, widths, strict=True))]
        for row in shown:
            cells = "  ".join(c.ljust(w) for c, w in zip(table[row], widths, strict=True))
            lines.append(f"{row:4} {'✗' if row == fault else ' '} {cells}")
        return "\n".join(line.rstrip() for line in lines)


class HangError(RuntimeError):
    """The program can't go on; ``hang`` says who waits for whom."""

    def __init__(self, hang: Hang) -> None:
        self.hang = hang
        super().__init__(str(hang))


def ready(waiting: Mapping[int, Call]) -> tuple[int, ...] | None:
    """Return a group all of whose ranks wait in calls that fit together, or None."""
    for call in waiting.values():
        if all(waiting.get(rank) == call for rank in call.group):
            return call.group
    return None


def match(calls: Mapping[int, Sequence[Call]]) -> Hang | None:
    """Match each rank's list of calls; return what they hang in, or None if all complete."""
    done = dict.fromkeys(calls, 0)
    while True:
        waiting = {r: calls[r][done[r]] for r in calls if done[r] < len(calls[r])}
        if not waiting:
            return None
        group = ready(waiting)
        if group is None:
            histories = {r: tuple(calls[r][: done[r] + 1]) for r in calls}
            return diagnose(waiting, histories)
        for rank in group:
            done[rank] += 1


def diagnose(waiting: Mapping[int, Call], histories: Mapping[int, tuple[Call, ...]]) -> Hang:
    """Say who waits for whom in which call, when no group is `ready`."""
    waits = tuple(
        Wait(rank, len(histories[rank]) - 1, call, _missing(rank, call, waiting))
        for rank, call in waiting.items()
    )
    # The largest camp is taken to be right; the others are named as what it waits for.
    main = _largest_camp(waits)
    first = main[0]
    others = [_whereabouts(rank, waiting) for rank in first.waits_for]
    return Hang(
        f"call {first.number}: {_ranks([w.rank for w in main])} in {first.call}"
        f" for {'; '.join(others)}",
        waits,
        histories,
    )


def _largest_camp(waits: Sequence[Wait]) -> list[Wait]:
    """Return the waits of the ranks in the call that most are in; of equal camps the first."""
    camps: dict[tuple[Call, str], list[Wait]] = {}
    for wait in waits:
        camps.setdefault((wait.call, wait.call.what), []).append(wait)
    return max(camps.values(), key=len)


def _missing(rank: int, call: Call, waiting: Mapping[int, Call]) -> tuple[int, ...]:
    return tuple(other for other in call.group if other != rank and waiting.get(other) != call)


def _whereabouts(rank: int, waiting: Mapping[int, Call]) -> str:
    if rank not in waiting:
        return f"rank {rank}, which has ended"
    return f"rank {rank}, which is in {waiting[rank]}"


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} waits"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]} wait"


def _cell(calls: tuple[Call, ...], row: int) -> str:
    if row >= len(calls):
        return "–"
    call = calls[row]
    return f"{call.collective} {call.elements} {call.dtype}"
