"""Hidden checks of tp.2, tp.4 and tp.5: programs handed in as data, run on simulated ranks.

What a program must compute, one device tells; how little must be sent, closed forms.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_tensor_layers import Layer, mlp_stack, sequence_stack, word_loss
from shardbook.labs.handed_tensor_programs import BACKWARD, FORWARD, Ran
from shardbook.labs.handed_tensor_results import (
    all_reduce_bytes,
    kept_whole,
    other_exchanges,
    run_handed,
    sent_bytes,
    too_many_products,
    too_many_sent,
    wrong_arrays,
)
from shardbook.labs.values import Fault
from shardgrade.checks.judging import Case, HiddenCheck, Probe
from shardgrade.checks.tp_running import PAIR, SPLITTING, Judge, Look, equal, on

_WIDTH: Final = 4


def _sums(phase: str, name: str) -> Look:
    def look(case: Case, layer: Layer, ran: Ran) -> Fault | None:
        blocks = case[0]
        wrong = wrong_arrays(ran, layer, phase, (name,)) if blocks == 1 else None
        return wrong or other_exchanges(ran, phase, blocks)

    return look


def _stacks(*, biased: bool = False) -> Callable[[Case], Iterable[Layer]]:
    return lambda case: [mlp_stack(case[0], case[1], ranks, biased=biased) for ranks in (1, 2, 3)]


def _blocks(counts: Sequence[int], gates: Sequence[bool]) -> Callable[[Random], Iterable[Case]]:
    return lambda rng: [(count, gated) for count in counts for gated in gates]


def _stack(rng: Random) -> Iterable[Case]:
    for switch in (False, True):
        yield 2, switch
        yield rng.randint(3, 5), switch


def _counted(case: Case) -> Iterable[Layer]:
    """More than one rank: alone, nothing is sent."""
    return [mlp_stack(case[0], case[1], ranks, biased=False) for ranks in (2, 3)]


def _tokens(*, biased: bool = False) -> Callable[[Case], Iterable[Layer]]:
    """Numbers of tokens that ranks divide, and that they don't."""
    sizes = ((1, 3), (2, 7), (3, 6), (4, 9))
    return lambda case: [
        sequence_stack(case[0], ranks, biased=biased, tokens=tokens) for ranks, tokens in sizes
    ]


def _even_tokens(case: Case) -> Iterable[Layer]:
    return [sequence_stack(case[0], ranks, biased=False, tokens=12) for ranks in (2, 3)]


def _same_bytes(case: Case, layer: Layer, ran: Ran) -> Fault | None:
    blocks, gather_again = case
    ranks = len(layer.start.arrays)
    sums = blocks * all_reduce_bytes(ranks, 12 * _WIDTH)
    rows = 2 * blocks * all_reduce_bytes(ranks, _WIDTH)
    again = sums // 2 if gather_again else 0
    fault = too_many_sent(ran, FORWARD, sums)
    return fault or too_many_sent(ran, BACKWARD, sums + rows + again)


def _memory(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    blocks = case[0]
    alone = run_handed(sequence_stack(blocks, 1, biased=False, tokens=12), outcome.value)
    if isinstance(alone, Fault):
        return alone
    looks: tuple[Look, ...] = (
        equal(FORWARD),
        equal(BACKWARD, "dx"),
        _same_bytes,
        lambda case, layer, ran: too_many_products(ran, 2 * blocks, 4 * blocks),
        lambda case, layer, ran: kept_whole(ran, alone),
    )
    return on(_even_tokens, *looks)(case, expected, outcome)


def _few_ranks(rng: Random) -> Iterable[Case]:
    return [(1,), (2,), (3,), (rng.randint(4, 6),)]


def _these(*ranks: int) -> Callable[[Random], Iterable[Case]]:
    return lambda rng: [(count,) for count in ranks]


def _tells(numbers: int) -> Judge:
    """At most so many numbers a token all-reduced, besides dx; for dx the closed form is known."""

    def look(case: Case, layer: Layer, ran: Ran) -> Fault | None:
        (ranks,) = case
        tokens = len(layer.start.arrays[0]["x"])
        most = all_reduce_bytes(ranks, numbers * tokens + 2 * ranks)
        most += all_reduce_bytes(ranks, tokens * _WIDTH)
        sent = sent_bytes(ran, FORWARD) + sent_bytes(ran, BACKWARD)
        return Fault("a rank", "fewer bytes sent", f"{sent:,} B") if sent > most else None

    return on(lambda case: [word_loss(*case, tokens=12 * case[0])], equal(BACKWARD, "dx"), look)


def _losses(scale: float) -> Callable[[Case], Iterable[Layer]]:
    return lambda case: [word_loss(*case, scale=scale)]


MLP_PROGRAM: Final = HiddenCheck(
    blocked=PAIR,
    probes=(
        Probe("forward", _blocks((1,), (False,)), on(_stacks(biased=True), equal(FORWARD))),
        Probe("backward", _blocks((1,), (False,)), on(_stacks(), equal(BACKWARD))),
        Probe(
            "one sum forward",
            _blocks((1, 3), (False, True)),
            on(_counted, _sums(FORWARD, "y")),
        ),
        Probe(
            "one sum backward",
            _blocks((1, 3), (False, True)),
            on(_counted, _sums(BACKWARD, "dx")),
        ),
        Probe(
            "gate",
            _blocks((1,), (True,)),
            on(_stacks(), equal(FORWARD), equal(BACKWARD, "dx", "d_gate0")),
        ),
        Probe(
            "stack",
            _stack,
            on(_stacks(), equal(FORWARD), equal(BACKWARD, "dx")),
        ),
    ),
)

SEQUENCE_PROGRAM: Final = HiddenCheck(
    blocked=PAIR,
    probes=(
        Probe("forward", _blocks((1,), (False, True)), on(_tokens(biased=True), equal(FORWARD))),
        Probe("backward", _blocks((1,), (False, True)), on(_tokens(), equal(BACKWARD))),
        Probe(
            "same bytes",
            _blocks((1,), (False,)),
            on(_even_tokens, equal(FORWARD), equal(BACKWARD, "dx"), _same_bytes),
        ),
        Probe("memory", _blocks((1,), (True,)), _memory),
        Probe(
            "stack",
            _stack,
            on(_tokens(), equal(FORWARD), equal(BACKWARD, "dx")),
        ),
    ),
)

LOSS_PROGRAM: Final = HiddenCheck(
    blocked=(f"{SPLITTING}.vocabulary:cross_entropy",),
    probes=(
        Probe("loss", _few_ranks, on(_losses(1.0), equal(FORWARD))),
        Probe("gradients", _few_ranks, on(_losses(1.0), equal(BACKWARD))),
        Probe("large logits", _few_ranks, on(_losses(1000.0), equal(BACKWARD, "dx"))),
        Probe("three numbers a token", _these(3), _tells(3)),
        Probe("two ranks", _these(2), _tells(1)),
        Probe("more ranks", _these(4, 6), _tells(1)),
    ),
)
