"""Wrong and right answers to lab n47."""

from itertools import accumulate, pairwise

from shardgrade.checkout import reference

from shardbook.labs.registry import TASKS
from shardbook.schedules.buckets import fill_buckets
from shardbook.schedules.fsdp import Policy, equal_units, fsdp_plan
from shardbook.schedules.units import flat_parameter


def layout(
    sizes,
    ranks,
    *,
    shard_of=lambda total, n: -(-total // n),
    begin=lambda offset, size: offset,
    padding=lambda total, shard, n: shard * n - total,
    stop=0,
    empty=False,
    only_used=False,
    whole=False,
):
    total = sum(size for _, size in sizes)
    shard = shard_of(total, ranks)
    starts = list(accumulate([size for _, size in sizes], initial=0))
    pieces = [[] for _ in range(ranks)]
    for (name, size), offset in zip(sizes, starts, strict=False):
        for rank in range(ranks):
            low = max(0, rank * shard - offset)
            high = min(size, (rank + 1) * shard - offset)
            if whole:
                low, high = 0, size if rank == min(offset // shard, ranks - 1) else 0
            if high > low:
                pieces[rank].append((name, low, high - stop))
            elif empty and size == 0 and rank == min(offset // shard, ranks - 1):
                pieces[rank].append((name, 0, 0))
    return {
        "offsets": [begin(o, size) for (_, size), o in zip(sizes, starts, strict=False)],
        "shard": shard,
        "padding": padding(total, shard, ranks),
        "pieces": [piece for piece in pieces if piece] if only_used else pieces,
    }


def layout_with(**mistakes):
    return lambda *arguments: layout(*arguments, **mistakes)


def layout_if(when, **mistakes):
    """With mistakes for some sizes only."""

    def answer(sizes, ranks):
        total = sum(size for _, size in sizes)
        return layout(sizes, ranks, **(mistakes if when(total, ranks) else {}))

    return answer


def layout_of_elements(sizes, ranks):
    """Deals the elements out, one by one."""
    elements = [(name, at) for name, size in sizes for at in range(size)]
    padding = -len(elements) % ranks
    shard = (len(elements) + padding) // ranks
    pieces = []
    for rank in range(ranks):
        mine = elements[rank * shard : (rank + 1) * shard]
        names = dict.fromkeys(name for name, _ in mine)
        at = {name: [i for other, i in mine if other == name] for name in names}
        pieces.append([(name, at[name][0], at[name][-1] + 1) for name in names])
    offsets = [sum(size for _, size in sizes[:k]) for k in range(len(sizes))]
    return {"offsets": offsets, "shard": shard, "padding": padding, "pieces": pieces}


def engine_layout(sizes, ranks):
    flat = flat_parameter(dict(sizes), ranks)
    pieces = [[(p.name, p.start, p.stop) for p in flat.pieces if p.rank == r] for r in range(ranks)]
    offsets = list(flat.offsets.values())
    return {"offsets": offsets, "shard": flat.shard, "padding": flat.padding, "pieces": pieces}


def buckets(
    layers,
    capacity,
    first,
    latency,
    bandwidth,
    *,
    inside=lambda bucket: bucket,
    small_first=True,
    before=False,
    rest=True,
    waits=True,
    queue=True,
    forward=False,
    pays=lambda count: 1,
):
    made, bucket, held = [], [], 0
    numbers = range(len(layers)) if forward else range(len(layers) - 1, -1, -1)
    for number in numbers:
        size = layers[number][1]
        limit = first if small_first and not made else capacity
        if before and bucket and held + size > limit:
            made.append(bucket)
            bucket, held = [], 0
        bucket.append(number)
        held += size
        if held >= limit:
            made.append(bucket)
            bucket, held = [], 0
    if bucket and rest:
        made.append(bucket)
    ready = dict(
        zip(reversed(range(len(layers))), accumulate(s for s, _ in reversed(layers)), strict=True)
    )
    end = max(ready.values()) if not waits else 0.0
    for bucket in made:
        start = max(ready[number] for number in bucket) if waits else 0.0
        seconds = latency * pays(len(bucket)) + sum(layers[n][1] for n in bucket) / bandwidth
        end = (max(end, start) if queue else start) + seconds
    return {"buckets": [inside(bucket) for bucket in made], "end": end}


def buckets_with(**mistakes):
    return lambda *arguments: buckets(*arguments, **mistakes)


def buckets_by_cuts(layers, capacity, first, latency, bandwidth):
    """Looks for each border in the running sum, then goes back in time from bucket to bucket."""
    sizes = [size for _, size in reversed(layers)]
    count, cuts = len(sizes), [0]
    while cuts[-1] < count:
        limit = capacity if len(cuts) > 1 else first
        ends = (k + 1 for k in range(cuts[-1], count) if sum(sizes[cuts[-1] : k + 1]) >= limit)
        cuts.append(next(ends, count))
    made = [[count - 1 - k for k in range(a, b)] for a, b in pairwise(cuts)]

    def end(number):
        if number < 0:
            return 0.0
        there = sum(seconds for seconds, _ in layers[min(made[number]) :])
        size = sum(layers[k][1] for k in made[number])
        return max(there, end(number - 1)) + latency + size / bandwidth

    return {"buckets": made, "end": end(len(made) - 1)}


def engine_buckets(layers, capacity, first, latency, bandwidth):
    made = fill_buckets([size for _, size in layers], capacity, first)
    return {"buckets": made, "end": 0.0}


def order(count, buffers, *, scatter_first=False, ahead=None, again=False, all_at_once=False):
    """``ahead``: how many of the buffers the backward fills before it needs them."""
    window = min(count, buffers)
    texts, there, next_up = [], set(range(window)), window
    texts += [f"AG{unit}" for unit in range(count if all_at_once else window)]
    for unit in range(count):
        texts.append(f"F{unit}")
        if next_up < count:
            there.discard(unit)
            if not all_at_once:
                texts.append(f"AG{next_up}")
            there.add(next_up)
            next_up += 1
        if again and unit == count - 2 and 2 <= window < count:
            texts.append(f"AG{unit}")
    depth = window if ahead is None else ahead(window)
    for unit in reversed(range(count)):
        if unit not in there:
            texts.append(f"AG{unit}")
        texts.append(f"B{unit}")
        there.discard(unit)
        new = [other for other in range(unit - 1, unit - 1 - depth, -1) if other >= 0]
        gathers = [f"AG{other}" for other in new if other not in there]
        there.update(new)
        scatter = [f"RS{unit}"]
        texts += scatter + gathers if scatter_first else gathers + scatter
    return texts


def order_with(**mistakes):
    return lambda *arguments: order(*arguments, **mistakes)


def order_on_demand(count, buffers):
    texts = [text for unit in range(count) for text in (f"AG{unit}", f"F{unit}")]
    for unit in reversed(range(count)):
        texts += [f"AG{unit}"] * (unit < count - 1) + [f"B{unit}", f"RS{unit}"]
    return texts


def order_by_search(count, buffers):
    """Goes through the computations and frees what is needed last."""
    uses = [*range(count), *reversed(range(count))]
    texts, there, at = [], [], 0
    for now in range(len(uses)):
        while at < len(uses):
            unit = uses[at]
            if unit in there:
                at += 1
                continue
            if len(there) == buffers:
                idle = [u for u in there if u not in uses[now : at + 1]]
                if not idle:
                    break
                farthest = max(idle, key=lambda u: uses.index(u, now) if u in uses[now:] else 999)
                there.remove(farthest)
            there.append(unit)
            texts.append(f"AG{unit}")
            at += 1
        texts.append(f"{'F' if now < count else 'B'}{uses[now]}")
        if now >= count:
            texts.append(f"RS{uses[now]}")
    return gathers_forward(texts)


def gathers_forward(texts):
    """An RS goes behind the gathers that follow it."""
    for at in range(len(texts) - 1, 0, -1):
        if texts[at - 1].startswith("RS") and texts[at].startswith("AG"):
            texts[at - 1], texts[at] = texts[at], texts[at - 1]
    return texts


def engine_order(count, buffers):
    plan = fsdp_plan(equal_units(count, 1, 1, 1, 1), Policy(backward_prefetch=buffers - 1))
    return [action.name for action in plan.actions]


def limiter(
    program,
    limit,
    *,
    slack=0,
    newest=False,
    least=0,
    forgets=False,
    gives_up=lambda need, freed: need > freed,
    shown=lambda texts: texts,
):
    last_use = {}
    for at, text in enumerate(program):
        if text[0] in "FB":
            last_use[at] = text
    texts, freed, gathers, known = [], [], 0, 0
    for at, text in enumerate(program):
        if text.startswith("AG"):
            if gives_up(gathers - limit + 1, len(freed)):
                return None
            need = min(gathers - limit + 1 - slack, len(freed))
            need = max(need, min(gathers - least + 1, len(freed)) if least else 0)
            if need > known:
                texts.append(f"WAIT {newest_of(texts) if newest else freed[need - 1]}")
                known = len(freed) if newest else need
            gathers += 1
        texts.append(text)
        if at in last_use and (forgets or is_freed(program, at)):
            freed.append(text)
    return shown(texts)


def newest_of(texts):
    return next(text for text in reversed(texts) if text[0] in "FB")


def is_freed(program, at):
    unit = program[at].lstrip("FB")
    later = [text for text in program[at + 1 :] if text in (f"AG{unit}", f"F{unit}", f"B{unit}")]
    return not later or later[0].startswith("AG")


def limiter_with(**mistakes):
    return lambda *arguments: limiter(*arguments, **mistakes)


def limiter_behind(program, limit):
    """Waits after the gather that needed it."""
    texts, waits = [], []
    for text in limiter(program, limit) or []:
        if text.startswith("WAIT"):
            waits = [text]
        else:
            texts += [text, *waits]
            waits = []
    return texts


def limiter_without_last(program, limit):
    texts = limiter(program, limit)
    return texts and texts[:-1]


def limiter_from_the_end(program, limit):
    """Pairs the gather number g with the release number g - limit."""
    gathers = [at for at, text in enumerate(program) if text.startswith("AG")]
    ends = [at for at, text in enumerate(program) if text[0] in "FB" and is_freed(program, at)]
    waits = dict(zip(gathers[limit:], ends, strict=False))
    if len(gathers) - limit > len(ends) or any(end > at for at, end in waits.items()):
        return None
    texts = []
    for at, text in enumerate(program):
        texts += [f"WAIT {program[waits[at]]}", text] if at in waits else [text]
    return texts


def engine_limiter(program, limit):
    plan = fsdp_plan(equal_units(len(program), 1, 1, 1, 1), Policy(limit=limit))
    return [action.name for action in plan.actions]


def memory(
    units,
    ranks,
    prefetch,
    *,
    together=False,
    ahead=True,
    own=True,
    in_flight=lambda prefetch: True,
    kept=lambda prefetch: True,
    reduced=4,
    per_element=12,
    padded=True,
    peak=max,
):
    shards = [-(-elements // ranks) for elements, _ in units]
    total = -(-sum(e for e, _ in units) // ranks) if together else sum(shards)
    whole = [2 * s * ranks if padded else 2 * e for s, (e, _) in zip(shards, units, strict=True)]
    count = len(units)
    during = {}
    for i in range(count):
        held = sum(size for _, size in units[: i + own])
        during[f"F{i}"] = whole[i] + held
        if prefetch and ahead and i + 1 < count:
            during[f"F{i}"] += whole[i + 1]
    for i in reversed(range(count)):
        held = sum(size for _, size in units[: i + 1])
        gradients = whole[i] + reduced * sum(shards[i + 1 :]) * kept(prefetch)
        if i + 1 < count and in_flight(prefetch):
            gradients += whole[i + 1]
        during[f"B{i}"] = whole[i] + held + gradients
        if prefetch and ahead and i:
            during[f"B{i}"] += whole[i - 1]
    first = list(during)[list(during.values()).index(peak(during.values()))]
    return {"steady": per_element * total, "during": during, "peak": first}


def memory_with(**mistakes):
    return lambda *arguments: memory(*arguments, **mistakes)


def memory_as_a_ledger(units, ranks, prefetch):
    """Takes and gives back named things, one action after the other."""
    live, during, count = {}, {}, len(units)
    size = [2 * (e + -e % ranks) for e, _ in units]
    steps = [("F", i) for i in range(count)] + [("B", i) for i in reversed(range(count))]
    for at, (kind, i) in enumerate(steps):
        live["gathered", i] = size[i]
        following = steps[at + 1][1] if at + 1 < len(steps) else i
        if prefetch:
            live["gathered", following] = size[following]
        if kind == "F":
            live["activations", i] = units[i][1]
        else:
            live["gradient", i] = size[i]
            if i + 1 < count:
                live["reduced", i + 1] = size[i + 1] // ranks * 2
                live.pop(("gradient", i + 2), None)
        during[f"{kind}{i}"] = sum(live.values())
        if following != i or kind == "B":
            del live["gathered", i]
        if kind == "B":
            del live["activations", i]
    steady = sum(6 * part // ranks for part in size)
    return {"steady": steady, "during": during, "peak": max(during, key=during.__getitem__)}


VISIBLE_LAYERS = ([(0.001, 30)] * 4, 60, 60, 0.001, 1e5)

WRONG = {
    "n47.1": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: layout([("w", 6), ("b", 4)], 4),
        "padding forgotten": layout_with(shard_of=lambda total, n: total // n),
        "tensors never cut": layout_with(whole=True),
        "ends for offsets": layout_with(begin=lambda offset, size: offset + size),
        "padding of one rank": layout_with(padding=lambda total, shard, n: total % n),
        "padding where there is no need": layout_with(shard_of=lambda total, n: total // n + 1),
        "padding where all divides": layout_if(
            lambda total, n: total % n == 0 and total > 100,
            shard_of=lambda total, n: total // n + 1,
        ),
        "one element short where it doesn't divide": layout_if(
            lambda total, n: total % n and total > n * n, stop=1
        ),
        "stop is the last element": layout_with(stop=1),
        "empty tensors have a piece": layout_with(empty=True),
        "ranks without a piece left out": layout_with(only_used=True),
        "asks the engine": engine_layout,
    },
    "n47.2": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: buckets(*VISIBLE_LAYERS),
        "in the order of the forward": buckets_with(forward=True),
        "sorted in each bucket": buckets_with(inside=sorted),
        "never more than the capacity": buckets_with(before=True),
        "one capacity for all": buckets_with(small_first=False),
        "what is left is dropped": buckets_with(rest=False),
        "all-reduces after the backward": buckets_with(waits=False),
        "all-reduces side by side": buckets_with(queue=False),
        "a latency for each gradient": buckets_with(pays=lambda count: count),
        "asks the engine": engine_buckets,
    },
    "n47.3": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: order(3, 2),
        "gathers on demand": order_on_demand,
        "everything gathered at once": order_with(all_at_once=True),
        "always two buffers": lambda count, buffers: order(count, max(2, buffers)),
        "one unit alone is not reduced": lambda *a: order(*a)[: -1 if a[0] == 1 else None],
        "gathered again though it is still there": order_with(again=True),
        "no prefetch in the backward": order_with(ahead=lambda window: 0),
        "no prefetch with two buffers": order_with(ahead=lambda w: 0 if w == 2 else w),
        "one unit ahead": order_with(ahead=lambda window: min(1, window - 1) + (window == 2)),
        "reduces before it gathers": order_with(scatter_first=True),
        "a buffer left idle": lambda count, buffers: order(count, max(1, buffers - 1)),
        "the last reduction is missing": lambda *a: order(*a)[:-1],
        "asks the engine": engine_order,
    },
    "n47.4": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: limiter(["AG0", "F0", "AG1", "F1"], 1),
        "no limiter": lambda program, limit: program,
        "one too many": limiter_with(slack=1),
        "one too few": lambda program, limit: limiter(program, max(1, limit - 1)),
        "waits for the newest computation": limiter_with(newest=True),
        "waits though there is room": limiter_with(least=4),
        "counts every computation as a release": limiter_with(forgets=True),
        "more than the limit where it can't be kept": limiter_with(
            gives_up=lambda need, freed: False
        ),
        "gives up a step early": limiter_with(gives_up=lambda need, freed: need >= max(1, freed)),
        "waits behind the gather": limiter_behind,
        "the last reduction is dropped": limiter_without_last,
        "asks the engine": engine_limiter,
    },
    "n47.5": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: memory([(10, 30), (6, 20)], 4, False),
        "all units padded together": memory_with(together=True),
        "padding forgotten when gathered": memory_with(padded=False),
        "a forward without its own activations": memory_with(own=False),
        "no gradient in flight": memory_with(in_flight=lambda prefetch: False),
        "no gradient in flight without prefetch": memory_with(in_flight=bool),
        "reduced gradients forgotten": memory_with(kept=lambda prefetch: False),
        "gradients in two bytes": memory_with(reduced=2),
        "no prefetch": memory_with(ahead=False),
        "the lowest for the highest": memory_with(peak=min),
        "no first moment": memory_with(per_element=8),
    },
}

RIGHT = {
    "n47.1": {"by borders": layout, "element by element": layout_of_elements},
    "n47.2": {"in two passes": buckets, "by cuts": buckets_by_cuts},
    "n47.3": {"by what is there": order, "frees what is needed last": order_by_search},
    "n47.4": {"counts": limiter, "gathers paired with releases": limiter_from_the_end},
    "n47.5": {"by sums": memory, "as a ledger": memory_as_a_ledger},
}

for _task, _entries in RIGHT.items():
    _entries["the reference"] = reference(TASKS[_task])
