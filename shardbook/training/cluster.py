"""Simulated devices that meet in collectives: runs one program per rank until all have ended.

Each rank executes its actions until it calls a collective, and waits there for its group. The
collective then runs its ring plan on the ranks' arrays; every transfer is logged and counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.measure import measure
from shardbook.collectives.plan import Plan, Transfer
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from shardbook.collectives.run import run_on_vectors
from shardbook.training.device import Name
from shardbook.training.pace import Pace, Seconds, meet_at
from shardbook.training.programs import COMMUNICATION, Action, Program
from shardbook.training.rank import Rank
from shardbook.training.rendezvous import Call, HangError, diagnose, ready

Array = NDArray[Any]
#: (rank, action, call) → the call that the rank really makes, or None
Alter = Callable[[int, Action, Call], Call | None]

#: where a rank receives the chunk that it adds to its own
_BUFFER: Final = Name("receive_buffers", 0)
_RINGS: Final = {
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
class RankTraffic:
    """What one rank called and sent during a step; times only if the run had a pace."""

    calls: list[Call] = field(default_factory=list)
    sent_bytes: int = 0
    rounds: int = 0
    seconds: Seconds = field(default_factory=Seconds)


@dataclass(frozen=True, slots=True)
class Traffic:
    """A step of all ranks: what each called and sent, and all transfers in order (S20)."""

    ranks: Mapping[int, RankTraffic]
    sent: list[Sent] = field(default_factory=list)


def run_programs(
    ranks: Sequence[Rank],
    programs: Mapping[int, Program],
    alter: Alter | None = None,
    pace: Pace | None = None,
) -> Traffic:
    """Run each rank's program to its end and return what was called and sent.

    Raises:
        HangError: ranks wait for each other, or their calls don't fit together.
        InputError: an action needs an array that its rank does not hold.
    """
    execution = _Execution(ranks, programs, alter, pace)
    while execution.advance():
        execution.meet()
    return execution.traffic


@lru_cache(maxsize=256)
def _plan(collective: str, group: tuple[int, ...], elements: int) -> Plan:
    plan = _RINGS[collective](group, elements)
    return Plan(plan.collective, plan.ranks, plan.chunks, tuple(plan.rounds))


class _Execution:
    """Where each rank is in its program, and which ranks wait in which call."""

    def __init__(
        self,
        ranks: Sequence[Rank],
        programs: Mapping[int, Program],
        alter: Alter | None,
        pace: Pace | None,
    ) -> None:
        self.traffic = Traffic({rank.rank: RankTraffic() for rank in ranks})
        self._ranks = {rank.rank: rank for rank in ranks}
        self._coming = {number: iter(programs[number]) for number in self._ranks}
        self._alter = alter
        self._pace = pace
        self._waiting: dict[int, tuple[Action, Call, Array]] = {}

    def advance(self) -> bool:
        """Take every rank to its next call with others, or to its end; say whether any waits."""
        for number, rank in self._ranks.items():
            if number not in self._waiting:
                self._advance(rank)
        return bool(self._waiting)

    def meet(self) -> None:
        """Run one collective whose whole group waits in it. Raises HangError if there is none."""
        calls = {number: call for number, (_, call, _) in self._waiting.items()}
        group = ready(calls)
        if group is None:
            histories = {n: tuple(traffic.calls) for n, traffic in self.traffic.ranks.items()}
            raise HangError(diagnose(calls, histories))
        met = {number: self._waiting.pop(number) for number in group}
        call = calls[group[0]]
        plan = _plan(call.collective, call.group, call.elements)
        adds = call.collective != "all-gather"
        if adds:
            self._buffer(group, max(chunk.size for chunk in plan.chunks), call.dtype)
        vectors = [vector for _, _, vector in met.values()]
        results = run_on_vectors(plan, vectors, partial(self._log, call))
        rounds = sum(1 for _ in plan.rounds)
        if self._pace:
            price = measure(plan, self._pace.network, np.dtype(call.dtype).itemsize).seconds
            meet_at(price, [self.traffic.ranks[number].seconds for number in group])
        for (number, (action, _, _)), result in zip(met.items(), results, strict=True):
            if adds:
                self._ranks[number].device.free(_BUFFER)
            self.traffic.ranks[number].rounds += rounds
            self._ranks[number].receive(action, result)

    def _advance(self, rank: Rank) -> None:
        mine = self.traffic.ranks[rank.rank]
        for action in self._coming[rank.rank]:
            rank.device.moment = str(action).replace(" ", ", unit ")
            if action.kind not in COMMUNICATION:
                rank.do(action)
                if self._pace:
                    mine.seconds.compute += self._pace.seconds(rank.rank, action)
                continue
            asked = rank.ask(action)
            if asked is None:
                continue
            call, vector = asked
            if len(call.group) == 1:
                rank.receive(action, vector)
                continue
            made = self._alter(rank.rank, action, call) if self._alter else call
            if made is None:
                rank.go_on(action)
                continue
            mine.calls.append(made)
            self._waiting[rank.rank] = (action, made, vector)
            return

    def _buffer(self, group: Sequence[int], elements: int, dtype: str) -> None:
        for number in group:
            self._ranks[number].device.allocate(_BUFFER, np.empty(elements, dtype))

    def _log(self, call: Call, round_number: int, transfer: Transfer, array: Array) -> None:
        mine = self.traffic.ranks[transfer.source]
        mine.sent_bytes += array.nbytes
        number = len(mine.calls) - 1
        self.traffic.sent.append(Sent(number, round_number, transfer, array.nbytes, call.what))
