"""Simulated devices that meet in collectives: runs one program per rank until all have ended.

Each rank executes its actions until it calls a collective, and waits there for its group. The
collective then runs its ring plan on the ranks' arrays; every transfer is logged and counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.plan import Plan, Transfer
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from shardbook.collectives.run import run_on_vectors
from shardbook.training.device import Name
from shardbook.training.programs import COMMUNICATION, Action, Program
from shardbook.training.rank import Rank
from shardbook.training.rendezvous import Call, HangError, diagnose, ready

Array = NDArray[Any]
#: (rank, action, call) → the call that the rank really makes, or None
Alter = Callable[[int, Action, Call], Call | None]

_RINGS = {
    "all-reduce": ring_all_reduce,
    "reduce-scatter": ring_reduce_scatter,
    "all-gather": ring_all_gather,
}


class Sent(NamedTuple):
    """A transfer that happened: in which call (of the sender, from 0) and round, how many bytes."""

    call: int
    round: int
    transfer: Transfer
    bytes: int
    what: str

    def __str__(self) -> str:
        return f"call {self.call}, round {self.round}: {self.transfer} ({self.bytes:,} B)"


@dataclass(slots=True)
class Traffic:
    """What the ranks called and sent during a step (S20)."""

    calls: dict[int, list[Call]]
    sent: list[Sent] = field(default_factory=list)
    sent_bytes: dict[int, int] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)


@lru_cache(maxsize=256)
def _plan(collective: str, group: tuple[int, ...], elements: int) -> Plan:
    plan = _RINGS[collective](group, elements)
    return Plan(plan.collective, plan.ranks, plan.chunks, tuple(plan.rounds))


def run_programs(
    ranks: Sequence[Rank], programs: Mapping[int, Program], alter: Alter | None = None
) -> Traffic:
    """Run each rank's program to its end and return what was called and sent.

    Raises:
        HangError: ranks wait for each other, or their calls don't fit together.
        InputError: an action needs an array that its rank does not hold.
    """
    traffic = Traffic({r.rank: [] for r in ranks})
    traffic.sent_bytes = dict.fromkeys(traffic.calls, 0)
    traffic.rounds = dict.fromkeys(traffic.calls, 0)
    at = dict.fromkeys(traffic.calls, 0)
    waiting: dict[int, tuple[Action, Call, Array]] = {}
    while True:
        for rank in ranks:
            if rank.rank not in waiting:
                _advance(rank, programs[rank.rank], at, waiting, traffic, alter)
        if not waiting:
            return traffic
        calls = {number: call for number, (_, call, _) in waiting.items()}
        group = ready(calls)
        if group is None:
            histories = {number: tuple(made) for number, made in traffic.calls.items()}
            raise HangError(diagnose(calls, histories))
        members = {rank.rank: rank for rank in ranks}
        _meet([members[number] for number in group], waiting, traffic)


def _advance(
    rank: Rank,
    program: Program,
    at: dict[int, int],
    waiting: dict[int, tuple[Action, Call, Array]],
    traffic: Traffic,
    alter: Alter | None,
) -> None:
    """Execute a rank's actions up to the next call with others, or to the program's end."""
    while at[rank.rank] < len(program):
        action = program[at[rank.rank]]
        at[rank.rank] += 1
        rank.device.moment = _moment(action)
        if action.kind not in COMMUNICATION:
            rank.do(action)
            continue
        asked = rank.ask(action)
        if asked is None:
            continue
        call, vector = asked
        if len(call.group) == 1:
            rank.receive(action, vector)
            continue
        made = alter(rank.rank, action, call) if alter else call
        if made is None:
            rank.go_on(action)
            continue
        traffic.calls[rank.rank].append(made)
        waiting[rank.rank] = (action, made, vector)
        return


def _meet(
    group: Sequence[Rank],
    waiting: dict[int, tuple[Action, Call, Array]],
    traffic: Traffic,
) -> None:
    """Run the collective that all of ``group`` wait in, and hand out its result."""
    met = [waiting.pop(rank.rank) for rank in group]
    _, call, _ = met[0]
    plan = _plan(call.collective, call.group, call.elements)
    numbers = {rank.rank: len(traffic.calls[rank.rank]) - 1 for rank in group}

    def log(round_number: int, transfer: Transfer, array: Array) -> None:
        number = numbers[transfer.source]
        traffic.sent.append(Sent(number, round_number, transfer, array.nbytes, call.what))
        traffic.sent_bytes[transfer.source] += array.nbytes

    largest = max(chunk.size for chunk in plan.chunks)
    adds = call.collective != "all-gather"
    buffers = [Name("receive_buffers", action.unit or 0) for action, _, _ in met]
    for rank, name in zip(group, buffers, strict=True):
        if adds:
            rank.device.allocate(name, np.empty(largest, call.dtype))
    results = run_on_vectors(plan, [vector for _, _, vector in met], log)
    rounds = sum(1 for _ in plan.rounds)
    for rank, name, (action, _, _), result in zip(group, buffers, met, results, strict=True):
        if adds:
            rank.device.free(name)
        traffic.rounds[rank.rank] += rounds
        rank.receive(action, result)


def _moment(action: Action) -> str:
    return action.kind if action.unit is None else f"{action.kind}, unit {action.unit}"
