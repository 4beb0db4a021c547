"""Hidden checks of n46.1 and n46.2: ring plans, proved and counted by the engine."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.collectives.plan import Plan
from shardbook.labs.calls import Outcome
from shardbook.labs.handed_plans import (
    first_fault,
    off_the_ring,
    read_plan,
    received_again,
    unnamed,
    wrong_rounds,
    wrong_traffic,
)
from shardbook.labs.values import Fault
from shardgrade.checks.judging import Case, HiddenCheck, Probe


def _in_order(rng: Random) -> Iterable[Case]:
    for ranks in (2, 3, 4, rng.randint(5, 7), rng.randint(8, 9)):
        yield (list(range(ranks)),)


def _other_rings(rng: Random) -> Iterable[Case]:
    for ranks in (2, 3, 5, 6):
        yield (rng.sample(range(20), k=ranks),)
    yield ([7, 3],)


def _alone(rng: Random) -> Iterable[Case]:
    yield ([0],)
    # Else a function that never sends anything would be right.
    yield ([0, 1],)


def _sizes(ranks: int) -> list[int]:
    """Chunk sizes of which no two are equal, so that the bytes tell which chunks were sent."""
    return [3 * place * place + place + 1 for place in range(ranks)]


def _judged(
    collective: str, look: Callable[[Plan, Any], Fault | None]
) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        order = case[0]
        plan = read_plan(collective, order, _sizes(len(order)), outcome.value)
        return plan if isinstance(plan, Fault) else look(plan, expected)

    return judge


def _whole(plan: Plan, expected: Any) -> Fault | None:
    return first_fault(plan)


def _rounds(plan: Plan, expected: Any) -> Fault | None:
    return wrong_rounds(plan, len(expected))


def _neighbours(plan: Plan, expected: Any) -> Fault | None:
    return off_the_ring(plan)


def _named(plan: Plan, expected: Any) -> Fault | None:
    # Two ranks tell by the owners of their chunks whether they were taken in the right order.
    return first_fault(plan) if len(plan.ranks) == 2 else unnamed(plan)


def _received(plan: Plan, expected: Any) -> Fault | None:
    return received_again(plan)


def _sent(plan: Plan, expected: Any) -> Fault | None:
    sent = dict.fromkeys(plan.ranks, 0)
    for moves in expected:
        for source, _, chunk in moves:
            sent[source] += plan.chunks[chunk].size
    return wrong_traffic(plan, list(sent.values()))


def _nothing_to_do(plan: Plan, expected: Any) -> Fault | None:
    if len(plan.ranks) > 1:
        return first_fault(plan)
    moves = sum(len(moves) for moves in plan.rounds)
    return Fault("one rank", "no transfer", f"{moves} transfers") if moves else None


def _ring_check(
    collective: str, maker: str, whole: str, traffic: Callable[[Plan, Any], Fault | None]
) -> HiddenCheck:
    looks = (
        (whole, _in_order, _whole),
        ("rounds", _in_order, _rounds),
        ("neighbours", _in_order, _neighbours),
        ("traffic", _in_order, traffic),
        ("any ring", _other_rings, _named),
        ("one rank", _alone, _nothing_to_do),
    )
    return HiddenCheck(
        blocked=(
            f"shardbook.collectives.ring:{maker}",
            "shardbook.collectives.ring:_ring",
            "shardbook.collectives.ring:_turns",
            "shardbook.collectives.ring:all_gather_rounds",
            "shardbook.collectives.ring:reduce_scatter_rounds",
            "shardbook.collectives.build:plan_of",
        ),
        probes=tuple(Probe(name, cases, _judged(collective, look)) for name, cases, look in looks),
    )


REDUCE_SCATTER_PLAN: Final = _ring_check(
    "reduce-scatter", "ring_reduce_scatter", "whole sums", _sent
)
ALL_GATHER_PLAN: Final = _ring_check("all-gather", "ring_all_gather", "whole copies", _received)
