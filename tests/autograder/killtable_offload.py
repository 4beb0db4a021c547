"""Wrong and right answers to lab offload."""

from functools import partial
from heapq import heappop, heappush
from itertools import product

from shardgrade.checkout import reference

from shardbook.labs.handed_graphs import crossing
from shardbook.labs.registry import TASKS
from shardbook.planner.bandwidth import efficiency, required_bandwidth
from shardbook.planner.placements import placements
from shardbook.schedules.offload import PrefetchLayer, prefetch_plan

INFINITY = float("inf")


def price(nodes, edges, pinned, gpu):
    on_gpu = set(gpu).union(pinned)
    return {
        "down": sum(b for s, t, b in edges if s in on_gpu and t not in on_gpu),
        "up": sum(b for s, t, b in edges if t in on_gpu and s not in on_gpu),
        "stored": sum(b for n, b in nodes.items() if n in on_gpu),
    }


def price_but(key, other):
    """The right price, but another value for one of the entries."""
    return lambda *case: {**price(*case), key: other(*case)}


def pairs_once(nodes, edges, pinned, gpu):
    return price(
        nodes, [(*pair, b) for pair, b in {(s, t): b for s, t, b in edges}.items()], pinned, gpu
    )


def sets(nodes, pinned):
    free = [name for name in nodes if name not in pinned]
    for bits in product((True, False), repeat=len(free)):
        yield [name for name, bit in zip(free, bits, strict=True) if bit]


def searched(
    nodes,
    edges,
    pinned,
    limit,
    *,
    within=lambda held, limit: held <= limit,
    counted=lambda nodes, pinned: nodes,
    key=lambda moved, held: (moved, held),
):
    """All sets, with places for mistakes."""
    weights = counted(nodes, pinned)
    found = []
    for chosen in sets(nodes, pinned):
        here = {*chosen, *pinned}
        held = sum(weights[name] for name in here)
        if within(held, limit):
            moved = sum(b for s, t, b in edges if (s in here) != (t in here))
            found.append((key(moved, held), chosen))
    return min(found, key=lambda item: item[0])[1] if found else None


def searched_but(when, otherwise):
    return lambda *case: otherwise(*case) if when(*case) else searched(*case)


def is_star(nodes, edges, pinned, limit):
    return all(s in pinned or t in pinned for s, t, _ in edges)


def unlike_star(nodes, edges, pinned, limit):
    sizes = {size for name, size in nodes.items() if name not in pinned}
    return is_star(nodes, edges, pinned, limit) and len(sizes) > 1 and len(nodes) > 4


def by_ratio(nodes, edges, pinned, limit):
    moved = dict.fromkeys(nodes, 0)
    for s, t, b in edges:
        for name in (s, t):
            moved[name] += b
    chosen, held = [], sum(nodes[name] for name in pinned)
    free = [name for name in nodes if name not in pinned]
    for name in sorted(free, key=lambda n: -moved[n] / (nodes[n] or 1e-9)):
        if held + nodes[name] <= limit:
            chosen.append(name)
            held += nodes[name]
    return chosen


def one_by_one(nodes, edges, pinned, limit):
    """Adds the node that saves most, as long as one saves something."""
    chosen = []
    while True:
        now = price(nodes, edges, pinned, chosen)
        best, least = None, now["down"] + now["up"]
        for name in nodes:
            if name in chosen or name in pinned:
                continue
            then = price(nodes, edges, pinned, [*chosen, name])
            if then["stored"] <= limit and then["down"] + then["up"] < least:
                best, least = name, then["down"] + then["up"]
        if best is None:
            return chosen if now["stored"] <= limit else None
        chosen.append(best)


def states_only(nodes, edges, pinned, limit):
    """Leaves all computations on the CPU."""
    left = {name: size for name, size in nodes.items() if size or name in pinned}
    return searched(left, edges, pinned, limit)


