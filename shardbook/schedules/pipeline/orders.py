"""The orders that systems use: what each rank does, one action after the other.

Sources: GPipe, Huang et al., NeurIPS 2019; 1F1B, Narayanan et al., SOSP 2019, with a flush:
Fan et al., PPoPP 2021 (DAPPLE); interleaved 1F1B, Narayanan et al., SC 2021, section 2.2; looped
BFS, Lamy-Poirier, MLSys 2023; zero bubble (ZB1P, ZBV), Qi et al., ICLR 2024, sections 2 and 6;
DualPipeV, after DeepSeek-V3's DualPipe, 2024. The lists equal those of
`torch.distributed.pipelining` 2.13, and what that refuses is refused here.

[Note: pattern and count] Stages of one rank take their micro-batches in order. An order is thus
a pattern of (stage, kind), and the micro-batch is how often the pair has occurred before.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from shardbook.errors import InputError, one_of, whole
from shardbook.schedules.pipeline.actions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Order,
    PipelineAction,
    overlapped,
)

#: stage and kind
Step = tuple[int, str]

#: the largest schedules: ranks, micro-batches, chunks a rank, and all actions
MOST_RANKS: Final = 4096
MOST_MICRO_BATCHES: Final = 10**6
MOST_CHUNKS: Final = 1024
_MOST_ACTIONS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule: ``order_of`` a rank from (rank, ranks, micro-batches, chunks).

    ``chunks``: how many stages a rank must have (None: any). ``planned_for``: of how many
    micro-batches it is thought out, from (ranks, micro-batches).
    """

    name: str
    order_of: Callable[[int, int, int, int], Iterable[PipelineAction]]
    chunks: int | None = None
    planned_for: Callable[[int, int], int] = lambda ranks, micro_batches: micro_batches


def make_order(schedule: str, ranks: int, micro_batches: int, chunks: int | None = None) -> Order:
    """Return the order of ``schedule`` on ``ranks`` ranks (P), each with ``chunks`` stages (v).

    By default v is 1 for gpipe and 1f1b, else 2. Raises `InputError` for what PyTorch refuses.

    (S56, S57)
    """
    known = SCHEDULES[one_of("schedule", schedule, SCHEDULES)]
    whole("stages", ranks, 1, MOST_RANKS)
    whole("micro-batches", micro_batches, 1, MOST_MICRO_BATCHES)
    if chunks is None:
        chunks = known.chunks or 2
    whole("chunks", chunks, 1, MOST_CHUNKS)
    if known.chunks not in (None, chunks):
        raise InputError("chunks", chunks, f"{schedule} has {known.chunks} a rank")
    planned = known.planned_for(ranks, micro_batches)
    if ranks * planned * chunks * 3 > _MOST_ACTIONS:
        allowed = f"give a schedule of at most {_MOST_ACTIONS:,} actions"
        if planned > micro_batches:
            raise InputError(
                "stages", ranks, f"{allowed}; {schedule} plans {planned:,} micro-batches"
            )
        raise InputError("micro-batches", micro_batches, allowed)
    return tuple(tuple(known.order_of(rank, ranks, micro_batches, chunks)) for rank in range(ranks))


def _counted(steps: Iterable[Step]) -> list[PipelineAction]:
    """Give each step its micro-batch. See [Note: pattern and count]."""
    numbers: defaultdict[Step, Iterator[int]] = defaultdict(count)
    return [PipelineAction._make((*step, next(numbers[step]), ())) for step in steps]


def _gpipe(rank: int, ranks: int, micro_batches: int, chunks: int) -> list[PipelineAction]:
    return _counted([(rank, FORWARD)] * micro_batches + [(rank, BACKWARD)] * micro_batches)


def _one_f_one_b(rank: int, ranks: int, micro_batches: int, chunks: int) -> list[PipelineAction]:
    if micro_batches < ranks:
        raise InputError("micro-batches", micro_batches, f"1f1b needs at least {ranks}, the stages")
    warm_up = ranks - 1 - rank
    steps = [(rank, FORWARD)] * warm_up
    steps += [(rank, FORWARD), (rank, BACKWARD)] * (micro_batches - warm_up)
    return _counted(steps + [(rank, BACKWARD)] * warm_up)


def _looped_bfs(rank: int, ranks: int, micro_batches: int, chunks: int) -> Iterator[PipelineAction]:
    stages = range(rank, ranks * chunks, ranks)
    for stage in stages:
        for micro_batch in range(micro_batches):
            yield PipelineAction(stage, FORWARD, micro_batch)
    for stage in reversed(stages):
        for micro_batch in reversed(range(micro_batches)):
            yield PipelineAction(stage, BACKWARD, micro_batch)


def _interleaved(rank: int, ranks: int, micro_batches: int, chunks: int) -> list[PipelineAction]:
    forwards, backwards = _rounds(rank, ranks, micro_batches, chunks)
    warm_up = _warm_up(ranks, micro_batches, chunks, 2 * (ranks - 1 - rank))
    steps = [(stage, FORWARD) for stage in forwards[:warm_up]]
    for at, stage in enumerate(backwards):
        if warm_up + at < len(forwards):
            steps.append((forwards[warm_up + at], FORWARD))
        steps.append((stage, BACKWARD))
    return _counted(steps)


