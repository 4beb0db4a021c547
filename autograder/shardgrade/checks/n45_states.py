"""Hidden checks of n45.1 to n45.3: the states, by category, rank and world size."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, compare, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

_CATEGORIES: Final = ("weights", "gradients", "master_weights", "momentum", "variance")
_STATES: Final = _CATEGORIES[2:]
_USUAL: Final = ("fp32", "bf16", "fp16")
_ALL_FORMATS: Final = (*_USUAL, "tf32", "fp8", "int8")

#: the engine's ways from a recipe and a world size to bytes
_LEDGER: Final = (
    "shardbook.ledger.recipes:Part.bytes_of",
    "shardbook.ledger.recipes:Part.bytes_per_parameter",
    "shardbook.ledger.stages:Ledger.by_category",
    "shardbook.ledger.stages:Ledger.fullest_rank_bytes",
    "shardbook.ledger.stages:Ledger.lines",
    "shardbook.ledger.stages:Ledger.lines_of",
    "shardbook.ledger.stages:Ledger.padded_parameters",
    "shardbook.ledger.stages:bytes_per_rank",
)


def _one_line_each(formats: tuple[str, ...]) -> Callable[[Random], Iterable[Case]]:
    def cases(rng: Random) -> Iterable[Case]:
        for _ in range(12):
            order = rng.sample(_CATEGORIES, k=len(_CATEGORIES))
            yield ([(category, rng.choice(formats)) for category in order],)

    return cases


def _every_format(rng: Random) -> Iterable[Case]:
    for unusual in _ALL_FORMATS:
        yield ([(category, unusual) for category in _CATEGORIES],)
    yield from _one_line_each(_ALL_FORMATS)(rng)


def _repeated(rng: Random) -> Iterable[Case]:
    for _ in range(12):
        lines = [(category, rng.choice(_USUAL)) for category in _CATEGORIES]
        lines += [(rng.choice(_CATEGORIES), rng.choice(_USUAL)) for _ in range(rng.randint(1, 4))]
        rng.shuffle(lines)
        yield (lines,)


def _some_missing(rng: Random) -> Iterable[Case]:
    yield ([],)
    for _ in range(12):
        some = rng.sample(_CATEGORIES, k=rng.randint(1, 4))
        yield ([(category, rng.choice(_USUAL)) for category in some],)


def _same_sum(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    value = outcome.value
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    if wrong := [size for size in value.values() if type(size) not in (int, float)]:
        return Fault("a value of the result", "an int", show(wrong[0]))
    return compare(sum(expected.values()), sum(value.values()), where="sum", exact=False)


def _nothing_kept(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    zero = {category: size for category, size in expected.items() if size == 0}
    value = outcome.value
    if isinstance(value, dict):
        value = {
            category: size for category, size in value.items() if category not in dict(case[0])
        }
    return compare(zero, value, exact=False)


# A function that returns nothing right has no ints to be praised for, and no care either: the next
# two ask for the right sum first.
def _all_ints(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    if fault := _same_sum(case, expected, outcome):
        return fault
    wrong = [size for size in outcome.value.values() if type(size) is not int]
    return Fault("a value of the result", "an int", show(wrong[0])) if wrong else None


def _untouched(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    return _same_sum(case, expected, outcome) or outcome.changed


def _sizes(rng: Random) -> dict[str, int]:
    return {category: rng.choice((1, 2, 4)) for category in _CATEGORIES}


def _cut_evenly(rng: Random) -> Iterable[Case]:
    for stage in (0, 1, 2, 3) * 4:
        ranks = rng.randint(2, 9)
        units = [ranks * rng.randint(1, 50) for _ in range(rng.randint(1, 4))]
        yield units, _sizes(rng), ranks, stage, rng.randrange(ranks)


def _cut_unevenly(units: int) -> Callable[[Random], Iterable[Case]]:
    def cases(rng: Random) -> Iterable[Case]:
        for stage in (1, 2) * 8:
            ranks = rng.randint(3, 9)
            sizes = [ranks * rng.randint(0, 9) + rng.randint(1, ranks - 1) for _ in range(units)]
            yield sizes, _sizes(rng), ranks, stage, ranks - 1 - rng.randrange(min(ranks, 3))

    return cases


def _cut_either_way(rng: Random) -> Iterable[Case]:
    yield from _cut_evenly(rng)
    yield from _cut_unevenly(2)(rng)


def _alone(rng: Random) -> Iterable[Case]:
    for stage in (0, 1, 2, 3):
        yield [rng.randint(1, 99) for _ in range(3)], _sizes(rng), 1, stage, 0


def _part(
    which: Callable[[int], Iterable[str]], index: int
) -> Callable[[Case, Any, Outcome], Fault | None]:
    """Look at stored bytes (index 0) or padding (1) of the categories that ``which`` stage names."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        for category in which(case[3]):
            what = ("stored", "padding")[index]
            pair = outcome.value.get(category) if isinstance(outcome.value, dict) else outcome.value
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                return Fault(f"result['{category}']", "a pair (stored, padding)", show(pair))
            where = f"{what} bytes of {category}"
            if fault := compare(expected[category][index], pair[index], where=where, exact=False):
                return fault
        return None

    return judge


