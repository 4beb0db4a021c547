"""Hidden check of n45.5: a first-fit allocator; each criterion has programs that need only it."""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.values import Fault, compare, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

_Action = tuple[Any, ...]


def _filled(rng: Random, blocks: int) -> tuple[list[_Action], list[int]]:
    sizes = [rng.randint(2, 40) for _ in range(blocks)]
    return [("allocate", f"b{i}", size) for i, size in enumerate(sizes)], sizes


def _holes_apart(rng: Random) -> Iterable[Case]:
    """Freed blocks have live neighbours, so that only the choice of the hole counts."""
    for _ in range(12):
        actions, sizes = _filled(rng, 12)
        freed = rng.sample(range(1, 11, 2), k=4)
        actions += [("free", f"b{i}") for i in freed]
        for number in range(3):
            actions.append(("allocate", f"new{number}", min(sizes[i] for i in freed)))
        yield sum(sizes) + 200, 0, actions


def _holes_together(rng: Random) -> Iterable[Case]:
    """Three neighbours are freed in any order; what is asked fits only all three together."""
    for _ in range(12):
        actions, sizes = _filled(rng, 8)
        first = rng.randint(0, 5)
        three = [first, first + 1, first + 2]
        actions += [("free", f"b{i}") for i in rng.sample(three, k=3)]
        actions.append(("allocate", "large", sum(sizes[i] for i in three)))
        yield sum(sizes), 0, actions


def _kept_apart(rng: Random) -> Iterable[Case]:
    for _ in range(12):
        area, actions = 0, []
        for i in range(rng.randint(3, 6)):
            size = rng.randint(2, 30)
            actions += [("allocate", f"long{i}", size), ("allocate", f"short{i}", size + 5)]
            if rng.random() < 0.8 or i == 0:
                actions.append(("keep", f"long{i}"))
                area += size
                actions.append(("allocate", f"reuse{i}", size))
        yield area + 1000, area, actions


def _runs_out(rng: Random) -> Iterable[Case]:
    for number in range(8):
        actions, sizes = _filled(rng, 6)
        more: list[_Action] = [("allocate", "too-large", 50), ("allocate", "small", 1)]
        if number % 2:
            yield sum(sizes) + 20, 0, actions + more
        else:  # the area is too small for what is to be kept
            yield sum(sizes) + 100, 1, [*actions, ("keep", "b0"), ("allocate", "small", 1)]


def _final_holes(rng: Random) -> Iterable[Case]:
    for number in range(12):
        actions, sizes = _filled(rng, 9)
        actions += [("free", f"b{i}") for i in rng.sample(range(1, 8, 2), k=3)]
        area = 0 if number % 2 else rng.randint(5, 20)
        yield area + sum(sizes) + rng.choice((0, 10)), area, actions


def _addresses(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    value = outcome.value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return Fault("result", "a pair (addresses, holes)", show(value))
    if not isinstance(value[0], (tuple, list)):
        return Fault("the addresses", "a list", show(value[0]))
    for step, (wanted, got) in enumerate(zip(expected[0], value[0], strict=False)):
        if fault := compare(wanted, got, where=f"the address at step {step}"):
            return fault
    if len(value[0]) != len(expected[0]):
        wanted = "one entry for each action up to the one that fails"
        return Fault("the addresses", wanted, f"{len(value[0])} entries")
    return None


def _holes(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    value = outcome.value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return Fault("result", "a pair (addresses, holes)", show(value))
    return compare(expected[1], value[1], where="the holes")


FIRST_FIT: Final = HiddenCheck(
    blocked=(
        "shardbook.ledger.fragmentation:Heap._holes",
        "shardbook.ledger.fragmentation:Heap.area_holes",
        "shardbook.ledger.fragmentation:Heap.first_fit",
        "shardbook.ledger.fragmentation:Heap.holes",
        "shardbook.ledger.fragmentation:_step",
        "shardbook.ledger.fragmentation:run",
    ),
    probes=(
        Probe("first fit", _holes_apart, _addresses),
        Probe("neighbours grow together", _holes_together, _addresses),
        Probe("the area", _kept_apart, _addresses),
        Probe("running out", _runs_out, _addresses),
        Probe("hole map", _final_holes, _holes),
    ),
)
