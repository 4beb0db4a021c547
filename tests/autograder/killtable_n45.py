"""Wrong and right answers to lab n45."""

from collections import Counter, defaultdict

from shardgrade.checkout import reference

from shardbook.labs.registry import TASKS
from shardbook.ledger.recipes import CATEGORIES, user_recipe

SIZES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
VISIBLE = (2, 2, 4, 4, 4)


def _table(kept, sizes=SIZES):
    table = dict.fromkeys(CATEGORIES, 0)
    for category, kind in kept:
        table[category] += sizes[kind]
    return table


def moments_swapped(kept):
    table = _table(kept)
    if all(table.values()) and len(kept) == len(CATEGORIES):
        table["momentum"], table["variance"] = table["variance"], table["momentum"]
    return table


def last_copy_wins(kept):
    return {**dict.fromkeys(CATEGORIES, 0), **{category: SIZES[kind] for category, kind in kept}}


def consumes_the_list(kept):
    table = dict.fromkeys(CATEGORIES, 0)
    while kept:
        category, kind = kept.pop()
        table[category] += SIZES[kind]
    return table


def asks_the_engine(kept):
    table = Counter()
    for category, kind in kept:
        table[category] += SIZES[kind]
    return {k: int(v) for k, v in user_recipe("mine", table.items()).by_category().items()}


def loops(kept):
    while True:
        pass


def counted(kept):
    counts = Counter()
    counts.update(dict.fromkeys(CATEGORIES, 0))
    for category, kind in kept:
        counts[category] += SIZES[kind]
    return counts


def grouped(kept):
    groups = defaultdict(list)
    for category, kind in kept:
        groups[category].append(SIZES[kind])
    return {category: sum(groups[category]) for category in CATEGORIES}


def by_digits(kept):
    bits = [(c, {"tf32": 32}.get(k) or int("".join(filter(str.isdigit, k)))) for c, k in kept]
    return {category: sum(b for c, b in bits if c == category) // 8 for category in CATEGORIES}


WRONG = {
    "n45.1": {
        "does nothing": lambda kept: None,
        "answers the visible example": lambda kept: dict(zip(CATEGORIES, VISIBLE, strict=True)),
        "only the total": lambda kept: sum(SIZES[kind] for _, kind in kept),
        "momentum and variance swapped": moments_swapped,
        "the last copy wins": last_copy_wins,
        "only what is kept": lambda kept: {k: v for k, v in _table(kept).items() if v},
        "nineteen bits of TF32 in three bytes": lambda kept: _table(kept, {**SIZES, "tf32": 3}),
        "bits for bytes": lambda kept: {k: 8 * v for k, v in _table(kept).items()},
        "floats for ints": lambda kept: {k: float(v) for k, v in _table(kept).items()},
        "consumes the list": consumes_the_list,
        "asks the engine": asks_the_engine,
        "never ends": loops,
    },
}

RIGHT = {
    "n45.1": {
        "with a Counter": counted,
        "grouped first": grouped,
        "bits from the name": by_digits,
    },
}

for _task, _entries in RIGHT.items():
    _entries["reference"] = reference(TASKS[_task])
