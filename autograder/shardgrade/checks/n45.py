"""Hidden checks of lab n45."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, compare, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

_CATEGORIES: Final = ("weights", "gradients", "master_weights", "momentum", "variance")
_USUAL: Final = ("fp32", "bf16", "fp16")
_ALL_FORMATS: Final = (*_USUAL, "tf32", "fp8", "int8")


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
    if fault := _no_numbers(outcome.value):
        return fault
    return compare(sum(expected.values()), sum(outcome.value.values()), where="sum", exact=False)


def _no_numbers(value: Any) -> Fault | None:
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    wrong = [size for size in value.values() if type(size) not in (int, float)]
    return Fault("a value of the result", "an int", show(wrong[0])) if wrong else None


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


CHECKS: Final = {
    "n45.1": HiddenCheck(
        blocked=(
            "shardbook.ledger.recipes:Part.bytes_of",
            "shardbook.ledger.recipes:Part.bytes_per_parameter",
            "shardbook.ledger.recipes:Recipe.bytes_per_parameter",
            "shardbook.ledger.recipes:Recipe.by_category",
            "shardbook.ledger.stages:Ledger.by_category",
            "shardbook.ledger.stages:bytes_per_rank",
        ),
        probes=(
            Probe("categories", _one_line_each(_USUAL)),
            Probe("several copies", _repeated, _same_sum),
            Probe("not kept", _some_missing, _nothing_kept),
            Probe("formats", _every_format, _same_sum),
            Probe("whole bytes", _one_line_each(_USUAL), _all_ints),
            Probe("input untouched", _one_line_each(_USUAL), _untouched),
        ),
    ),
}
