"""Hidden checks of tp.1 and tp.3: who has which part of a weight, and which heads.

What a program must compute, one device tells.
"""

from collections.abc import Callable, Iterable
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
from shardbook.labs.handed_tensor_layers import Layer, attention_layer
from shardbook.labs.handed_tensor_programs import BACKWARD, FORWARD, Ran
from shardbook.labs.handed_tensor_results import other_exchanges, wrong_arrays
from shardbook.labs.values import Fault
from shardgrade.checks.judging import Case, HiddenCheck, Probe
from shardgrade.checks.tp_running import PAIR, SPLITTING, Judge, Look, equal, on


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


def _cut(look: Callable[[Case, Cut], Fault | None]) -> Judge:
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


def _attends(*looks: Look) -> Judge:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        cut = _read(case, outcome.value)
        if isinstance(cut, Fault):
            return cut
        return on(lambda case: [attention_layer(cut)], *looks)(case, expected, outcome)

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


CUT_LINEAR: Final = HiddenCheck(
    blocked=(*PAIR, f"{SPLITTING}.wires:split", f"{SPLITTING}.wires:split_all"),
    probes=(
        Probe("columns", _column_cuts, _cut(lambda case, cut: wrong_output(cut))),
        Probe("rows", _row_cuts, _cut(_rows_united)),
        Probe("equal shares", _column_cuts, _cut(lambda case, cut: unequal_share(cut))),
        Probe("side by side", _side_by_side, _cut(lambda case, cut: unlike_parts(cut, case[3]))),
        Probe("sizes that don't divide", _borders, _refused),
    ),
)

ATTENTION_PROGRAM: Final = HiddenCheck(
    blocked=(*PAIR, f"{SPLITTING}.blocks:attention"),
    probes=(
        Probe("heads", _any_heads, _heads),
        Probe("forward", _own_heads, _attends(equal(FORWARD))),
        Probe("backward", _own_heads, _attends(equal(BACKWARD))),
        Probe("copied heads", _copied_heads, _attends(equal(BACKWARD, "dx", "d_wk", "d_wv"))),
        Probe("one sum each way", _any_heads, _attends(_one_sum)),
        Probe("heads that don't divide", _head_borders, _heads_refused),
    ),
)
