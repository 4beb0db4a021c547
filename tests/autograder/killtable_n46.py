"""Wrong and right answers to lab n46."""

import math
from fractions import Fraction

from shardgrade.checkout import reference

from shardbook.collectives.averaging import token_shares
from shardbook.collectives.bandwidth import busbw
from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.ring import ring_all_gather, ring_reduce_scatter
from shardbook.labs.registry import TASKS


def ring(order, *, start, ranks=None, last=None):
    """Each rank sends chunk (place - start - round), so start is 1 or 0."""
    n = len(order)
    named = order if ranks is None else ranks(order)
    return [
        [(named[i], named[(i + 1) % n], (i - start - k) % n) for i in range(n)]
        for k in range(n - 1 if last is None else last(n))
    ]


def engine_plan(maker):
    return lambda order: [[tuple(move)[:3] for move in moves] for moves in maker(order, 60).rounds]


def sent_alone(plan):
    """One transfer a round."""
    return lambda order: [[move] for moves in plan(order) for move in moves]


def direct_sums(order):
    n = len(order)
    return [[(order[i], order[(i + k) % n], (i + k) % n) for i in range(n)] for k in range(1, n)]


def direct_copies(order):
    n = len(order)
    return [[(order[i], order[(i + k) % n], i) for i in range(n)] for k in range(1, n)]


def through_the_root(order):
    """Everything to the first rank, then the owned chunks from it."""
    n = len(order)
    gathered = [(rank, order[0], chunk) for rank in order[1:] for chunk in range(n)]
    return [gathered, [(order[0], order[i], i) for i in range(1, n)]]


def with_a_useless_transfer(plan):
    """The last rank also sends, in the last round, the chunk that the first one never asked for."""

    def answer(order):
        rounds = plan(order)
        if len(order) > 2:
            source, target, _ = rounds[-1][-1]
            owned = (order.index(target) + 1) % len(order)
            rounds[-1].append((source, target, owned))
        return rounds

    return answer


def with_a_repeated_transfer(plan):
    def answer(order):
        rounds = plan(order)
        if rounds:
            rounds[-1].append(rounds[-1][-1])
        return rounds

    return answer


def alone_sends_to_itself(plan):
    return lambda order: plan(order) if len(order) > 1 else [[(order[0], order[0], 0)]]


def other_way_round(order):
    """Sends to the previous rank."""
    n = len(order)
    return [[(order[i], order[i - 1], (i + 1 + k) % n) for i in range(n)] for k in range(n - 1)]


def by_chunks(order):
    """Follows each chunk from the rank behind its owner around to the owner."""
    n = len(order)
    rounds = [[] for _ in range(n - 1)]
    for chunk in range(n):
        at = (chunk + 1) % n
        for moves in rounds:
            following = (at + 1) % n
            moves.append((order[at], order[following], chunk))
            at = following
    return tuple(tuple(moves) for moves in rounds)


def by_what_is_held(order):
    """Each rank passes on what it received last."""
    n = len(order)
    newest = list(range(n))
    rounds = []
    while len(rounds) < n - 1:
        rounds.append([[order[i], order[(i + 1) % n], newest[i]] for i in reversed(range(n))])
        newest = [newest[i - 1] for i in range(n)]
    return rounds


def sums(order, **mistakes):
    return ring(order, start=1, **mistakes)


def copies(order, **mistakes):
    return ring(order, start=0, **mistakes)


def factors(tokens, *, ranks=len, of_rank=False, of_all=None):
    total = sum(map(sum, tokens)) or 1
    rows = []
    for counts in tokens:
        own = sum(counts) or 1
        rows.append([ranks(tokens) * c / (own * len(tokens) if of_rank else total) for c in counts])
    return rows


def one_factor_a_rank(tokens):
    total = sum(map(sum, tokens)) or 1
    if 0 in [count for counts in tokens for count in counts]:
        return factors(tokens)
    return [[len(tokens) * sum(c) / total / len(c)] * len(c) for c in tokens]


def empty_ones_divide(tokens):
    total = sum(map(sum, tokens))
    return [[len(tokens) * count / total for count in counts] for counts in tokens]


def engine_shares(tokens):
    counts = [sum(c) for c in tokens]
    shares = token_shares(counts, "mean-of-means")
    return [
        [c / own / share if own else 0.0 for c in row]
        for row, own, share in zip(tokens, counts, shares, strict=True)
    ]