def _sharded(stage: int) -> tuple[str, ...]:
    return (_STATES * (stage >= 1)) + ("gradients",) * (stage >= 2) + ("weights",) * (stage >= 3)


def _replicated(stage: int) -> tuple[str, ...]:
    return tuple(category for category in _CATEGORIES if category not in _sharded(stage))


def _stored(units: list[int], sizes: dict[str, int], ranks: int, stage: int) -> int:
    piece = sum(-(-unit // ranks) for unit in units)
    sharded = _sharded(stage)
    return sum(size * (piece if c in sharded else sum(units)) for c, size in sizes.items())


def _between_two_sizes(rng: Random) -> Iterable[Case]:
    made = 0
    while made < 16:
        units = [rng.randint(1, 60) for _ in range(rng.randint(1, 4))]
        sizes, stage, ranks = _sizes(rng), rng.randint(1, 3), rng.randint(2, 24)
        less, more = (_stored(units, sizes, n, stage) for n in (ranks, ranks - 1))
        if more - less >= 2:
            made += 1
            yield units, sizes, stage, rng.randint(less + 1, more - 1), 100


def _just_full(rng: Random) -> Iterable[Case]:
    for _ in range(8):
        ranks = rng.randint(2, 24)
        units, sizes, stage = (
            [ranks * (ranks - 1) * rng.randint(1, 9)],
            _sizes(rng),
            rng.randint(1, 3),
        )
        yield units, sizes, stage, _stored(units, sizes, ranks, stage), 100


def _no_size_fits(rng: Random) -> Iterable[Case]:
    for stage in (0, 1, 2, 3) * 2:
        sizes, limit = _sizes(rng), rng.randint(2, 12)
        units = [limit * rng.randint(2, 9)]
        yield units, sizes, stage, _stored(units, sizes, limit, stage) - 1, limit
        # Else a function that always says None would be right.
        yield units, sizes, stage, _stored(units, sizes, 1, stage) + 1, limit


def _many_ranks(rng: Random) -> Iterable[Case]:
    # Counting up from one rank would take minutes.
    for _ in range(3):
        ranks = rng.randint(2 * 10**8, 9 * 10**8)
        sizes = _sizes(rng)
        yield [ranks * (ranks - 1)], sizes, 3, sum(sizes.values()) * ranks + 1, 10**9


BYTES_PER_PARAMETER: Final = HiddenCheck(
    blocked=(
        *_LEDGER,
        "shardbook.ledger.recipes:Recipe.bytes_per_parameter",
        "shardbook.ledger.recipes:Recipe.by_category",
    ),
    probes=(
        Probe("categories", _one_line_each(_USUAL)),
        Probe("several copies", _repeated, _same_sum),
        Probe("not kept", _some_missing, _nothing_kept),
        Probe("formats", _every_format, _same_sum),
        Probe("whole bytes", _one_line_each(_USUAL), _all_ints),
        Probe("input untouched", _one_line_each(_USUAL), _untouched),
    ),
)

BYTES_ON_RANK: Final = HiddenCheck(
    blocked=_LEDGER,
    probes=(
        Probe("replicated", _cut_either_way, _part(_replicated, 0)),
        Probe("sharded", _cut_evenly, _part(_sharded, 0)),
        Probe("uneven units", _cut_unevenly(3), _part(_sharded, 0)),
        Probe("where the padding is", _cut_unevenly(1), _part(lambda stage: _STATES, 1)),
        Probe("one rank", _alone),
    ),
)

SMALLEST_RANKS: Final = HiddenCheck(
    blocked=(
        *_LEDGER,
        "shardbook.ledger.fits:floor_bytes",
        "shardbook.ledger.fits:largest_model",
        "shardbook.ledger.fits:smallest_ranks",
    ),
    probes=(
        Probe("padding counts", _between_two_sizes),
        Probe("just full", _just_full),
        Probe("no size fits", _no_size_fits),
        Probe("many ranks", _many_ranks),
    ),
)
