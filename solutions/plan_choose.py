"""Reference solutions of lab plan. For course staff: in no student package, on no page."""


def card_bytes(model, layout, place):
    """plan.1"""
    hidden, width = model["hidden"], layout["tensor"]
    layers = model["layers"] // layout["pipeline"]
    same_weights = layout["data"] * layout["context"]
    one_layer = 12 * hidden**2 // width
    parameters = layers * one_layer
    last = layout["pipeline"] - 1
    if place in (0, last):
        parameters += model["vocabulary"] * hidden // width

    def stored(size, sharded_from):
        return size * parameters // (same_weights if layout["stage"] >= sharded_from else 1)

    tokens = layout["micro_batch"] * model["sequence"]
    split = width * layout["context"]
    inner = 34 * tokens * hidden // split
    matrix = 5 * model["heads"] * tokens * model["sequence"] // split
    kept = {"none": inner + matrix, "selective": inner, "full": 2 * tokens * hidden // split}
    in_flight = layout["pipeline"] - place
    temporary = 0
    if layout["stage"] >= 2 and same_weights > 1:
        temporary += 2 * one_layer
    if layout["stage"] == 3 and same_weights > 1:
        temporary += 2 * min(2, layers) * one_layer
    if layout["recompute"] == "full":
        temporary += inner - kept["full"]
    if place == last:
        temporary += 6 * tokens * model["vocabulary"] // split
    return {
        "weights": stored(2, 3),
        "gradients": stored(2, 2),
        "optimizer": stored(12, 1),
        "activations": in_flight * layers * kept[layout["recompute"]],
        "temporary": temporary,
    }


def rings(axes, cards, rank):
    """plan.2"""
    table, stride = {}, 1
    for name, degree in axes:
        start = rank - rank // stride % degree * stride
        ring = [start + step * stride for step in range(degree)]
        following = ring[1:] + ring[:1]
        leaving = [a for a, b in zip(ring, following, strict=True) if a // cards != b // cards]
        table[name] = (ring, len(leaving))
        stride *= degree
    return table


def first_limit(model, cluster, layout, peak):
    """plan.3"""
    tensor, context = layout["tensor"], layout["context"]
    used = tensor * context * layout["pipeline"] * layout["data"]
    at_once = layout["data"] * layout["micro_batch"]
    broken = {
        "cards": used != cluster["nodes"] * cluster["cards"],
        "node": tensor > cluster["cards"],
        "heads": model["heads"] % tensor != 0,
        "sequence": context > 1 and model["sequence"] % (2 * context) != 0,
        "layers": model["layers"] % layout["pipeline"] != 0,
        "batch": model["batch"] % at_once != 0,
        "micro-batches": model["batch"] // at_once < layout["pipeline"],
        "memory": peak > cluster["memory"],
    }
    return next((name for name, is_broken in broken.items() if is_broken), None)


def deal(batch, layout, most):
    """plan.4"""
    for micro_batch in range(most, 0, -1):
        accumulation, rest = divmod(batch, layout["data"] * micro_batch)
        if not rest and accumulation >= layout["pipeline"]:
            return micro_batch, accumulation
    return None


def choose(model, cluster):
    """plan.5"""
    hidden, sequence, vocabulary = model["hidden"], model["sequence"], model["vocabulary"]
    cards = cluster["nodes"] * cluster["cards"]

    def divisors(number):
        return [each for each in range(1, number + 1) if number % each == 0]

    def link(span):
        where = "inside" if span <= cluster["cards"] else "between"
        return cluster[f"{where}_latency"], cluster[where]

    def ring_seconds(size, ranks, span):
        latency, bandwidth = link(span)
        return (ranks - 1) * (latency + size / ranks / bandwidth)

    def peak(tensor, pipeline, data, stage, recompute, micro_batch):
        one_layer, layers = 12 * hidden**2 / tensor, model["layers"] // pipeline
        parameters = layers * one_layer + vocabulary * hidden / tensor
        size = sum(
            each * parameters / (data if stage >= sharded_from else 1)
            for each, sharded_from in ((2, 3), (2, 2), (12, 1))
        )
        size += 2 * one_layer * (stage >= 2 and data > 1)
        size += 2 * min(2, layers) * one_layer * (stage == 3 and data > 1)
        tokens = micro_batch * sequence
        inner = 34 * tokens * hidden / tensor
        kept = 2 * tokens * hidden / tensor
        if recompute == "full":
            size += inner - kept
        else:
            kept = inner
        if recompute == "none":
            kept += 5 * model["heads"] * tokens * sequence / tensor
        logits = 6 * tokens * vocabulary / tensor
        if pipeline == 1:
            return size + layers * kept + logits
        return size + max(pipeline * layers * kept, layers * kept + logits)

    def seconds(tensor, pipeline, data, stage, recompute, micro_batch):
        speed, layers = cluster["flops"] * tensor, model["layers"] // pipeline
        tokens, count = micro_batch * sequence, model["batch"] // (data * micro_batch)
        attention = 4 * tokens * sequence * hidden / speed
        compute = 24 * tokens * hidden**2 / speed + attention
        waiting = 4 * ring_seconds(2 * tokens * hidden, tensor, tensor)
        repeated = {"none": 0, "selective": attention, "full": compute + waiting}[recompute]
        forward = layers * (compute + waiting)
        backward = layers * (2 * compute + waiting + repeated)
        head = 3 * 2 * tokens * vocabulary * hidden / speed
        step = count * (forward + backward + head) + (pipeline - 1) * (forward + backward)
        latency, bandwidth = link(cards // pipeline + 1)
        way = latency + 2 * tokens * hidden / tensor / bandwidth
        step += 2 * (pipeline - 1) * way
        pause = max(0, 2 * way - head) * (pipeline - 1) / pipeline
        step += (count - pipeline) * pause
        if data == 1:
            return step
        size = 2 * (12 * hidden**2 + vocabulary * hidden / layers) / tensor
        ring = layers * ring_seconds(size, data, tensor * data)

        def shown(moved, hidden_by):
            return max(moved / layers, moved - hidden_by * (layers - 1) / layers)

        if stage == 0:
            return step + shown(2 * ring, backward)
        if stage < 3:
            each = (count - 1) * max(0, ring - backward) if stage == 2 else 0
            return step + each + shown(ring, backward) + shown(ring, forward)
        each = max(0, ring - forward) + max(0, 2 * ring - backward)
        return step + count * each + 2 * ring / layers

    candidates = [
        (tensor, pipeline, cards // tensor // pipeline, stage, recompute, micro_batch)
        for tensor in divisors(cluster["cards"])
        if model["heads"] % tensor == 0
        for pipeline in divisors(cards // tensor)
        if model["layers"] % pipeline == 0
        for micro_batch in (1, 2, 4, 8)
        if model["batch"] % (cards // tensor // pipeline * micro_batch) == 0
        if model["batch"] // (cards // tensor // pipeline * micro_batch) >= pipeline
        for stage in (0, 1, 2, 3)
        for recompute in ("none", "selective", "full")
    ]
    fitting = [each for each in candidates if peak(*each) <= cluster["memory"]]
    best = min(fitting, key=lambda each: seconds(*each))
    names = ("tensor", "pipeline", "data", "stage", "recompute", "micro_batch")
    return dict(zip(names, best, strict=True))


def rent(job, offers, hours):
    """plan.6"""
    found = []
    for index, offer in enumerate(offers):
        for nodes in range(1, offer["nodes"] + 1):
            cards = nodes * offer["cards"]
            if job["batch"] % cards or job["states"] / cards + job["kept"] > offer["memory"]:
                continue
            step = job["batch"] // cards * job["flop"] / offer["flops"]
            if nodes > 1:
                step += job["moved"] / offer["bandwidth"]
            billed = -(-job["steps"] * step // 3600)
            if billed <= hours:
                found.append((billed * cards * offer["price"], billed, index, nodes))
    return min(found)[2:] if found else None
