"""The planner's answer as a source lecture's prompt asks for it: four paragraphs for a decision.

"Model and hardware in; strategy, memory, communication and throughput out." (S71)
"""

from dataclasses import dataclass

from shardbook.numbers.units import format_bytes, format_count, format_seconds
from shardbook.planner.choosing import choose
from shardbook.planner.plan import ALL, Answer, Candidate, judge
from shardbook.planner.traffic import sent_bytes


@dataclass(frozen=True, slots=True)
class Brief:
    """What to run, what it stores, what it sends, and how fast it is; and the simplest layout."""

    strategy: str
    memory: str
    communication: str
    throughput: str
    simplest: str

    def __str__(self) -> str:
        return "\n".join(f"{name}: {getattr(self, name)}" for name in self.__slots__)


def brief(answer: Answer, row: int = 0) -> Brief | None:
    """Return a row of the ranked answer in words, or None if nothing fits (S71).

    Raises:
        IndexError: there is no such row.
    """
    if not answer.ranked:
        return None
    best = answer.ranked[row]
    return Brief(
        f"{best.layout}; {best.micro_batches:,} micro-batches a step",
        _memory(answer, best),
        _communication(answer, best),
        _throughput(answer, best),
        _simplest(answer, best),
    )


def _memory(answer: Answer, best: Candidate) -> str:
    room = answer.cluster.card.memory * ALL.usable
    parts = sorted(best.peak.pieces, key=lambda piece: -piece[1])
    named = ", ".join(
        f"{name.replace('_', ' ')} {format_bytes(size, 3)}" for name, size in parts[:3] if size
    )
    beside = best.peak.host_bytes + best.peak.nvme_bytes
    more = f"; {format_bytes(beside, 3)} a card lie beside it" if beside else ""
    return (
        f"{format_bytes(best.peak.bytes, 3)} at the peak, of {format_bytes(room, 3)}"
        f" that may be filled; most of it {named}{more}"
    )


def _communication(answer: Answer, best: Candidate) -> str:
    sent = {name: size for name, size in sent_bytes(answer.model, best.layout).items() if size}
    named = ", ".join(f"{name} {format_bytes(size, 3)}" for name, size in sent.items())
    share = best.time.compute / best.time.seconds
    computing = f"{share:.0%}" if share < 0.99 else "more than 99%"
    return (
        f"a card sends {named or 'nothing'} a step; it computes for {computing} of the step,"
        f" and the rest is mostly {best.time.waits_most_for}"
    )


def _throughput(answer: Answer, best: Candidate) -> str:
    flops = answer.model_flops(best)
    dollars = answer.dollars_per_million_tokens(best)
    money = f", ${dollars:.3g} a million tokens" if dollars else ""
    return (
        f"{format_seconds(best.seconds, 3)} a step,"
        f" {format_count(round(answer.tokens_per_second(best)), 3)} tokens/s,"
        f" {flops / 1e12:.0f} TFLOP/s a card ({flops / answer.cluster.card.peak:.0%} of the peak)"
        f"{money}"
    )


def _simplest(answer: Answer, best: Candidate) -> str:
    choice = choose(answer.model, answer.cluster)
    made = choice.layout and judge(answer.model, answer.cluster, choice.layout)
    if not isinstance(made, Candidate):
        return "none fits with micro-batches of one sequence"
    if made.layout == best.layout:
        return "the same"
    return (
        f"{made.layout}; its step takes {made.seconds / best.seconds:.3g} times as long"
        f" (the limit was {choice.limit})"
    )
