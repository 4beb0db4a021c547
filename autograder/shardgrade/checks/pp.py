"""Hidden checks of lab pp: orders handed in as data, run and measured by the engine.

How short a step can be is in no engine: 1F1B's and interleaved 1F1B's times are closed forms here,
and pp.3 is measured against a proved lower bound.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_orders import run_handed, too_long, too_many_live
from shardbook.labs.pipeline_bound import lower_bound
from shardbook.labs.values import Fault
from shardbook.schedules.pipeline import PipelineRun, StageTimes
from shardgrade.checks.judging import Case, HiddenCheck, Probe

_Look = Callable[[Case, PipelineRun], Fault | None]

#: forward, and both parts of the backward (s): unlike each other
_TIMES: Final = StageTimes(2.0, 1.5, 1.5)
_A_MICRO_BATCH: Final = 5.0

#: stages, micro-batches, times, limit: where 1F1B is known to leave room
_IDLE: Final = (
    (2, 2, (3, 4, 9), 2),
    (4, 3, (2, 7, 7), 4),
    (6, 5, (9, 6, 6), 6),
    (3, 4, (8, 8, 5), 3),
    (5, 6, (7, 5, 7), 5),
    (4, 4, (9, 8, 3), 4),
)
#: and where the bound is known to be in reach
_SPARE: Final = (
    (3, 4, (7, 5, 3), 6),
    (3, 7, (4, 6, 5), 6),
    (5, 10, (5, 6, 5), 10),
    (6, 14, (5, 5, 6), 12),
    (4, 12, (4, 2, 2), 8),
)
_SAME: Final = (
    (3, 8, (2, 5, 7), 3),
    (5, 6, (7, 5, 2), 5),
    (6, 14, (2, 7, 4), 6),
    (5, 6, (4, 4, 2), 5),
)
_SHORT: Final = (
    (3, 5, (6, 5, 2), 2),
    (6, 7, (5, 5, 3), 3),
    (4, 7, (7, 7, 6), 2),
    (6, 18, (3, 3, 3), 5),
    (4, 4, (5, 7, 3), 3),
)


def _even_counts(rng: Random) -> Iterable[Case]:
    for stages in (2, 3, rng.randint(4, 6), rng.randint(11, 13)):
        yield stages, 2 * rng.randint(stages // 2 + 1, stages + 2)


def _odd_counts(rng: Random) -> Iterable[Case]:
    for stages in (2, 3, rng.randint(4, 7)):
        yield stages, 2 * rng.randint(stages // 2 + 1, stages + 2) + 1


def _few(rng: Random) -> Iterable[Case]:
    for stages in (2, 4, rng.randint(5, 8)):
        yield stages, rng.randint(1, stages - 1)


def _one_stage(rng: Random) -> Iterable[Case]:
    yield 1, 1
    yield 1, 2 * rng.randint(2, 5)


def _plain(look: _Look) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        stages, micro_batches = case
        run = run_handed(outcome.value, stages, stages, micro_batches, times=_TIMES)
        return run if isinstance(run, Fault) else look(case, run)

    return judge


def _anything(case: Case, run: PipelineRun) -> Fault | None:
    return None


def _plain_makespan(case: Case, run: PipelineRun) -> Fault | None:
    stages, micro_batches = case
    most = (micro_batches + stages - 1) * _A_MICRO_BATCH
    return too_long(run, most, "one pass and one filling")


def _plain_live(case: Case, run: PipelineRun) -> Fault | None:
    stages, micro_batches = case
    if fault := _idle_mostly(run, micro_batches + stages - 1):
        return fault
    return too_many_live(run, [min(stages - stage, micro_batches) for stage in range(stages)])


def _idle_mostly(run: PipelineRun, passes: int) -> Fault | None:
    """One micro-batch after the other holds little, too, but that is no pipeline."""
    return too_long(run, 2 * passes * _A_MICRO_BATCH, "twice one pass and one filling")


def _plain_both(case: Case, run: PipelineRun) -> Fault | None:
    return _plain_makespan(case, run) or _plain_live(case, run)


def _full_rounds(rng: Random) -> Iterable[Case]:
    for ranks in (2, 4, rng.choice((6, 8))):
        yield ranks, ranks * rng.randint(2, 3), rng.randint(2, 4)


def _odd_rounds(rng: Random) -> Iterable[Case]:
    for ranks in (3, 5):
        yield ranks, ranks * rng.choice((1, 3)), rng.randint(2, 3)


def _broken_rounds(rng: Random) -> Iterable[Case]:
    for ranks in (3, 4, rng.randint(5, 6)):
        yield ranks, ranks * rng.randint(1, 2) + rng.randint(1, ranks - 1), rng.randint(2, 3)
        yield ranks, rng.randint(1, ranks - 1), 2


def _single_chunks(rng: Random) -> Iterable[Case]:
    for ranks in (2, 4):
        yield ranks, ranks * rng.randint(1, 3), 1


def _chunked(look: _Look) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        ranks, micro_batches, chunks = case
        run = run_handed(outcome.value, ranks, ranks * chunks, micro_batches, times=_TIMES)
        return run if isinstance(run, Fault) else look(case, run)

    return judge


def _chunked_makespan(case: Case, run: PipelineRun) -> Fault | None:
    ranks, micro_batches, chunks = case
    full = -(-micro_batches // ranks) * ranks
    most = (full * chunks + ranks - 1) * _A_MICRO_BATCH
    return too_long(run, most, "one pass and one filling")


def _chunked_live(case: Case, run: PipelineRun) -> Fault | None:
    ranks, micro_batches, chunks = case
    if fault := _idle_mostly(run, micro_batches * chunks + ranks - 1):
        return fault
    ahead = [(chunks - 1) * ranks + 2 * (ranks - 1 - rank) for rank in range(ranks)]
    return too_many_live(run, [min(most + 1, micro_batches * chunks) for most in ahead])


def _small_limits(rng: Random) -> Iterable[Case]:
    yield 1, 3, (2, 1, 1), 1
    for limit in (1, 1, 2):
        yield rng.randint(3, 5), rng.randint(2, 7), tuple(rng.sample(range(1, 8), k=3)), limit


def _split(look: _Look) -> Callable[[Case, Any, Outcome], Fault | None]:
    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        stages, micro_batches, times, limit = case
        run = run_handed(
            outcome.value, stages, stages, micro_batches, kinds="FIW", times=StageTimes(*times)
        )
        if isinstance(run, Fault):
            return run
        return too_many_live(run, [limit] * stages) or look(case, run)

    return judge


def _given(stages: int, micro_batches: int) -> list[list[str]]:
    """1F1B with its backwards in two parts, one right after the other."""
    order = []
    for stage in range(stages):
        lead = min(stages - 1 - stage, micro_batches)
        row = [f"{stage}F{number}" for number in range(lead)]
        for number in range(micro_batches):
            row += [f"{stage}F{lead + number}"] if lead + number < micro_batches else []
            row += [f"{stage}I{number}", f"{stage}W{number}"]
        order.append(row)
    return order


def _beats(case: Case, run: PipelineRun) -> Fault | None:
    stages, micro_batches, times, _ = case
    order = _given(stages, micro_batches)
    given = run_handed(order, stages, stages, micro_batches, kinds="FIW", times=StageTimes(*times))
    if isinstance(given, PipelineRun) and run.makespan < given.makespan:
        return None
    return Fault("the makespan", "less than the given schedule's", f"{run.makespan:g} s")


def _within(share: float) -> _Look:
    def look(case: Case, run: PipelineRun) -> Fault | None:
        bound = lower_bound(*case)
        return too_long(run, bound * (1 + share), f"{share:.0%} over the bound of {bound:g} s")

    return look


_ORDERS: Final = "shardbook.schedules.pipeline.orders"
_MADE: Final = (f"{_ORDERS}:make_order", "shardbook.schedules.pipeline.pipedream:pipedream")

ONE_F_ONE_B: Final = HiddenCheck(
    blocked=(
        *_MADE,
        f"{_ORDERS}:_one_f_one_b",
        f"{_ORDERS}:_interleaved",
        f"{_ORDERS}:_zero_bubble",
    ),
    probes=(
        Probe("complete and runnable", _odd_counts, _plain(_anything)),
        Probe("makespan", _even_counts, _plain(_plain_makespan)),
        Probe("live micro-batches", _even_counts, _plain(_plain_live)),
        Probe("few micro-batches", _few, _plain(_plain_both)),
        Probe("one stage", _one_stage, _plain(_plain_both)),
    ),
)

INTERLEAVED: Final = HiddenCheck(
    blocked=(
        *_MADE,
        f"{_ORDERS}:_interleaved",
        f"{_ORDERS}:_zero_bubble",
        f"{_ORDERS}:_rounds",
        f"{_ORDERS}:_warm_up",
    ),
    probes=(
        Probe("complete and runnable", _odd_rounds, _chunked(_anything)),
        Probe("makespan", _full_rounds, _chunked(_chunked_makespan)),
        Probe("live stage-chunks", _full_rounds, _chunked(_chunked_live)),
        Probe("any micro-batches", _broken_rounds, _chunked(_chunked_makespan)),
        Probe("one chunk", _single_chunks, _chunked(_chunked_makespan)),
    ),
)

SHORTEST_ORDER: Final = HiddenCheck(
    blocked=(
        *_MADE,
        f"{_ORDERS}:_zero_bubble",
        f"{_ORDERS}:_zbv",
        f"{_ORDERS}:_dualpipev",
    ),
    probes=(
        Probe("within the limit", _small_limits, _split(_anything)),
        Probe("beats 1F1B", lambda rng: _IDLE, _split(_beats)),
        Probe("memory to spare", lambda rng: _SPARE, _split(_within(0.01))),
        Probe("memory of 1F1B", lambda rng: _SAME, _split(_within(0.03))),
        Probe("short of memory", lambda rng: _SHORT, _split(_within(0.06))),
    ),
)

CHECKS: Final = {"pp.1": ONE_F_ONE_B, "pp.2": INTERLEAVED, "pp.3": SHORTEST_ORDER}