def branch_and_bound(nodes, edges, pinned, limit):
    """Decides node after node, the least traffic so far first."""
    free = [name for name in nodes if name not in pinned]
    heap, number = [(0, sum(nodes[p] for p in pinned), 0, 0, frozenset(pinned), frozenset())], 0
    if heap[0][1] > limit:
        return None
    while heap:
        moved, held, _, depth, gpu, cpu = heappop(heap)
        if depth == len(free):
            return sorted(gpu - set(pinned))
        name = free[depth]
        for mine, others, side in ((gpu, cpu, 0), (cpu, gpu, 1)):
            more = sum(b for s, t, b in edges if name in (s, t) and ({s, t} - {name}) & others)
            weight = held + (nodes[name] if side == 0 else 0)
            if weight <= limit:
                number += 1
                both = (mine | {name}, others) if side == 0 else (others, mine | {name})
                heappush(heap, (moved + more, weight, number, depth + 1, *both))
    return None


def rooms(edges, names):
    left = {name: {} for name in names}
    for s, t, b in edges:
        if s != t:
            left[s][t] = left[s].get(t, 0) + b
            left[t][s] = left[t].get(s, 0) + b
    return left


def sent(nodes, edges, pinned, goal, *, back=True, deepest=99, breadth=True):
    """A flow to ``goal``; without ``back`` no byte is ever sent back."""
    names = [*nodes]
    left, flow = rooms(edges, names), []
    while True:
        before, line = dict.fromkeys(pinned), [(start, 0) for start in pinned]
        while line and goal not in before:
            at, depth = line.pop(0 if breadth else -1)
            for to, b in left[at].items():
                if b and to not in before and depth < deepest:
                    before[to] = at
                    line.append((to, depth + 1))
        if goal not in before:
            return flow
        steps, at = [], goal
        while before[at] is not None:
            steps.append((before[at], at))
            at = before[at]
        amount = min(left[s][t] for s, t in steps)
        for s, t in steps:
            left[s][t] -= amount
            left[t][s] += amount if back else -amount
            flow.append((s, t, amount))


def netted(flow):
    """What goes both ways cancels."""
    total = {}
    for s, t, b in flow:
        total[s, t] = total.get((s, t), 0) + b
    net = {pair: b - total.get(pair[::-1], 0) for pair, b in total.items()}
    return [(*pair, b) for pair, b in net.items() if b > 0]


def arrives(flow, goal):
    return sum(b for _, t, b in flow if t == goal) - sum(b for s, _, b in flow if s == goal)


def proven(nodes, edges, pinned, limit, *, everything=False, tidy=netted, starts=None, **how):
    if sum(nodes.values()) <= limit:
        return None
    begin = starts(pinned) if starts else pinned
    flows = {n: tidy(sent(nodes, edges, begin, n, **how)) for n in nodes if n not in pinned}
    order = sorted(flows, key=lambda n: -arrives(flows[n], n))
    held, states = sum(nodes[n] for n in pinned), []
    for name in order:
        if nodes[name] and (everything or held <= limit):
            states.append(name)
            held += nodes[name]
    return {"states": states, "flows": {n: flows[n] for n in states}}


def proven_with(**mistakes):
    return partial(proven, **mistakes)


def relabelled(nodes, edges, pinned, limit):
    """Largest states first, whatever flows to them."""
    right = proven(nodes, edges, pinned, limit, everything=True)
    if right is None:
        return None
    held, states = sum(nodes[n] for n in pinned), []
    for name in sorted(right["states"], key=lambda n: -nodes[n]):
        if held <= limit:
            states.append(name)
            held += nodes[name]
    return {"states": states, "flows": right["flows"]}


def promised(nodes, edges, pinned, limit):
    """Flows that are only the edges at the states."""
    states = [n for n in nodes if n not in pinned and nodes[n]]
    if sum(nodes.values()) <= limit:
        return None
    flows = {n: [(s if t == n else t, n, b) for s, t, b in edges if n in (s, t)] for n in states}
    return {"states": states, "flows": flows}


def by_paths(nodes, edges, pinned, limit):
    """One unit after the other, each along a path found by depth."""
    return proven(nodes, edges, pinned, limit, breadth=False)


