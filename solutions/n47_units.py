"""Reference solutions of lab n47. For course staff: in no student package, on no page."""


def flat_layout(sizes, ranks):
    """n47.1"""
    total = sum(size for _, size in sizes)
    shard = (total + ranks - 1) // ranks
    offsets, pieces, begin = [], [[] for _ in range(ranks)], 0
    for name, size in sizes:
        offsets.append(begin)
        for rank, owned in enumerate(pieces):
            low = max(begin, rank * shard)
            high = min(begin + size, (rank + 1) * shard)
            if low < high:
                owned.append((name, low - begin, high - begin))
        begin += size
    return {
        "offsets": offsets,
        "shard": shard,
        "padding": shard * ranks - total,
        "pieces": pieces,
    }


def gradient_buckets(layers, capacity, first, latency, bandwidth):
    """n47.2"""
    buckets, bucket, held = [], [], 0
    computed = network = 0.0

    def reduce():
        nonlocal network, bucket, held
        network = max(network, computed) + latency + held / bandwidth
        buckets.append(bucket)
        bucket, held = [], 0

    for number in range(len(layers) - 1, -1, -1):
        seconds, size = layers[number]
        computed += seconds
        held += size
        bucket.append(number)
        if held >= (capacity if buckets else first):
            reduce()
    if bucket:
        reduce()
    return {"buckets": buckets, "end": network}


def issue_order(count, buffers):
    """n47.3"""
    window = min(count, buffers)
    program = [f"AG{unit}" for unit in range(window)]
    for unit in range(count):
        program.append(f"F{unit}")
        if unit + window < count:
            program.append(f"AG{unit + window}")
    for unit in range(count - 1, -1, -1):
        program.append(f"B{unit}")
        if unit >= window:
            program.append(f"AG{unit - window}")
        program.append(f"RS{unit}")
    return program


def rate_limit(program, limit):
    """n47.4"""

    def frees(at):
        unit = program[at][1:]
        for text in program[at + 1 :]:
            if text in ("F" + unit, "B" + unit):
                return False
            if text == "AG" + unit:
                return True
        return True

    limited, released = [], []
    gathers = ended = 0
    for at, text in enumerate(program):
        if text.startswith("AG"):
            need = gathers - limit + 1
            if need > len(released):
                return None
            if need > ended:
                limited.append("WAIT " + released[need - 1])
                ended = need
            gathers += 1
        limited.append(text)
        if text[0] in "FB" and frees(at):
            released.append(text)
    return limited


def memory_of_step(units, ranks, prefetch):
    """n47.5"""
    shards = [-(-elements // ranks) for elements, _ in units]
    gathered = [2 * ranks * shard for shard in shards]
    last = len(units) - 1
    during = {}
    activations = 0
    for unit in range(last + 1):
        activations += units[unit][1]
        during[f"F{unit}"] = gathered[unit] + activations
        if prefetch and unit < last:
            during[f"F{unit}"] += gathered[unit + 1]
    reduced = in_flight = 0
    for unit in range(last, -1, -1):
        parameters = gathered[unit] + (gathered[unit - 1] if prefetch and unit else 0)
        gradients = gathered[unit] + in_flight + reduced
        during[f"B{unit}"] = parameters + activations + gradients
        in_flight = gathered[unit]
        reduced += 4 * shards[unit]
        activations -= units[unit][1]
    return {"steady": 12 * sum(shards), "during": during, "peak": max(during, key=during.get)}
