"""The visible examples of lab n46: plans proved and costs counted by the engine."""

from collections.abc import Callable
from typing import Any, Final

from shardbook.collectives.bandwidth import busbw
from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.plan import Plan
from shardbook.collectives.ring import ring_broadcast
from shardbook.labs.checking import Rule
from shardbook.labs.handed_plans import (
    first_fault,
    off_the_ring,
    read_plan,
    wrong_rounds,
    wrong_traffic,
)
from shardbook.labs.values import Fault, compare, show

_SIZES: Final = [4, 7, 5, 9]


def _plan(collective: str, look: Callable[[Plan], Fault | None]) -> Callable[..., Fault | None]:
    def judge(order: list[int], value: Any) -> Fault | None:
        plan = read_plan(collective, order, _SIZES[: len(order)], value)
        return plan if isinstance(plan, Fault) else look(plan)

    return judge


def _whole(plan: Plan) -> Fault | None:
    return first_fault(plan, drawn=True)


def _like_a_ring(collective: str) -> Callable[[Plan], Fault | None]:
    def look(plan: Plan) -> Fault | None:
        ring = plan_of(collective, "ring", len(plan.ranks), _SIZES[: len(plan.ranks)])
        sent = measure(ring, flat(0.0, 1.0)).sent
        rounds = sum(1 for _ in ring.rounds)
        return off_the_ring(plan) or wrong_rounds(plan, rounds) or wrong_traffic(plan, sent)

    return look


def _rules(collective: str) -> tuple[Rule, ...]:
    return (
        Rule(
            "each chunk is whole where it must end",
            "In the grid, ✗ marks the first fault; follow its chunk from the first round on.",
            ([0, 1, 2],),
            _plan(collective, _whole),
        ),
        Rule(
            "every rank sends to the next one, at once, and no more than needed",
            "Look at one rank: what does it send in each round, and to whom?",
            ([0, 1, 2, 3],),
            _plan(collective, _like_a_ring(collective)),
        ),
        Rule(
            "the ring has the ranks that the list names",
            "Here the second rank of the ring is called 2.",
            ([5, 2, 7],),
            _plan(collective, _whole),
        ),
    )


def _average(tokens: list[list[int]], value: Any) -> Fault | None:
    """Average made-up gradients as the text says, and compare with the mean over all tokens."""
    counts = [count for rank in tokens for count in rank]
    if fault := compare([[0.0] * len(rank) for rank in tokens], _zeros(value), where="the factors"):
        return fault
    factors = [factor for rank in value for factor in rank]
    for token, _ in enumerate(counts):  # the gradient is 1 in one micro-batch, 0 in the others
        averaged = factors[token] / len(tokens)
        wanted = counts[token] / sum(counts)
        if fault := compare(wanted, averaged, where="what one micro-batch adds to the average"):
            return Fault(fault.where, "its share of all tokens", show(averaged))
    return None


def _zeros(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_zeros(item) for item in value]
    return 0.0 if type(value) in (int, float) and abs(value) < 1e300 else value


def _cost(
    collective: str, sizes: list[int], latency: float, bandwidth: float, value: Any
) -> Fault | None:
    found = measure(plan_of(collective, "ring", len(sizes), sizes), flat(latency, bandwidth))
    expected = {
        "rounds": found.rounds,
        "sent": list(found.sent),
        "seconds": found.seconds,
        "busbw": busbw(collective, len(sizes), sum(sizes), found.seconds),
    }
    return compare(expected, value)


def _pieces(
    ranks: int, size: int, latency: float, bandwidth: float, limit: int, value: Any
) -> Fault | None:
    # Only what is asked of any answer; which number is best is not told.
    if not isinstance(value, dict):
        return compare({}, value)
    pieces = value.get("pieces")
    if type(pieces) is not int or not 1 <= pieces <= limit:
        return Fault("result['pieces']", "an int from 1 to the limit", show(pieces))
    if size % pieces:
        return None
    plan = ring_broadcast(ranks, [size // pieces] * pieces)
    seconds = measure(plan, flat(latency, bandwidth)).seconds
    return compare(seconds, value.get("seconds"), where="result['seconds'] of your pieces")


#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "n46.1": _rules("reduce-scatter"),
    "n46.2": _rules("all-gather"),
    "n46.3": (
        Rule(
            "every token weighs the same, on whatever rank it is",
            "The ranks' gradients are averaged afterwards: undo what that gets wrong.",
            ([[30], [10]],),
            _average,
        ),
        Rule(
            "and in whatever micro-batch",
            "A short micro-batch has a mean too, but of fewer tokens.",
            ([[6, 2], [12]],),
            _average,
        ),
    ),
    "n46.4": (
        Rule(
            "rounds, bytes, seconds and bus bandwidth of chunks of one size",
            "The text works this one out.",
            ("reduce-scatter", [1000, 1000, 1000, 1000], 1e-6, 1e9),
            _cost,
        ),
        Rule(
            "the same for chunks of several sizes",
            "The text says which chunk each rank starts with or ends with.",
            ("all-reduce", [1000, 3000, 2000], 1e-6, 1e9),
            _cost,
        ),
    ),
    "n46.5": (
        Rule(
            "pieces and seconds belong together",
            "Count the rounds: when does the last piece come to the last rank?",
            (5, 12_000, 1e-6, 1e9, 4),
            _pieces,
        ),
        Rule(
            "there are no more pieces than allowed",
            "The limit of this example is one piece.",
            (5, 12_000, 1e-6, 1e9, 1),
            _pieces,
        ),
    ),
}
