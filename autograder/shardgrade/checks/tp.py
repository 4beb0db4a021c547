"""Hidden checks of lab tp: cuts and programs handed in as data, run on simulated ranks.

What a program must compute, one device tells; how little must be sent, closed forms.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_tensor_cuts import (
    Cut,
    needless_input,
    not_refused,
    read_cut,
    unequal_share,
    unlike_parts,
    wrong_output,
)
from shardbook.labs.handed_tensor_heads import HeadCut, read_heads, unequal_heads
from shardbook.labs.handed_tensor_layers import (
    Layer,
    attention_layer,
    mlp_stack,
    sequence_stack,
    word_loss,
)
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

_Judge = Callable[[Case, Any, Outcome], Fault | None]
_Look = Callable[[Case, Layer, Ran], Fault | None]
_WIDTH: Final = 4


def _column_cuts(rng: Random) -> Iterable[Case]:
    for ranks in (1, 2, rng.randint(3, 5)):
        yield rng.randint(2, 7), ranks * rng.randint(2, 4), "column", 1, ranks


def _row_cuts(rng: Random) -> Iterable[Case]:
    for ranks in (1, 2, rng.randint(3, 5)):
        yield ranks * rng.randint(2, 4), rng.randint(2, 7), "row", rng.randint(1, 2), ranks


def _side_by_side(rng: Random) -> Iterable[Case]:
    for parts in (2, 3, rng.randint(2, 4)):
        ranks = rng.randint(2, 4)
        yield rng.randint(2, 7), parts * ranks * rng.randint(1, 3), "column", parts, ranks


def _borders(rng: Random) -> Iterable[Case]:
    """Sizes that divide where they need not, and sizes that don't where they must."""
    for ranks in (2, 3, 4):
        some = ranks * rng.randint(2, 4)
        odd = some + rng.randint(1, ranks - 1)
        yield some, odd, "column", 1, ranks
        yield odd, some, "column", 1, ranks
        yield odd, some, "row", 1, ranks
        yield some, odd, "row", 1, ranks
        yield some, ranks * odd, "column", ranks, ranks


def _cut(look: Callable[[Case, Cut], Fault | None]) -> _Judge:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        rows, columns, _, _, ranks = case
        cut = read_cut(outcome.value, rows, columns, ranks)
        return cut if isinstance(cut, Fault) else look(case, cut)

    return judge


def _rows_united(case: Case, cut: Cut) -> Fault | None:
    return wrong_output(cut) or needless_input(cut)


