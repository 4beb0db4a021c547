"""Wrong and right answers to lab n45."""

import bisect
import functools
import re
from collections import Counter, defaultdict
from fractions import Fraction

from shardgrade.checkout import reference

from shardbook.labs.registry import TASKS
from shardbook.ledger import fragmentation
from shardbook.ledger.checkpointing import best_interval as engine_best_interval
from shardbook.ledger.fits import smallest_ranks
from shardbook.ledger.recipes import CATEGORIES, user_recipe
from shardbook.ledger.stages import bytes_per_rank

SIZES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
_SIZES_SHOWN = dict(zip(CATEGORIES, (2, 2, 4, 4, 4), strict=True))
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


def _sharded(category, stage):
    return stage >= {"weights": 3, "gradients": 2}.get(category, 1)


def on_rank(
    units,
    sizes,
    ranks,
    stage,
    rank,
    *,
    sharded=_sharded,
    piece_of=lambda unit, ranks: -(-unit // ranks),
    together=False,
    padding=True,
    padded_rank=lambda rank, ranks: rank,
    alone=lambda pair: pair,
    pad_whole=False,
):
    units = [sum(units)] if together else units
    pieces = [piece_of(unit, ranks) for unit in units]
    place = padded_rank(rank, ranks)
    real = [max(0, min(p, u - place * p)) for u, p in zip(units, pieces, strict=True)]
    missing = (sum(pieces) - sum(real)) if padding else 0
    table = {}
    for category, size in sizes.items():
        pair = (sum(units) * size, 0)
        if pad_whole:
            pair = (sum(pieces) * ranks * size, 0)
        if sharded(category, stage):
            pair = (sum(pieces) * size, missing * size)
        table[category] = alone(pair) if ranks == 1 else pair
    return table


def on_rank_with(**mistakes):
    return lambda *arguments: on_rank(*arguments, **mistakes)


def on_rank_listed(units, sizes, ranks, stage, rank):
    """Deals the elements out, one by one."""
    counted = {category: [0, 0] for category in sizes}
    for category, size in sizes.items():
        if not _sharded(category, stage):
            counted[category][0] = sum(units) * size
            continue
        for unit in units:
            elements = [True] * unit
            while len(elements) % ranks:
                elements.append(False)
            share = len(elements) // ranks
            mine = elements[rank * share : (rank + 1) * share]
            counted[category][0] += len(mine) * size
            counted[category][1] += mine.count(False) * size
    return {category: tuple(pair) for category, pair in counted.items()}


def on_rank_changing(units, sizes, ranks, stage, rank):
    """Pads the caller's own list."""
    for i, unit in enumerate(units):
        units[i] = -(-unit // ranks) * ranks
    return on_rank(units, sizes, ranks, stage, rank)


def engine_on_rank(units, sizes, ranks, stage, rank):
    table = dict.fromkeys(sizes, (0, 0))
    for line in bytes_per_rank(units, ranks, stage, user_recipe("mine", sizes.items())).lines_of(
        rank
    ):
        table[line.category] = (line.bytes, line.padding_bytes)
    return table


def _fullest(units, sizes, ranks, stage, piece_of=lambda unit, ranks: -(-unit // ranks)):
    cut = sum(piece_of(unit, ranks) for unit in units)
    return sum(s * (cut if _sharded(c, stage) else sum(units)) for c, s in sizes.items())


def _search(limit, fits):
    return bisect.bisect_left(range(1, limit + 1), True, key=fits) + 1


def fewest(units, sizes, stage, card, limit):
    found = _search(limit, lambda ranks: _fullest(units, sizes, ranks, stage) <= card)
    return found if found <= limit else None


def fewest_without_padding(units, sizes, stage, card, limit):
    exact = functools.partial(_fullest, piece_of=Fraction)
    found = _search(limit, lambda ranks: exact(units, sizes, ranks, stage) <= card)
    return found if found <= limit else None


def fewest_with_room(units, sizes, stage, card, limit):
    found = _search(limit, lambda ranks: _fullest(units, sizes, ranks, stage) < card)
    return found if found <= limit else None


def fewest_or_limit(units, sizes, stage, card, limit):
    return fewest(units, sizes, stage, card, limit) or limit


def fewest_one_by_one(units, sizes, stage, card, limit):
    ranks = 1
    while ranks <= limit:
        if _fullest(units, sizes, ranks, stage) <= card:
            return ranks
        ranks += 1
    return None


def fewest_by_powers(units, sizes, stage, card, limit):
    """Doubles, then halves the step."""
    if _fullest(units, sizes, limit, stage) > card:
        return None
    too_few, step = 0, 1
    while too_few + step < limit and _fullest(units, sizes, too_few + step, stage) > card:
        too_few, step = too_few + step, 2 * step
    while step:
        next_one = too_few + step
        if next_one < limit and _fullest(units, sizes, next_one, stage) > card:
            too_few = next_one
        else:
            step //= 2
    return too_few + 1


def one_too_many(units, sizes, stage, card, limit):
    found = fewest(units, sizes, stage, card, limit)
    return found and found + 1


def engine_fewest(units, sizes, stage, card, limit):
    return smallest_ranks(units, card, stage, user_recipe("mine", sizes.items()), limit)


def _peaks(layers, layer, checkpoint):
    """(recomputed, peak, interval) of each interval."""
    rows = []
    for interval in range(1, layers + 1):
        starts = list(range(0, layers, interval))
        last = layers - starts[-1]
        at = [
            (i + 1) * checkpoint + min(interval, layers - s) * layer for i, s in enumerate(starts)
        ]
        rows.append((layers - last, max(at), interval))
    return rows


def _answer(row):
    return row and {"recomputed": row[0], "peak": row[1], "interval": row[2]}


def interval(
    layers,
    layer,
    checkpoint,
    limit,
    *,
    slack=0,
    order=lambda row: row,
    peak=lambda row, checkpoint: row[1],
    again=lambda row, layers: row[0],
    otherwise=lambda rows: None,
):
    rows = _peaks(layers, layer, checkpoint)
    fitting = [row for row in rows if row[1] <= limit + slack * checkpoint]
    row = min(fitting, key=order) if fitting else otherwise(rows)
    return row and _answer((again(row, layers), peak(row, checkpoint), row[2]))


def interval_with(**mistakes):
    return lambda *arguments: interval(*arguments, **mistakes)


def interval_walked(layers, layer, checkpoint, limit):
    """Simulates backward, byte by byte, and keeps the best so far."""
    best = None
    for every in range(layers, 0, -1):
        segments = [min(every, layers - start) for start in range(0, layers, every)]
        memory = checkpoint * len(segments) + layer * segments[-1]
        peak, again = memory, 0
        memory -= checkpoint + layer * segments[-1]
        for segment in reversed(segments[:-1]):
            again += segment
            memory += layer * segment
            peak = max(peak, memory)
            memory -= checkpoint + layer * segment
        assert memory == 0
        row = (again, peak, every)
        if peak <= limit and (best is None or row < best):
            best = row
    return _answer(best)


def engine_interval(layers, layer, checkpoint, limit):
    found = engine_best_interval(layers, layer, checkpoint)
    again = layers - (layers % found.interval or found.interval)
    return {"interval": found.interval, "recomputed": again, "peak": found.peak_bytes}


class Heap:
    """Keeps a list of holes, and mends it when a block is freed."""

    def __init__(self, low, high, choose=min, merge=True):
        self.holes = [(low, high - low)] if high > low else []
        self.choose, self.merge = choose, merge

    def take(self, size):
        fitting = [hole for hole in self.holes if hole[1] >= size]
        if not fitting:
            return None
        start, room = hole = self.choose(fitting)
        self.holes.remove(hole)
        if room > size:
            self.holes.append((start + size, room - size))
        self.holes.sort()
        return start

    def give(self, start, size):
        self.holes = sorted([*self.holes, (start, size)])
        merged = []
        for hole in self.holes:
            if self.merge and merged and sum(merged[-1]) == hole[0]:
                merged[-1] = (merged[-1][0], merged[-1][1] + hole[1])
            else:
                merged.append(hole)
        self.holes = merged


def allocator(
    capacity,
    area,
    actions,
    *,
    choose=min,
    merge=True,
    free_kept=True,
    move=True,
    goes_on=False,
    shown=lambda holes, low: holes,
):
    heap, kept_heap = Heap(area, capacity, choose, merge), Heap(0, area)
    live, addresses = {}, []
    for verb, name, *size in actions:
        if verb == "free":
            start, old, where = live.pop(name)
            where.give(start, old)
            addresses.append(None)
            continue
        if verb == "keep" and not move:
            addresses.append(live[name][0])
            continue
        target, wanted = (heap, size[0]) if verb == "allocate" else (kept_heap, live[name][1])
        start = target.take(wanted)
        addresses.append("full" if start is None else start)
        if start is None:
            if goes_on:
                continue
            break
        if verb == "keep" and free_kept:
            heap.give(*live[name][:2])
        live[name] = (start, wanted, target)
    return addresses, shown(heap.holes, area)


def allocator_with(**mistakes):
    return lambda *arguments: allocator(*arguments, **mistakes)


def allocator_on_a_map(capacity, area, actions):
    """One character for each byte."""
    memory, live, addresses = ["."] * capacity, {}, []
    for action in actions:
        verb, name = action[:2]
        if verb == "free":
            start, size = live.pop(name)
            memory[start : start + size] = "." * size
            addresses.append(None)
            continue
        size = action[2] if verb == "allocate" else live[name][1]
        low, high = (area, capacity) if verb == "allocate" else (0, area)
        start = "".join(memory[low:high]).find("." * size)
        if start < 0:
            addresses.append("full")
            break
        if verb == "keep":
            old = live[name][0]
            memory[old : old + size] = "." * size
        live[name] = (low + start, size)
        memory[low + start : low + start + size] = "#" * size
        addresses.append(low + start)
    line = "".join(memory[area:])
    return addresses, [(area + m.start(), len(m[0])) for m in re.finditer(r"\.+", line)]


def engine_allocator(capacity, area, actions):
    steps = fragmentation.run(capacity, [fragmentation.Action(*a) for a in actions], area)
    blocks = [step.heap.find(step.action.name) for step in steps]
    return [block and block.start for block in blocks], []


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
    "n45.2": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: on_rank([10], _SIZES_SHOWN, 4, 1, 3),
        "gradients already cut at stage 1": on_rank_with(
            sharded=lambda c, stage: _sharded(c, stage + (c == "gradients"))
        ),
        "pads what is not cut": on_rank_with(pad_whole=True),
        "weights never cut": on_rank_with(sharded=lambda c, s: c != "weights" and _sharded(c, s)),
        "padding dropped": on_rank_with(piece_of=lambda unit, ranks: unit // ranks),
        "all units padded together": on_rank_with(together=True),
        "padding not told": on_rank_with(padding=False),
        "padding on the first ranks": on_rank_with(padded_rank=lambda r, n: n - 1 - r),
        "padding on the next rank": on_rank_with(padded_rank=lambda r, n: r + 1),
        "a lone rank keeps a copy": on_rank_with(alone=lambda pair: (2 * pair[0], 0)),
        "only the stored bytes": lambda *a: {k: v[0] for k, v in on_rank(*a).items()},
        "changes the units": on_rank_changing,
        "asks the engine": engine_on_rank,
    },
    "n45.3": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: 4,
        "padding dropped": fewest_without_padding,
        "wants a byte to spare": fewest_with_room,
        "the limit if nothing fits": fewest_or_limit,
        "one by one": fewest_one_by_one,
        "one too many": one_too_many,
        "asks the engine": engine_fewest,
    },
    "n45.4": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: _answer((3, 31, 3)),
        "peak without the checkpoints": interval_with(peak=lambda row, c: row[1] - c),
        "recomputes every layer": interval_with(again=lambda row, layers: layers),
        "one checkpoint over the limit": interval_with(slack=1),
        "the lowest peak": interval_with(order=lambda row: (row[1], row[2])),
        "the longest of equals": interval_with(order=lambda row: (row[0], -row[2])),
        "the lowest peak if nothing fits": interval_with(
            otherwise=lambda rows: min(rows, key=lambda row: row[1])
        ),
        "asks the engine": engine_interval,
    },
    "n45.5": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: ([3, 6, 0, 3], [(8, 2)]),
        "best fit": allocator_with(choose=lambda holes: min(holes, key=lambda h: (h[1], h[0]))),
        "last fit": allocator_with(choose=max),
        "neighbours stay apart": allocator_with(merge=False),
        "kept blocks stay where they are": allocator_with(move=False),
        "the old place of a kept block is lost": allocator_with(free_kept=False),
        "goes on after a failure": allocator_with(goes_on=True),
        "holes counted from the area's end": allocator_with(
            shown=lambda holes, low: [(start - low, size) for start, size in holes]
        ),
        "holes as ranges": allocator_with(
            shown=lambda holes, low: [(start, start + size) for start, size in holes]
        ),
        "asks the engine": engine_allocator,
    },
}

RIGHT = {
    "n45.1": {
        "with a Counter": counted,
        "grouped first": grouped,
        "bits from the name": by_digits,
    },
    "n45.2": {"element by element": on_rank_listed, "by formula": on_rank},
    "n45.3": {"bisected": fewest, "doubling": fewest_by_powers},
    "n45.4": {"by rows": interval, "walked": interval_walked},
    "n45.5": {"with a list of holes": allocator, "on a map": allocator_on_a_map},
}

for _task, _entries in RIGHT.items():
    _entries["reference"] = reference(TASKS[_task])