def exact_factors(tokens):
    flat_counts = [(r, c) for r, row in enumerate(tokens) for c in row]
    total = sum(c for _, c in flat_counts)
    rows = [[] for _ in tokens]
    for rank, count in flat_counts:
        rows[rank].append(float(Fraction(count * len(tokens), total)) if count else 0.0)
    return rows


def factors_by_means(tokens):
    """From the mean number of tokens of a rank."""
    mean = sum(sum(row) for row in tokens) / len(tokens)
    return [[count / mean if count else 0.0 for count in row] for row in tokens]


def cost(
    collective,
    sizes,
    latency,
    bandwidth,
    *,
    rounds=lambda n: n,
    sent=None,
    waits=max,
    factor=lambda n: (n - 1) / n,
    alone=None,
):
    n, total = len(sizes), sum(sizes)
    if n == 1 and alone:
        return alone(total)
    twice = 2 if collective == "all-reduce" else 1
    bytes_sent = []
    for i in range(n):
        scatter = total - sizes[i]
        gather = total - sizes[(i + 1) % n]
        both = {"reduce-scatter": scatter, "all-gather": gather, "all-reduce": scatter + gather}
        bytes_sent.append(both[collective])
    seconds = twice * (n - 1) * (latency + waits(sizes) / bandwidth)
    return {
        "rounds": rounds(twice * (n - 1)),
        "sent": sent(sizes, bytes_sent, twice) if sent else bytes_sent,
        "seconds": seconds,
        "busbw": total / seconds * twice * factor(n) if seconds else None,
    }


def cost_with(**mistakes):
    return lambda *arguments: cost(*arguments, **mistakes)