def _refused(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    if expected is None:
        return not_refused(outcome.value)
    return _cut(lambda case, cut: None)(case, expected, outcome)


def _on(layers: Callable[[Case], Iterable[Layer]], *looks: _Look) -> _Judge:
    """Run the program on each of the layers, and look at what it did."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        for layer in layers(case):
            ran = run_handed(layer, outcome.value)
            if isinstance(ran, Fault):
                return ran
            for look in looks:
                if fault := look(case, layer, ran):
                    return fault
        return None

    return judge


def _equal(phase: str, *names: str) -> _Look:
    return lambda case, layer, ran: wrong_arrays(ran, layer, phase, names or None)


def _sums(phase: str, name: str) -> _Look:
    def look(case: Case, layer: Layer, ran: Ran) -> Fault | None:
        blocks = case[0]
        wrong = wrong_arrays(ran, layer, phase, (name,)) if blocks == 1 else None
        return wrong or other_exchanges(ran, phase, blocks)

    return look


def _stacks(*, biased: bool = False) -> Callable[[Case], Iterable[Layer]]:
    return lambda case: [mlp_stack(case[0], case[1], ranks, biased=biased) for ranks in (1, 2, 3)]


def _blocks(counts: Sequence[int], gates: Sequence[bool]) -> Callable[[Random], Iterable[Case]]:
    return lambda rng: [(count, gated) for count in counts for gated in gates]


def _counted(case: Case) -> Iterable[Layer]:
    """More than one rank: alone, nothing is sent."""
    return [mlp_stack(case[0], case[1], ranks, biased=False) for ranks in (2, 3)]


def _own_heads(rng: Random) -> Iterable[Case]:
    """No copies: as many key/value heads as ranks, or more."""
    for ranks, times in ((2, 2), (3, 1), (rng.randint(2, 4), rng.randint(1, 2))):
        kv_heads = ranks * times
        yield kv_heads * rng.randint(1, 3), kv_heads, ranks


def _copied_heads(rng: Random) -> Iterable[Case]:
    for kv_heads in (1, 2):
        ranks = kv_heads * rng.randint(2, 3)
        yield ranks * rng.randint(1, 2), kv_heads, ranks


def _any_heads(rng: Random) -> Iterable[Case]:
    yield from _own_heads(rng)
    yield from _copied_heads(rng)


def _head_borders(rng: Random) -> Iterable[Case]:
    ranks = rng.choice((3, 5))
    yield 4, 4, ranks
    yield 12, 4, 6
    yield 12, 3, 2
    yield from _own_heads(rng)
    yield from _copied_heads(rng)


def _read(case: Case, value: Any) -> HeadCut | Fault:
    return read_heads(value, *case)


def _heads(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    cut = _read(case, outcome.value)
    return cut if isinstance(cut, Fault) else unequal_heads(cut)


def _attends(*looks: _Look) -> _Judge:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        cut = _read(case, outcome.value)
        if isinstance(cut, Fault):
            return cut
        return _on(lambda case: [attention_layer(cut)], *looks)(case, expected, outcome)

    return judge


def _one_sum(case: Case, layer: Layer, ran: Ran) -> Fault | None:
    _, kv_heads, ranks = case
    if kv_heads < ranks:
        return other_exchanges(ran, FORWARD, 1) or other_exchanges(ran, BACKWARD, 1, "sum_copies")
    fault = wrong_arrays(ran, layer, BACKWARD, ("dx",))
    return fault or other_exchanges(ran, FORWARD, 1) or other_exchanges(ran, BACKWARD, 1)


def _heads_refused(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    if expected is None:
        return not_refused(outcome.value)
    cut = _read(case, outcome.value)
    return cut if isinstance(cut, Fault) else None


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
    looks: tuple[_Look, ...] = (
        _equal(FORWARD),
        _equal(BACKWARD, "dx"),
        _same_bytes,
        lambda case, layer, ran: too_many_products(ran, 2 * blocks, 4 * blocks),
        lambda case, layer, ran: kept_whole(ran, alone),
    )
    return _on(_even_tokens, *looks)(case, expected, outcome)


def _few_ranks(rng: Random) -> Iterable[Case]:
    return [(1,), (2,), (3,), (rng.randint(4, 6),)]


def _these(*ranks: int) -> Callable[[Random], Iterable[Case]]:
    return lambda rng: [(count,) for count in ranks]


def _tells(numbers: int) -> _Judge:
    """At most so many numbers a token all-reduced, besides dx; for dx the closed form is known."""

    def look(case: Case, layer: Layer, ran: Ran) -> Fault | None:
        (ranks,) = case
        tokens = len(layer.start.arrays[0]["x"])
        most = all_reduce_bytes(ranks, numbers * tokens + 2 * ranks)
        most += all_reduce_bytes(ranks, tokens * _WIDTH)
        sent = sent_bytes(ran, FORWARD) + sent_bytes(ran, BACKWARD)
        return Fault("a rank", "fewer bytes sent", f"{sent:,} B") if sent > most else None

    return _on(lambda case: [word_loss(*case, tokens=12 * case[0])], _equal(BACKWARD, "dx"), look)


def _losses(scale: float) -> Callable[[Case], Iterable[Layer]]:
    return lambda case: [word_loss(*case, scale=scale)]


_SPLITTING: Final = "shardbook.training.splitting"
_PAIR: Final = (f"{_SPLITTING}.tensor_parallel:pair", f"{_SPLITTING}.tensor_parallel:linear")

CHECKS: Final = {
    "tp.1": HiddenCheck(
        blocked=(*_PAIR, f"{_SPLITTING}.wires:split", f"{_SPLITTING}.wires:split_all"),
        probes=(
            Probe("columns", _column_cuts, _cut(lambda case, cut: wrong_output(cut))),
            Probe("rows", _row_cuts, _cut(_rows_united)),
            Probe("equal shares", _column_cuts, _cut(lambda case, cut: unequal_share(cut))),
            Probe(
                "side by side", _side_by_side, _cut(lambda case, cut: unlike_parts(cut, case[3]))
            ),
            Probe("sizes that don't divide", _borders, _refused),
        ),
    ),
    "tp.2": HiddenCheck(
        blocked=_PAIR,
        probes=(
            Probe("forward", _blocks((1,), (False,)), _on(_stacks(biased=True), _equal(FORWARD))),
            Probe("backward", _blocks((1,), (False,)), _on(_stacks(), _equal(BACKWARD))),
            Probe(
                "one sum forward",
                _blocks((1, 3), (False, True)),
                _on(_counted, _sums(FORWARD, "y")),
            ),
            Probe(
                "one sum backward",
                _blocks((1, 3), (False, True)),
                _on(_counted, _sums(BACKWARD, "dx")),
            ),
            Probe(
                "gate",
                _blocks((1,), (True,)),
                _on(_stacks(), _equal(FORWARD), _equal(BACKWARD, "dx", "d_gate0")),
            ),
            Probe(
                "stack",
                _blocks((2, 4), (False, True)),
                _on(_stacks(), _equal(FORWARD), _equal(BACKWARD, "dx")),
            ),
        ),
    ),
    "tp.3": HiddenCheck(
        blocked=(*_PAIR, f"{_SPLITTING}.blocks:attention"),
        probes=(
            Probe("heads", _any_heads, _heads),
            Probe("forward", _own_heads, _attends(_equal(FORWARD))),
            Probe("backward", _own_heads, _attends(_equal(BACKWARD))),
            Probe("copied heads", _copied_heads, _attends(_equal(BACKWARD, "dx", "d_wk", "d_wv"))),
            Probe("one sum each way", _any_heads, _attends(_one_sum)),
            Probe("heads that don't divide", _head_borders, _heads_refused),
        ),
    ),
    "tp.4": HiddenCheck(
        blocked=_PAIR,
        probes=(
            Probe(
                "forward", _blocks((1,), (False, True)), _on(_tokens(biased=True), _equal(FORWARD))
            ),
            Probe("backward", _blocks((1,), (False, True)), _on(_tokens(), _equal(BACKWARD))),
            Probe(
                "same bytes",
                _blocks((1,), (False,)),
                _on(_even_tokens, _equal(FORWARD), _equal(BACKWARD, "dx"), _same_bytes),
            ),
            Probe("memory", _blocks((1,), (True,)), _memory),
            Probe(
                "stack",
                _blocks((2, 3), (False, True)),
                _on(_tokens(), _equal(FORWARD), _equal(BACKWARD, "dx")),
            ),
        ),
    ),
    "tp.5": HiddenCheck(
        blocked=(f"{_SPLITTING}.vocabulary:cross_entropy",),
        probes=(
            Probe("loss", _few_ranks, _on(_losses(1.0), _equal(FORWARD))),
            Probe("gradients", _few_ranks, _on(_losses(1.0), _equal(BACKWARD))),
            Probe("large logits", _few_ranks, _on(_losses(1000.0), _equal(BACKWARD, "dx"))),
            Probe("three numbers a token", _these(3), _tells(3)),
            Probe("two ranks", _these(2), _tells(1)),
            Probe("more ranks", _these(4, 6), _tells(1)),
        ),
    ),
}
