"""Reference solutions of lab offload. For course staff: in no student package, on no page."""


def cost(nodes, edges, pinned, gpu):
    """offload.1"""
    here = {*pinned, *gpu}
    down = up = 0
    for source, target, size in edges:
        if source in here and target not in here:
            down += size
        elif target in here and source not in here:
            up += size
    return {"down": down, "up": up, "stored": sum(nodes[name] for name in here)}


def best_placement(nodes, edges, pinned, limit):
    """offload.2"""
    from itertools import combinations

    free = [name for name in nodes if name not in pinned]
    best = None
    for count in range(len(free) + 1):
        for chosen in combinations(free, count):
            here = {*chosen, *pinned}
            held = sum(nodes[name] for name in here)
            if held > limit:
                continue
            moved = sum(size for one, other, size in edges if (one in here) != (other in here))
            if best is None or (moved, held) < best[0]:
                best = (moved, held), list(chosen)
    return best and best[1]


def proof(nodes, edges, pinned, limit):
    """offload.3"""
    from collections import deque

    def largest_flow(state):
        room = {name: {} for name in nodes}
        for one, other, size in edges:
            if one != other:
                room[one][other] = room[one].get(other, 0) + size
                room[other][one] = room[other].get(one, 0) + size
        left = {name: dict(links) for name, links in room.items()}
        while True:
            reached_from = dict.fromkeys(pinned)
            waiting = deque(pinned)
            while waiting and state not in reached_from:
                name = waiting.popleft()
                for other, size in left[name].items():
                    if size and other not in reached_from:
                        reached_from[other] = name
                        waiting.append(other)
            if state not in reached_from:
                break
            path = [state]
            while reached_from[path[-1]] is not None:
                path.append(reached_from[path[-1]])
            steps = list(zip(path[1:], path, strict=False))
            sent = min(left[one][other] for one, other in steps)
            for one, other in steps:
                left[one][other] -= sent
                left[other][one] += sent
        return [
            (one, other, size - left[one][other])
            for one, links in room.items()
            for other, size in links.items()
            if left[one][other] < size
        ]

    def value(state):
        return sum(size for _, other, size in flows[state] if other == state) - sum(
            size for one, _, size in flows[state] if one == state
        )

    held = sum(nodes[name] for name in pinned)
    if sum(nodes.values()) <= limit:
        return None
    flows = {name: largest_flow(name) for name in nodes if name not in pinned and nodes[name]}
    states = []
    for name in sorted(flows, key=value, reverse=True):
        if held > limit:
            break
        states.append(name)
        held += nodes[name]
    return {"states": states, "flows": {name: flows[name] for name in states}}


def through_links(flop, peak, links, overlapped, wanted):
    """offload.4"""
    compute = flop / peak
    times = {name: size / bandwidth for name, size, bandwidth in links}
    longest = max(times.values())
    step = max(compute, longest) if overlapped else compute + sum(times.values())
    needed = {}
    for name, size, _ in links:
        others = [seconds for other, seconds in times.items() if other != name]
        allowed = compute / wanted
        if overlapped:
            room = allowed if max(others, default=0) <= allowed else 0
        else:
            room = allowed - compute - sum(others)
        needed[name] = size / room if room > 0 else None
    slowest = "compute" if compute > longest else max(times, key=times.get)
    return {"efficiency": compute / step, "slowest": slowest, "needed": needed}


def stream(layers, host_limit, gpu_limit):
    """offload.5"""
    from itertools import combinations

    sizes = [layer[0] for layer in layers]

    def plan(keep):
        """The shortest plan that keeps these layers, and its time."""
        room = gpu_limit - sum(sizes[number] for number in keep)
        if room < 0:
            return float("inf"), None
        entries, streamed = [], []
        copied, computed = [0.0], [0.0]
        read_end = copy_end = end = 0.0
        for number, (size, read, copy, compute) in enumerate(layers):
            if number in keep:
                entries.append("keep")
                end += compute
                continue
            if size > min(room, host_limit):
                return float("inf"), None
            waits = []
            for limit in (host_limit, room):
                at, held = len(streamed), size
                while at and held + sizes[streamed[at - 1]] <= limit:
                    at -= 1
                    held += sizes[streamed[at]]
                waits.append(at)
            read_end = max(read_end, copied[waits[0]]) + read
            copy_end = max(copy_end, read_end, computed[waits[1]]) + copy
            end = max(end, copy_end) + compute
            entries.append(tuple(streamed[at - 1] if at else None for at in waits))
            streamed.append(number)
            copied.append(copy_end)
            computed.append(end)
        return end, entries

    def climb(keep):
        """Add, drop or swap layers as long as that makes the pass shorter."""
        best = plan(keep)
        while True:
            near = [keep ^ {one} for one in numbers]
            near += [keep ^ {one, other} for one in keep for other in numbers - keep]
            found = min(((plan(each), sorted(each)) for each in near), key=lambda it: it[0][0])
            if found[0][0] >= best[0] - 1e-12:
                return best
            best, keep = found[0], frozenset(found[1])

    numbers = frozenset(range(len(layers)))
    if len(layers) <= 8:
        every = (
            frozenset(keep)
            for count in range(len(layers) + 1)
            for keep in combinations(sorted(numbers), count)
        )
        return min((plan(keep) for keep in every), key=lambda it: it[0])[1]
    starts = [frozenset()]
    for worth in (lambda n: layers[n][1], lambda n: layers[n][1] / sizes[n], lambda n: -n):
        keep = frozenset()
        for number in sorted(numbers, key=worth, reverse=True):
            if plan(keep | {number})[0] < float("inf"):
                keep |= {number}
        starts.append(keep)
    return min((climb(keep) for keep in starts), key=lambda it: it[0])[1]