def links(flop, peak, links_, overlapped, wanted, **mistakes):
    how = {
        "total": lambda c, times, beside: max(c, *times) if beside else c + sum(times),
        "slow": lambda c, all_, bandwidths: max([("compute", c), *all_], key=lambda it: it[1])[0],
        "room": lambda c, w, others, beside: (
            (c / w if max(others, default=0) <= c / w else 0) if beside else c / w - c - sum(others)
        ),
        "needs": lambda size, room: size / room if room > 0 else None,
    } | mistakes
    c = flop / peak
    all_ = [(name, size / bandwidth) for name, size, bandwidth in links_]
    needed = {}
    for at, (name, size, _) in enumerate(links_):
        others = [t for place, (_, t) in enumerate(all_) if place != at]
        needed[name] = how["needs"](size, how["room"](c, wanted, others, overlapped))
    return {
        "efficiency": c / how["total"](c, [t for _, t in all_], overlapped),
        "slowest": how["slow"](c, all_, {name: b for name, _, b in links_}),
        "needed": needed,
    }


def links_with(**mistakes):
    return partial(links, **mistakes)


def from_the_engine(flop, peak, links_, overlapped, wanted):
    right = links(flop, peak, links_, overlapped, wanted)
    share = min(efficiency(flop / size, bandwidth, peak) for _, size, bandwidth in links_)
    needed = {name: required_bandwidth(flop / size, wanted, peak) for name, size, _ in links_}
    return {**right, "efficiency": share, "needed": needed}


def waits(layers, keep, host_limit, room, *, size_of=lambda layers, n: layers[n][0], count=None):
    """Each layer's waits: the latest earlier one that must be gone."""
    plan, streamed = [], []
    for n in range(len(layers)):
        if n in keep:
            plan.append("keep")
            continue
        pair = []
        for limit in (host_limit, room):
            held, gone = size_of(layers, n), None
            for before, other in enumerate(reversed(streamed), start=1):
                held += size_of(layers, other)
                if held > limit or (count is not None and before >= count):
                    gone = other
                    break
            pair.append(gone)
        streamed.append(n)
        plan.append(tuple(pair))
    return plan


def seconds(layers, plan):
    """The time of a pass, whatever it stores."""
    copies, ends = {None: 0.0}, {None: 0.0}
    reads = copied = end = 0.0
    for n, ((_, read, copy, compute), entry) in enumerate(zip(layers, plan, strict=True)):
        if entry != "keep":
            reads = max(reads, copies[entry[0]]) + read
            copied = copies[n] = max(copied, reads, ends[entry[1]]) + copy
            end = max(end, copied)
        end = ends[n] = end + compute
    return end


def with_kept(layers, host_limit, gpu_limit, keep, **how):
    room = gpu_limit - sum(layers[n][0] for n in keep)
    largest = max((layers[n][0] for n in range(len(layers)) if n not in keep), default=0)
    if room < largest or largest > host_limit:
        return INFINITY, []
    plan = waits(layers, keep, host_limit, room, **how)
    return seconds(layers, plan), plan


def gained(layers, host_limit, gpu_limit, keep):
    """Changes one or two layers while that helps."""
    best = with_kept(layers, host_limit, gpu_limit, keep)
    better = True
    while better:
        better = False
        for one in range(len(layers)):
            for other in range(one, len(layers)):
                near = keep ^ {one, other}
                tried = with_kept(layers, host_limit, gpu_limit, near)
                if tried[0] < best[0] - 1e-9:
                    best, keep, better = tried, near, True
    return best


def streamed(layers, host_limit, gpu_limit, *, few=7, **how):
    numbers = range(len(layers))
    if len(layers) <= few:
        every = product((True, False), repeat=len(layers))
        kept = [{n for n in numbers if bits[n]} for bits in every]
        return min(
            (with_kept(layers, host_limit, gpu_limit, keep, **how) for keep in kept),
            key=lambda it: it[0],
        )[1]
    tried = [gained(layers, host_limit, gpu_limit, set())]
    for key in (lambda n: layers[n][1], lambda n: layers[n][1] / layers[n][0], lambda n: -n):
        keep = set()
        for n in sorted(numbers, key=key, reverse=True):
            if with_kept(layers, host_limit, gpu_limit, keep | {n})[0] < INFINITY:
                keep |= {n}
        tried.append(gained(layers, host_limit, gpu_limit, keep))
    return min(tried, key=lambda it: it[0])[1]


def streamed_but(when, otherwise):
    return lambda *case: otherwise(*case) if when(*case) else streamed(*case)


def nothing_kept(layers, host_limit, gpu_limit, **how):
    return waits(layers, set(), host_limit, gpu_limit, **how)