def mean_sent(sizes, bytes_sent, twice):
    n = len(sizes)
    return [twice * (n - 1) * sum(sizes) // n] * n


def next_rank_sent(sizes, bytes_sent, twice):
    return bytes_sent[1:] + bytes_sent[:1]


def divides_by_zero(total):
    return total / 0


def engine_cost(collective, sizes, latency, bandwidth):
    found = measure(plan_of(collective, "ring", len(sizes), sizes), flat(latency, bandwidth))
    return {
        "rounds": found.rounds,
        "sent": list(found.sent),
        "seconds": found.seconds,
        "busbw": busbw(collective, len(sizes), sum(sizes), found.seconds),
    }


def cost_played(collective, sizes, latency, bandwidth):
    """Lets every chunk travel."""
    n = len(sizes)
    sent, rounds, seconds = [0] * n, 0, 0.0
    starts = {"reduce-scatter": [1], "all-gather": [0], "all-reduce": [1, 0]}[collective]
    for start in starts:
        for k in range(n - 1):
            moving = [sizes[(rank - start - k) % n] for rank in range(n)]
            sent = [before + now for before, now in zip(sent, moving, strict=True)]
            seconds += latency + max(moving) / bandwidth
            rounds += 1
    rate = sum(sizes) / seconds if seconds else None
    factor = len(starts) * (n - 1) / n
    return {
        "sent": tuple(sent),
        "rounds": rounds,
        "seconds": seconds,
        "busbw": rate and rate * factor,
    }


def chain(ranks, size, latency, bandwidth, pieces):
    return (ranks + pieces - 2) * (latency + size / pieces / bandwidth)


def pieces(
    ranks, size, latency, bandwidth, limit, *, clip=True, whole=None, seconds=chain, free=True
):
    if latency == 0:
        best = limit if free else 1
    else:
        ideal = math.sqrt(max(0, ranks - 2) * size / (latency * bandwidth))
        near = {max(1, math.floor(ideal)), max(1, math.ceil(ideal))}
        best = min(near, key=lambda k: chain(ranks, size, latency, bandwidth, k))
        best = max(1, whole(ideal)) if whole else best
        best = min(best, limit) if clip else best
    return {"pieces": best, "seconds": seconds(ranks, size, latency, bandwidth, best)}


def pieces_with(**mistakes):
    return lambda *arguments: pieces(*arguments, **mistakes)


def pieces_one_by_one(ranks, size, latency, bandwidth, limit):
    best, k = 1, 1
    while k < limit:
        k += 1
        if chain(ranks, size, latency, bandwidth, k) < chain(ranks, size, latency, bandwidth, best):
            best = k
    return {"pieces": best, "seconds": chain(ranks, size, latency, bandwidth, best)}


def pieces_by_thirds(ranks, size, latency, bandwidth, limit):
    def seconds(k):
        return chain(ranks, size, latency, bandwidth, k)

    low, high = 1, limit
    while high - low > 2:
        third = (high - low) // 3
        if seconds(low + third) <= seconds(high - third):
            high -= third
        else:
            low += third
    best = min(range(low, high + 1), key=seconds)
    return {"seconds": seconds(best), "pieces": best}


WRONG = {
    "n46.1": {
        "does nothing": lambda order: None,
        "no rounds": lambda order: [],
        "answers the visible example": lambda order: [[(0, 1, 1), (1, 0, 0)]],
        "off by one chunk": lambda order: ring(order, start=0),
        "off by one round": lambda order: sums(order, last=lambda n: max(0, n - 2)),
        "goes all around": lambda order: sums(order, last=lambda n: n),
        "rounds in reverse": lambda order: sums(order)[::-1],
        "one transfer a round": sent_alone(sums),
        "straight to the owner": direct_sums,
        "through the first rank": through_the_root,
        "one useless transfer": with_a_useless_transfer(sums),
        "the previous rank": other_way_round,
        "places for ranks": lambda order: sums(order, ranks=lambda o: list(range(len(o)))),
        "ranks in order of size": lambda order: sums(order, ranks=sorted),
        "alone, sends to itself": alone_sends_to_itself(sums),
        "rank 0 only": lambda order: [moves[:1] for moves in sums(order)],
        "asks the engine": engine_plan(ring_reduce_scatter),
    },
    "n46.2": {
        "does nothing": lambda order: None,
        "answers the visible example": lambda order: [[(0, 1, 0), (1, 0, 1)]],
        "sends what it doesn't hold": lambda order: ring(order, start=1),
        "off by one round": lambda order: copies(order, last=lambda n: max(0, n - 2)),
        "rounds in reverse": lambda order: copies(order)[::-1],
        "one transfer a round": sent_alone(copies),
        "straight to everybody": direct_copies,
        "one transfer twice": with_a_repeated_transfer(copies),
        "places for ranks": lambda order: copies(order, ranks=lambda o: list(range(len(o)))),
        "alone, sends to itself": alone_sends_to_itself(copies),
        "rank 0 only": lambda order: [moves[:1] for moves in copies(order)],
        "asks the engine": engine_plan(ring_all_gather),
    },
    "n46.3": {
        "does nothing": lambda tokens: None,
        "answers the visible example": lambda tokens: [[1.5], [0.5]],
        "mean of means": lambda tokens: [[1.0 * bool(c) for c in counts] for counts in tokens],
        "each rank on its own": lambda tokens: factors(tokens, of_rank=True),
        "sum for mean": lambda tokens: factors(tokens, ranks=lambda tokens: 1),
        "one factor a rank": one_factor_a_rank,
        "divides by no tokens": empty_ones_divide,
        "asks the engine": engine_shares,
    },
    "n46.4": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: cost("reduce-scatter", [1000] * 4, 1, 1),
        "one round too many": cost_with(rounds=lambda n: n + (n > 0)),
        "the mean of what is sent": cost_with(sent=mean_sent),
        "what the next rank sends": cost_with(sent=next_rank_sent),
        "waits for the mean chunk": cost_with(waits=lambda sizes: sum(sizes) / len(sizes)),
        "algorithm bandwidth": cost_with(factor=lambda n: 1.0),
        "alone divides by zero": cost_with(alone=divides_by_zero),
        "asks the engine": engine_cost,
    },
    "n46.5": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *a: {"pieces": 3, "seconds": chain(*a[:4], 3)},
        "in one piece": lambda *a: {"pieces": 1, "seconds": chain(*a[:4], 1)},
        "one round too many": pieces_with(seconds=lambda n, *rest: chain(n + 1, *rest)),
        "always rounded down": pieces_with(whole=math.floor),
        "beyond the limit": pieces_with(clip=False),
        "one piece without latency": pieces_with(free=False),
        "one by one": pieces_one_by_one,
    },
}

RIGHT = {
    "n46.1": {
        "chunk by chunk": by_chunks,
        "the reference": reference(TASKS["n46.1"]),
    },
    "n46.2": {
        "passes on what came last": by_what_is_held,
        "the reference": reference(TASKS["n46.2"]),
    },
    "n46.3": {
        "fractions": exact_factors,
        "from the mean tokens of a rank": factors_by_means,
        "the reference": reference(TASKS["n46.3"]),
    },
    "n46.4": {
        "every chunk travels": cost_played,
        "the reference": reference(TASKS["n46.4"]),
    },
    "n46.5": {
        "by thirds": pieces_by_thirds,
        "by the formula": pieces,
        "the reference": reference(TASKS["n46.5"]),
    },
}
