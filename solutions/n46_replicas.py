"""Reference solutions of lab n46. For course staff: in no student package, on no page."""


def reduce_scatter_plan(order):
    """n46.1"""
    count = len(order)
    rounds = []
    for behind in range(1, count):
        sending = []
        for place, rank in enumerate(order):
            neighbour = order[(place + 1) % count]
            sending.append((rank, neighbour, (place - behind) % count))
        rounds.append(sending)
    return rounds


def all_gather_plan(order):
    """n46.2"""
    count = len(order)
    rounds = []
    for hops in range(count - 1):
        sending = []
        for place, rank in enumerate(order):
            neighbour = order[(place + 1) % count]
            sending.append((rank, neighbour, (place - hops) % count))
        rounds.append(sending)
    return rounds


def loss_factors(tokens):
    """n46.3"""
    everything = sum(sum(counts) for counts in tokens)
    if everything == 0:
        return [[0.0] * len(counts) for counts in tokens]
    return [[len(tokens) * count / everything for count in counts] for counts in tokens]


def ring_cost(collective, sizes, latency, bandwidth):
    """n46.4"""
    ranks, total = len(sizes), sum(sizes)
    phases = 2 if collective == "all-reduce" else 1
    scattered = [total - own for own in sizes]
    gathered = [total - following for following in [*sizes[1:], sizes[0]]]
    both = [one + other for one, other in zip(scattered, gathered, strict=True)]
    sent = {"reduce-scatter": scattered, "all-gather": gathered, "all-reduce": both}[collective]
    rounds = phases * (ranks - 1)
    seconds = rounds * (latency + max(sizes) / bandwidth)
    busbw = None
    if seconds > 0:
        busbw = total / seconds * phases * (ranks - 1) / ranks
    return {"rounds": rounds, "sent": sent, "seconds": seconds, "busbw": busbw}


def best_pieces(ranks, size, latency, bandwidth, limit):
    """n46.5"""

    def chain_time(pieces):
        return (ranks + pieces - 2) * (latency + size / pieces / bandwidth)

    low, high = 1, limit
    while low < high:
        middle = (low + high) // 2
        if chain_time(middle + 1) < chain_time(middle):
            low = middle + 1
        else:
            high = middle
    return {"pieces": low, "seconds": chain_time(low)}