def filled(layers, host_limit, gpu_limit, *, key):
    """Keeps what fits, in the order of a key."""
    keep = set()
    for n in sorted(range(len(layers)), key=key(layers)):
        if with_kept(layers, host_limit, gpu_limit, keep | {n})[0] < INFINITY:
            keep |= {n}
    return with_kept(layers, host_limit, gpu_limit, keep)[1]


def no_place(layers, host_limit, gpu_limit):
    sizes = [layer[0] for layer in layers]
    return len(sizes) > 1 and max(sizes) + min(sizes) > gpu_limit and min(sizes) > 2


def serial(layers, host_limit, gpu_limit):
    return [(n - 1, n - 1) if n else (None, None) for n in range(len(layers))]


def largest(layers, n):
    return max(layer[0] for layer in layers)


def depth_of_the_engine(layers, host_limit, gpu_limit):
    deep = min(host_limit, gpu_limit) // largest(layers, 0)
    prefetch_plan(
        tuple(PrefetchLayer(read, copy, 0, compute) for _, read, copy, compute in layers), deep
    )
    return nothing_kept(layers, host_limit, gpu_limit, count=deep)


WRONG = {
    "offload.1": {
        "does nothing": lambda *case: None,
        "answers the visible example": lambda *case: {"down": 8, "up": 12, "stored": 6},
        "down and up exchanged": lambda *case: (
            lambda it: {**it, "down": it["up"], "up": it["down"]}
        )(price(*case)),
        "down forgets edges from pinned nodes": price_but(
            "down",
            lambda nodes, edges, pinned, gpu: sum(
                b for s, t, b in edges if s in gpu and t not in {*gpu, *pinned}
            ),
        ),
        "up forgets edges to pinned nodes": price_but(
            "up",
            lambda nodes, edges, pinned, gpu: sum(
                b for s, t, b in edges if t in gpu and s not in {*gpu, *pinned}
            ),
        ),
        "pinned nodes store nothing": price_but(
            "stored", lambda nodes, edges, pinned, gpu: sum(nodes[n] for n in gpu)
        ),
        "everything is stored": price_but("stored", lambda nodes, *rest: sum(nodes.values())),
        "one edge a pair": pairs_once,
        "every edge counts": lambda nodes, edges, pinned, gpu: {
            "down": sum(b for _, _, b in edges),
            "up": 0,
            "stored": 0,
        },
        "asks the engine": lambda nodes, edges, pinned, gpu: {
            **dict(zip(("down", "up"), crossing(edges, {*pinned, *gpu}), strict=True)),
            "stored": placements()[0].gpu_bytes,
        },
    },
    "offload.2": {
        "does nothing": lambda *case: 0,
        "answers the visible example": lambda *case: ["p16"],
        "nothing on the GPU": lambda *case: [],
        "everything on the GPU": lambda nodes, edges, pinned, limit: [
            n for n in nodes if n not in pinned
        ],
        "everything, where nodes are linked": searched_but(
            lambda *case: not is_star(*case) and all(case[0][n] == 0 for n in case[2]),
            lambda nodes, edges, pinned, limit: [n for n in nodes if n not in pinned],
        ),
        "less than the limit only": partial(searched, within=lambda held, limit: held < limit),
        "the most traffic for its size first": by_ratio,
        "the same, in stars of unlike states": searched_but(unlike_star, by_ratio),
        "one node at a time": one_by_one,
        "the same, where nodes are linked": searched_but(
            lambda *case: not is_star(*case) and all(case[0][n] == 0 for n in case[2]), one_by_one
        ),
        "computations stay on the CPU": states_only,
        "the first of the best ones": partial(searched, key=lambda moved, held: moved),
        "the least memory, then the traffic": partial(
            searched, key=lambda moved, held: (held, moved)
        ),
        "pinned nodes take no memory": partial(
            searched,
            counted=lambda nodes, pinned: {n: 0 if n in pinned else b for n, b in nodes.items()},
        ),
        "an empty list where nothing fits": lambda *case: searched(*case) or [],
        "asks the engine": lambda *case: list(placements()[1].gpu),
    },
    "offload.3": {
        "does nothing": lambda *case: 0,
        "answers the visible example": lambda *case: {
            "states": ["p16"],
            "flows": {"p16": [("forward-backward", "p16", 4)]},
        },
        "searches seven links far": proven_with(deepest=7),
        "never sends back": proven_with(back=False),
        "never sends back, by depth": proven_with(back=False, breadth=False),
        "names all states": proven_with(everything=True),
        "the largest states first": relabelled,
        "begins at the first pinned node": proven_with(starts=lambda pinned: pinned[:1]),
        "sends both ways at once": proven_with(tidy=lambda flow: [*flow, *flow]),
        "edges at the states only": promised,
        "no states where everything fits": lambda *case: (
            proven(*case) or {"states": [], "flows": {}}
        ),
    },
    "offload.4": {
        "does nothing": lambda *case: None,
        "answers the visible example": lambda *case: {
            "efficiency": 0.5,
            "slowest": "pcie",
            "needed": {"pcie": 108e9},
        },
        "always side by side": links_with(total=lambda c, times, beside: max(c, *times)),
        "always one after the other": links_with(total=lambda c, times, beside: c + sum(times)),
        "side by side without the compute": links_with(
            total=lambda c, times, beside: max(times) if beside else c + sum(times)
        ),
        "the link of the least bandwidth is slowest": links_with(
            slow=lambda c, all_, bandwidths: (
                "compute" if c > max(t for _, t in all_) else min(bandwidths, key=bandwidths.get)
            )
        ),
        "the compute is never slowest": links_with(
            slow=lambda c, all_, bandwidths: max(all_, key=lambda it: it[1])[0]
        ),
        "the other links take no time": links_with(
            room=lambda c, w, others, beside: c / w if beside else c / w - c
        ),
        "needs as if one after the other": links_with(
            room=lambda c, w, others, beside: (
                c / w - c
                if beside and max(others, default=0) <= c / w
                else 0
                if beside
                else c / w - c - sum(others)
            )
        ),
        "a negative bandwidth": links_with(needs=lambda size, room: size / room if room else None),
        "asks the engine": from_the_engine,
    },
    "offload.5": {
        "does nothing": lambda *case: None,
        "answers the visible example": lambda *case: ["keep", (None, None), (None, None), (1, 1)],
        "one layer after the other": serial,
        "keeps everything": lambda layers, *limits: ["keep"] * len(layers),
        "ignores host memory": lambda layers, host, gpu: streamed(layers, 10**9, gpu),
        "ignores the GPU's memory": lambda layers, host, gpu: streamed(layers, host, 10**9),
        "needs two layers at least": streamed_but(
            lambda layers, *limits: len(layers) < 2, lambda *case: []
        ),
        "takes all layers for the largest": streamed_but(
            no_place, partial(nothing_kept, size_of=largest)
        ),
        "reads two ahead": partial(nothing_kept, count=3),
        "keeps nothing": nothing_kept,
        "keeps nothing of a few layers": streamed_but(
            lambda layers, *limits: len(layers) < 8 and not no_place(layers, *limits), nothing_kept
        ),
        "keeps what reads longest of a few layers": streamed_but(
            lambda layers, *limits: len(layers) < 8 and not no_place(layers, *limits),
            partial(filled, key=lambda layers: lambda n: -layers[n][1]),
        ),
        "keeps nothing of many layers": streamed_but(
            lambda layers, *limits: len(layers) > 12 and not no_place(layers, *limits), nothing_kept
        ),
        "keeps what reads longest of many layers": streamed_but(
            lambda layers, *limits: len(layers) > 12 and not no_place(layers, *limits),
            partial(filled, key=lambda layers: lambda n: -layers[n][1]),
        ),
        "keeps the first ones": partial(filled, key=lambda layers: lambda n: n),
        "a depth in layers": depth_of_the_engine,
    },
}

RIGHT = {
    "offload.1": {"with sets": price},
    "offload.2": {"all sets": searched, "node after node": branch_and_bound},
    "offload.3": {"by breadth": proven, "by depth": by_paths},
    "offload.4": {"step by step": links},
    "offload.5": {"near sets": streamed, "near sets only": partial(streamed, few=0)},
}

for _task, _entries in RIGHT.items():
    _entries["the reference"] = reference(TASKS[_task])
