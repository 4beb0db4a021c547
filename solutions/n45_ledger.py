"""Reference solutions of lab n45. For course staff: in no student package, on no page."""


def bytes_per_parameter(kept):
    """n45.1"""
    size_of = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
    categories = ("weights", "gradients", "master_weights", "momentum", "variance")
    table = dict.fromkeys(categories, 0)
    for category, format_name in kept:
        table[category] += size_of[format_name]
    return table


def bytes_on_rank(units, sizes, ranks, stage, rank):
    """n45.2"""
    sharded_from = {"weights": 3, "gradients": 2}
    pieces = [-(-unit // ranks) for unit in units]
    missing = 0
    for unit, piece in zip(units, pieces, strict=True):
        owned_elements = min(piece, max(0, unit - rank * piece))
        missing += piece - owned_elements
    table = {}
    for category, size in sizes.items():
        if stage >= sharded_from.get(category, 1):
            table[category] = (sum(pieces) * size, missing * size)
        else:
            table[category] = (sum(units) * size, 0)
    return table


def smallest_ranks(units, sizes, stage, card, limit):
    """n45.3"""
    sharded_from = {"weights": 3, "gradients": 2}
    whole_size = sum(s for c, s in sizes.items() if stage < sharded_from.get(c, 1))
    cut_size = sum(sizes.values()) - whole_size

    def fits_on(ranks):
        piece = sum(-(-unit // ranks) for unit in units)
        return whole_size * sum(units) + cut_size * piece <= card

    if not fits_on(limit):
        return None
    low, high = 1, limit
    while low < high:
        middle = (low + high) // 2
        if fits_on(middle):
            high = middle
        else:
            low = middle + 1
    return low


def best_interval(layers, layer_bytes, checkpoint_bytes, limit):
    """n45.4"""
    candidates = []
    for interval in range(1, layers + 1):
        segments = -(-layers // interval)
        last_segment = layers - (segments - 1) * interval
        peak = segments * checkpoint_bytes + last_segment * layer_bytes
        if segments > 1:
            peak = max(peak, (segments - 1) * checkpoint_bytes + interval * layer_bytes)
        if peak <= limit:
            candidates.append((layers - last_segment, peak, interval))
    if not candidates:
        return None
    recomputed, peak, interval = min(candidates)
    return {"interval": interval, "recomputed": recomputed, "peak": peak}


def first_fit(capacity, area, actions):
    """n45.5"""
    live = {}

    def gaps_between(low, high):
        gaps, here = [], low
        for start, size in sorted(live.values()):
            if low <= start < high:
                if start > here:
                    gaps.append((here, start - here))
                here = start + size
        if high > here:
            gaps.append((here, high - here))
        return gaps

    addresses = []
    for verb, name, *rest in actions:
        if verb == "free":
            del live[name]
            addresses.append(None)
            continue
        size = rest[0] if verb == "allocate" else live[name][1]
        bounds = (area, capacity) if verb == "allocate" else (0, area)
        address = next((start for start, room in gaps_between(*bounds) if room >= size), None)
        if address is None:
            addresses.append("full")
            break
        live[name] = (address, size)
        addresses.append(address)
    return addresses, gaps_between(area, capacity)
