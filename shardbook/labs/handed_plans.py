"""A plan handed in as plain data: read, proved and measured by the engine.

A plan is a list of rounds, a round a list of transfers ``(source, target, chunk)``.
"""

from collections.abc import Sequence
from typing import Any, Final

from shardbook.collectives.contract import contract
from shardbook.collectives.draw import grid
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.plan import Plan, Transfer
from shardbook.collectives.verify import verify
from shardbook.labs.values import Fault, show

_MOST_TRANSFERS: Final = 5_000
_NETWORK: Final = flat(0.0, 1.0)
_A_PLAN: Final = "a list of rounds, each a list of transfers (source, target, chunk)"


def read_plan(
    collective: str, order: Sequence[int], sizes: Sequence[int], value: Any
) -> Plan | Fault:
    """Return the plan that plain data stands for, or what is wrong with the data.

    A reduce-scatter adds every transfer to the receiver's chunk; an all-gather stores it.
    """
    if not isinstance(value, (list, tuple)):
        return Fault("the plan", _A_PLAN, show(value))
    if len(value) > _MOST_TRANSFERS:
        return Fault("the plan", "far fewer rounds", f"{len(value):,} rounds")
    adds = collective == "reduce-scatter"
    rounds = []
    left = _MOST_TRANSFERS
    for number, moves in enumerate(value, start=1):
        if not isinstance(moves, (list, tuple)):
            return Fault(f"round {number}", "a list of transfers", show(moves))
        left -= len(moves)
        if left < 0:
            return Fault("the plan", "far fewer transfers", f"more than {_MOST_TRANSFERS:,}")
        for move in moves:
            if not _is_transfer(move):
                wanted = "a transfer of three ints (source, target, chunk)"
                return Fault(f"round {number}", wanted, show(move))
        rounds.append(tuple(Transfer(move[0], move[1], move[2], adds) for move in moves))
    ring = tuple(order)
    return Plan(collective, ring, contract(collective, ring, sizes, len(ring)), tuple(rounds))


def _is_transfer(move: Any) -> bool:
    if not isinstance(move, (list, tuple)) or len(move) != 3:
        return False
    return all(type(number) is int for number in move)


def first_fault(plan: Plan, *, drawn: bool = False) -> Fault | None:
    """Say what the engine's proof finds first; ``drawn`` adds the plan's grid, the fault marked."""
    proof = verify(plan)
    if proof:
        return None
    first = proof.faults[0]
    when = "at the end" if first.round is None else f"round {first.round + 1}"
    picture = f"\n{grid(plan, fault=(first.round, first.rank))}" if drawn else ""
    return Fault(
        f"{when}, rank {first.rank}, chunk {first.chunk}",
        "every contribution once, and each chunk whole where it ends",
        f"{first.problem}{picture}",
    )


def wrong_rounds(plan: Plan, rounds: int) -> Fault | None:
    """Say whether the plan has another number of rounds."""
    found = sum(1 for _ in plan.rounds)
    return None if found == rounds else Fault("the rounds", "another number", str(found))


def off_the_ring(plan: Plan) -> Fault | None:
    """Say which transfer goes to another rank than the sender's next one, or which rank is idle."""
    after = dict(zip(plan.ranks, (*plan.ranks[1:], plan.ranks[0]), strict=True))
    senders = set()
    for number, moves in enumerate(plan.rounds, start=1):
        for move in moves:
            if after.get(move.source) != move.target:
                where = f"round {number}, rank {move.source}"
                return Fault(where, "a transfer to the next rank of the ring", str(move))
            senders.add(move.source)
    idle = [rank for rank in plan.ranks if rank not in senders]
    if idle and len(plan.ranks) > 1:
        return Fault(f"rank {idle[0]}", "a transfer to the next rank of the ring", "none at all")
    return None


def unnamed(plan: Plan) -> Fault | None:
    """Say which transfer is of no rank or chunk of the plan, or which rank takes no part."""
    known = set(plan.ranks)
    busy = set()
    for number, moves in enumerate(plan.rounds, start=1):
        for move in moves:
            if not {move.source, move.target} <= known or not 0 <= move.chunk < len(plan.chunks):
                return Fault(f"round {number}", "ranks and chunks that there are", str(move))
            busy.add(move.source)
    idle = sorted(known - busy)
    if idle and len(known) > 1:
        return Fault(f"rank {idle[0]}", "something to send", "nothing")
    return None


def wrong_traffic(plan: Plan, sent: Sequence[int]) -> Fault | None:
    """Say which rank sends other bytes than ``sent`` (one byte an element), as the engine counts."""
    return unnamed(plan) or _other_bytes(plan, sent, "sent", measure(plan, _NETWORK).sent)


def received_again(plan: Plan) -> Fault | None:
    """Say which rank receives more or fewer bytes than those it does not start with."""
    lacking = [sum(c.size for c in plan.chunks if rank not in c.sources) for rank in plan.ranks]
    fault = unnamed(plan)
    return fault or _other_bytes(plan, lacking, "received", measure(plan, _NETWORK).received)


def _other_bytes(
    plan: Plan, wanted: Sequence[int], verb: str, measured: Sequence[int]
) -> Fault | None:
    for rank, right, got in zip(plan.ranks, wanted, measured, strict=True):
        if got != right:
            kind = "fewer" if got > right else "more"
            return Fault(f"rank {rank}", f"{kind} bytes {verb}", f"{got} B")
    return None