def _zero_bubble(rank: int, ranks: int, micro_batches: int, chunks: int) -> list[PipelineAction]:
    """ZB1P: as interleaved with half the warm-up; weight parts run ``rank`` steps late."""
    forwards, backwards = _rounds(rank, ranks, micro_batches, chunks)
    warm_up = _warm_up(ranks, micro_batches, chunks, ranks - 1 - rank)
    steps = [(stage, FORWARD) for stage in forwards[:warm_up]]
    for at, stage in enumerate(backwards):
        if warm_up + at < len(forwards):
            steps.append((forwards[warm_up + at], FORWARD))
        steps.append((stage, BACKWARD_INPUT))
        if at >= rank:
            steps.append((backwards[at - rank], BACKWARD_WEIGHT))
    late = backwards[max(0, len(backwards) - rank) :]
    return _counted([*steps, *((stage, BACKWARD_WEIGHT) for stage in late)])


def _warm_up(ranks: int, micro_batches: int, chunks: int, lead: int) -> int:
    a_round = micro_batches // max(1, micro_batches // ranks)
    return min((chunks - 1) * a_round + lead, chunks * micro_batches)


def _rounds(rank: int, ranks: int, micro_batches: int, chunks: int) -> tuple[list[int], list[int]]:
    """The rank's stages in the order of forwards and of backwards: chunk by chunk in each round."""
    rounds = max(1, micro_batches // ranks)
    if micro_batches % rounds:
        raise InputError(
            "micro-batches", micro_batches, f"give a multiple of the {rounds} rounds of {ranks}"
        )
    forwards = [
        rank + chunk * ranks for chunk in range(chunks) for _ in range(micro_batches // rounds)
    ]
    backwards = [(chunks - 1) * ranks + 2 * rank - stage for stage in forwards]
    return forwards * rounds, backwards * rounds


def _at_least_a_turn(ranks: int, micro_batches: int) -> int:
    return max(2 * ranks - 1, micro_batches)


def _zbv(rank: int, ranks: int, micro_batches: int, chunks: int) -> list[PipelineAction]:
    """Planned for at least 2P − 1 micro-batches; those there are none of are left out."""
    planned = _at_least_a_turn(ranks, micro_batches)
    down, up = rank, 2 * ranks - 1 - rank
    turn = [(up, FORWARD), (up, BACKWARD_INPUT), (up, BACKWARD_WEIGHT)]
    back = [(down, BACKWARD_INPUT), (down, BACKWARD_WEIGHT)]
    first = 2 * (ranks - rank) - 1
    steps = [(down, FORWARD)] * first
    steps += [(up, FORWARD), (down, FORWARD)] * rank
    steps += turn * (ranks - rank)
    steps += [(down, FORWARD), *back, *turn] * (planned - first - rank)
    steps += [*back, *turn] * (first - ranks + rank)
    steps += [(down, BACKWARD_INPUT), (up, BACKWARD_INPUT)] * rank
    steps += back * (ranks - rank)
    steps += [(up, BACKWARD_WEIGHT)] * rank + [(down, BACKWARD_WEIGHT)] * rank
    counted = _counted(steps)
    if planned == micro_batches:
        return counted
    return [action for action in counted if (action.micro_batch or 0) < micro_batches]


def _dualpipev(rank: int, ranks: int, micro_batches: int, chunks: int) -> Iterator[PipelineAction]:
    if micro_batches < 2 * ranks:
        allowed = f"dualpipev needs at least {2 * ranks}, two a rank"
        raise InputError("micro-batches", micro_batches, allowed)
    down, up, after = rank, 2 * ranks - 1 - rank, ranks - 1 - rank
    weights: deque[PipelineAction] = deque()
    done: Counter[Step] = Counter()

    def take(stage: int, kind: str) -> PipelineAction:
        step = (stage, FORWARD if kind == FORWARD else BACKWARD)
        action = PipelineAction(stage, kind, done[step])
        done[step] += 1
        if kind == BACKWARD_INPUT:
            weights.append(PipelineAction(stage, BACKWARD_WEIGHT, action.micro_batch))
        return action

    for _ in range(2 * after):
        yield take(down, FORWARD)
    for _ in range(rank + 1):
        yield take(down, FORWARD)
        yield take(up, FORWARD)
    for _ in range(after):
        yield take(up, BACKWARD_INPUT)
        yield weights.popleft()
        yield take(up, FORWARD)
    for turn in range(micro_batches - 2 * ranks + rank + 1):
        forward, backward = take(down, FORWARD), take(up, BACKWARD)
        # The last rank has both ends of this hand-over: apart, its next rank waits less.
        yield from (forward, backward) if turn == after == 0 else (overlapped(forward, backward),)
        yield overlapped(take(up, FORWARD), take(down, BACKWARD))
    for _ in range(after):
        yield take(up, BACKWARD)
        yield overlapped(take(up, FORWARD), take(down, BACKWARD))
    # From half of these on, weight parts are put off to fill the bubble of the drain.
    whole_backwards = rank + 1
    for at in range(2 * (rank + 1)):
        kind = BACKWARD if at < whole_backwards else BACKWARD_INPUT
        yield take(down if at % 2 else up, kind)
    for _ in range(after):
        yield weights.popleft()
        yield take(down, BACKWARD_INPUT)
    yield from weights


#: name on the command line → the schedule
SCHEDULES: Final = {
    "gpipe": Schedule("GPipe", _gpipe, chunks=1),
    "1f1b": Schedule("1F1B", _one_f_one_b, chunks=1),
    "interleaved-1f1b": Schedule("Interleaved1F1B", _interleaved),
    "looped-bfs": Schedule("LoopedBFS", _looped_bfs),
    "interleaved-zero-bubble": Schedule("InterleavedZeroBubble", _zero_bubble),
    "zbv": Schedule("ZBVZeroBubble", _zbv, chunks=2, planned_for=_at_least_a_turn),
    "dualpipev": Schedule("DualPipeV", _dualpipev, chunks=2),
}
