"""Prove a plan without data: follow who has contributed to the chunk that each rank holds.

A set of ranks is an integer with one bit per place in ``plan.ranks``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from shardbook.collectives.draw import grid
from shardbook.collectives.plan import Plan, Transfer

#: rank → chunk → (ranks that have contributed, those that have more than once)
Held = dict[int, dict[int, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: at ``rank`` in ``round`` (from 0), or None where the end shows it."""

    round: int | None
    rank: int
    chunk: int
    problem: str

    def __str__(self) -> str:
        when = "at the end" if self.round is None else f"round {self.round + 1}"
        return f"{when}, rank {self.rank}, chunk {self.chunk}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The faults of a plan, the first one first; none if it does what its collective promises."""

    plan: Plan
    faults: tuple[Fault, ...]

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        plan = self.plan
        if not self.faults:
            return f"{plan.collective} among {len(plan.ranks)} ranks: every chunk is whole"
        first = self.faults[0]
        more = len(self.faults) - 1
        return "\n".join(
            [
                str(first) + (f" (and {more} more)" if more else ""),
                "",
                grid(plan, fault=(first.round, first.rank)),
            ]
        )


def verify(plan: Plan) -> Proof:
    """Check that each target ends with every contribution to its chunk exactly once.

    Faults in the order they arise: a transfer that is impossible, of a chunk the sender does not
    hold or into a sum the receiver does not hold; a contribution added twice that stays in the
    result; then, at the end, what a target lacks. The proof is true if there is none, and prints
    as the first fault and the grid around it.
    """
    place = {rank: 1 << i for i, rank in enumerate(plan.ranks)}
    held = _start(plan, place)
    early = list(_follow(plan, held))
    late = []
    spoilt = set()
    for number, chunk in enumerate(plan.chunks):
        every = sum(place[rank] for rank in chunk.sources)
        for rank in chunk.targets:
            once, twice = held[rank].get(number, (0, 0))
            if twice:
                spoilt.add(number)
            if every & ~once:
                late.append(Fault(None, rank, number, f"lacks {_named(plan, every & ~once)}"))
    kept = [fault for fault, twice in early if not twice or fault.chunk in spoilt]
    return Proof(plan, (*kept, *late))


def held_after(plan: Plan, rounds: int) -> dict[int, dict[int, tuple[int, ...]]]:
    """Return rank → chunk → the ranks that have contributed to it, after the first ``rounds``.

    Before the first round (0) that is what each rank starts with; a rank keeps what it sent.
    """
    held = _start(plan, {rank: 1 << i for i, rank in enumerate(plan.ranks)})
    first = Plan(plan.collective, plan.ranks, plan.chunks, tuple(islice(plan.rounds, rounds)))
    for _ in _follow(first, held):
        pass  # a faulty plan is shown as far as it goes
    return {
        rank: {
            chunk: tuple(plan.ranks[i] for i in range(len(plan.ranks)) if once >> i & 1)
            for chunk, (once, _) in sorted(chunks.items())
        }
        for rank, chunks in held.items()
    }


def _start(plan: Plan, place: dict[int, int]) -> Held:
    held: Held = {rank: {} for rank in plan.ranks}
    for number, chunk in enumerate(plan.chunks):
        for rank in chunk.sources:
            held[rank][number] = (place[rank], 0)
    return held


def _follow(plan: Plan, held: Held) -> Iterator[tuple[Fault, bool]]:
    """Run the rounds on ``held``; yield each fault and whether it is a contribution twice."""
    for step, moves in enumerate(plan.rounds):
        possible = []
        for move in moves:
            problem = _impossible(move, held, len(plan.chunks))
            if problem:
                yield Fault(step, move.source, move.chunk, problem), False
            else:
                possible.append((move, held[move.source][move.chunk]))
        for move, arriving in possible:
            mine = held[move.target]
            before = mine.get(move.chunk)
            if not move.add:
                mine[move.chunk] = arriving
            elif before is None:
                problem = f"adds what rank {move.source} sends to a chunk it does not hold"
                yield Fault(step, move.target, move.chunk, problem), False
            else:
                again = before[0] & arriving[0]
                mine[move.chunk] = (before[0] | arriving[0], before[1] | arriving[1] | again)
                if again:
                    problem = f"has {_named(plan, again)} twice"
                    yield Fault(step, move.target, move.chunk, problem), True


def _impossible(move: Transfer, held: Held, chunks: int) -> str | None:
    for rank in (move.source, move.target):
        if rank not in held:
            return f"rank {rank} does not take part"
    if move.source == move.target:
        return "sends to itself"
    if not 0 <= move.chunk < chunks:
        return f"there is no such chunk, only 0 to {chunks - 1}"
    if move.chunk not in held[move.source]:
        return f"sends to rank {move.target} a chunk it does not hold"
    return None


def _named(plan: Plan, ranks: int) -> str:
    names = [str(rank) for i, rank in enumerate(plan.ranks) if ranks >> i & 1]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    if len(names) == 1:
        return f"the contribution of rank {shown}"
    return f"the contributions of ranks {shown}"
