"""The visible examples of lab n45: what the text shows, compared with the engine."""

from typing import Any, Final

from shardbook.labs.checking import Rule
from shardbook.labs.values import Fault, compare, show
from shardbook.ledger.checkpointing import checkpoint_peak_bytes
from shardbook.ledger.fits import smallest_ranks
from shardbook.ledger.fragmentation import Action, Hole, run
from shardbook.ledger.recipes import CATEGORIES, RECIPES, Recipe, user_recipe
from shardbook.ledger.stages import bytes_per_rank

_SGD: Final = [("weights", "fp32"), ("gradients", "fp32")]
_ADAM: Final = [
    ("weights", "fp16"),
    ("gradients", "fp16"),
    ("master_weights", "fp32"),
    ("momentum", "fp32"),
    ("variance", "fp32"),
]
_SIZES: Final = {name: int(size) for name, size in RECIPES["mixed-adam"].by_category().items()}


def _as_recipe(name: str) -> Any:
    def judge(kept: list[tuple[str, str]], value: Any) -> Fault | None:
        sizes = RECIPES[name].by_category()
        return compare({category: int(size) for category, size in sizes.items()}, value)

    return judge


def _recipe(sizes: dict[str, int]) -> Recipe:
    return user_recipe("the lab's", sizes.items())


def _on_rank(
    units: list[int], sizes: dict[str, int], ranks: int, stage: int, rank: int, value: Any
) -> Fault | None:
    expected = dict.fromkeys(sizes, (0, 0))
    for line in bytes_per_rank(units, ranks, stage, _recipe(sizes)).lines_of(rank):
        stored, padding = expected[line.category]
        expected[line.category] = (stored + line.bytes, padding + line.padding_bytes)
    return compare(expected, value)


def _fewest_ranks(
    units: list[int], sizes: dict[str, int], stage: int, card: int, limit: int, value: Any
) -> Fault | None:
    return compare(smallest_ranks(units, card, stage, _recipe(sizes), limit), value)


def _interval(
    layers: int, layer_bytes: int, checkpoint_bytes: int, limit: int, value: Any
) -> Fault | None:
    # Only what is asked of any answer; which one is best is not told.
    if not isinstance(value, dict):
        return compare({}, value)
    interval = value.get("interval")
    if type(interval) is not int or not 1 <= interval <= layers:
        return Fault("result['interval']", "an int from 1 to layers", show(interval))
    peak = checkpoint_peak_bytes(layers, layer_bytes, checkpoint_bytes, interval)
    if peak > limit:
        return Fault("your interval", "a peak within the limit", "a peak above it")
    if fault := compare(peak, value.get("peak"), where="result['peak'] of your interval"):
        return fault
    again = value.get("recomputed")
    if type(again) is not int or again % interval or not 0 <= again < layers:
        return Fault("result['recomputed']", "an int, the layers of whole segments", show(again))
    return None


def _nothing(*arguments: Any) -> Fault | None:
    return compare(None, arguments[-1])


def _allocator(capacity: int, area: int, actions: list[Any], value: Any) -> Fault | None:
    steps = run(capacity, (Action(*action) for action in actions), area)
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return Fault("result", "a pair (addresses, holes)", show(value))
    addresses: list[int | str | None] = []
    for step in steps:
        block = step.heap.find(step.action.name)
        addresses.append("full" if step.failure else block.start if block else None)
    if not isinstance(value[0], (tuple, list)):
        return compare([], value[0], where="the addresses")
    for number, (step, wanted, got) in enumerate(
        zip(steps, addresses, value[0], strict=False), start=1
    ):
        if fault := compare(wanted, got, where=f"the address of action {number} ({step.action})"):
            return fault
    if len(value[0]) != len(addresses):
        return Fault("the addresses", "one for each action that ran", f"{len(value[0])}")
    holes: tuple[Hole, ...] = steps[-1].heap.holes
    return compare([(hole.start, hole.size) for hole in holes], value[1], where="the holes")


_ON_RANK: Final = (
    Rule(
        "what a stage shards is cut, the rest is stored whole",
        "Go through the stages: which categories does this one shard?",
        ([8, 16], _SIZES, 4, 2, 1),
        _on_rank,
    ),
    Rule(
        "a unit that doesn't divide is padded at its end",
        "The text works this unit out, rank by rank.",
        ([10], _SIZES, 4, 1, 3),
        _on_rank,
    ),
    Rule(
        "each unit is padded on its own, and a rank may hold nothing but padding",
        "Cut each unit by itself; on the last ranks little or nothing real is left.",
        ([5, 10], _SIZES, 4, 3, 3),
        _on_rank,
    ),
)

_TWO: Final = {**dict.fromkeys(CATEGORIES, 0), "weights": 1, "momentum": 1}

_FIT: Final = (
    Rule(
        "the smallest number of ranks that fits",
        "The text works this one out.",
        ([10], _TWO, 1, 13, 100),
        _fewest_ranks,
    ),
    Rule(
        "None if no number of ranks fits",
        "What is not sharded stays on every rank.",
        ([10], _TWO, 1, 9, 100),
        _fewest_ranks,
    ),
)

_CHECKPOINTS: Final = (
    Rule(
        "interval, layers and peak belong together, within the limit",
        "The text walks through backward for this model.",
        (5, 10, 1, 31),
        _interval,
    ),
    Rule(
        "the same for a model whose segments are equal",
        "When the last segment is as long as the others, which one has the peak?",
        (12, 10, 3, 60),
        _interval,
    ),
    Rule(
        "None if nothing fits",
        "What does your function return when it has no candidate?",
        (5, 10, 1, 9),
        _nothing,
    ),
)

_KEPT: Final = [("allocate", "a", 3), ("allocate", "b", 2), ("keep", "a"), ("allocate", "c", 3)]

_ALLOCATOR: Final = (
    Rule(
        "blocks go into the first hole that is large enough",
        "Look from the lowest address up.",
        (
            12,
            0,
            [
                ("allocate", "a", 4),
                ("allocate", "b", 2),
                ("allocate", "c", 3),
                ("free", "a"),
                ("allocate", "d", 3),
            ],
        ),
        _allocator,
    ),
    Rule(
        "a kept block moves into the area",
        "The text works this program out.",
        (10, 3, _KEPT),
        _allocator,
    ),
    Rule(
        "a request that doesn't fit ends the program",
        "Enough bytes may be free, and still no hole is large enough.",
        (
            6,
            0,
            [
                ("allocate", "a", 2),
                ("allocate", "b", 2),
                ("free", "a"),
                ("allocate", "c", 3),
                ("free", "b"),
            ],
        ),
        _allocator,
    ),
)

#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "n45.1": (
        Rule(
            "each line counts in its own category, by its own format",
            "Go through the list line by line; the text has the table of formats.",
            (_ADAM,),
            _as_recipe("mixed-adam"),
        ),
        Rule(
            "every category is in the result",
            "A recipe without an optimizer state still answers for all five categories.",
            (_SGD,),
            _as_recipe("fp32-sgd"),
        ),
        Rule(
            "a second copy adds to the first",
            "Two lines of one category are two arrays in memory.",
            ([*_ADAM, ("gradients", "fp32")],),
            _as_recipe("mixed-adam-resident-fp32-gradients"),
        ),
    ),
    "n45.2": _ON_RANK,
    "n45.3": _FIT,
    "n45.4": _CHECKPOINTS,
    "n45.5": _ALLOCATOR,
}
