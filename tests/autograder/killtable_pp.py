"""Wrong and right answers to lab pp."""

import heapq
import re
from itertools import zip_longest

from shardgrade.checkout import reference

from shardbook.labs.registry import TASKS
from shardbook.schedules.pipeline import make_order


def texts(order):
    return [[str(action) for action in row] for row in order]


def plain(stages, micro_batches, *, ahead=lambda stage, stages, m: stages - 1 - stage, done="B"):
    order = []
    for stage in range(stages):
        forwards = [f"{stage}F{k}" for k in range(micro_batches)]
        backwards = [[f"{stage}{kind}{k}" for kind in done] for k in range(micro_batches)]
        lead = max(0, min(ahead(stage, stages, micro_batches), micro_batches))
        row = forwards[:lead]
        for forward, backward in zip_longest(forwards[lead:], backwards):
            row += [forward, *backward] if forward else backward
        order.append(row)
    return order


def plain_with(**mistakes):
    return lambda *arguments: plain(*arguments, **mistakes)


def plain_two_by_two(stages, m):
    return plain(stages, m - m % 2 if m > stages else m)


def plain_lead(change):
    """Another lead where there are as many micro-batches as stages."""
    return plain_with(
        ahead=lambda stage, p, m: p - 1 - stage + (change(stage, p) if m >= p > 1 else 0)
    )


def plain_lead_not_capped(stages, micro_batches):
    order = []
    for stage in range(stages):
        lead = stages - 1 - stage
        row = [f"{stage}F{k}" for k in range(lead)]
        for k in range(micro_batches):
            row += [f"{stage}F{lead + k}"] if lead + k < micro_batches else []
            row.append(f"{stage}B{k}")
        order.append(row)
    return order


def plain_by_hand(stages, micro_batches):
    """Plays the step: a backward as soon as there is one, else a forward if there is a place."""
    order, forward, backward = [[] for _ in range(stages)], [0] * stages, [0] * stages
    while min(backward) < micro_batches:
        moves = []
        for s in range(stages):
            f, b = forward[s], backward[s]
            if b < f and (s == stages - 1 or b < backward[s + 1]):
                moves.append((s, "B", b))
            elif f < micro_batches and f - b < stages - s and (s == 0 or f < forward[s - 1]):
                moves.append((s, "F", f))
        for s, kind, k in moves:
            order[s].append(f"{s}{kind}{k}")
            (forward if kind == "F" else backward)[s] += 1
    return order


def chunked(
    ranks,
    micro_batches,
    chunks,
    *,
    lead=lambda rank, p, m, v: (v - 1) * p + 2 * (p - 1 - rank),
    turned=True,
    home=lambda rank, chunk, p, v: rank + chunk * p,
    whole=lambda m, p: -(-m // p),
):
    total = whole(micro_batches, ranks) * ranks * chunks
    order = []
    for rank in range(ranks):
        ahead = min(lead(rank, ranks, micro_batches, chunks), total)
        slots = [("F", k) for k in range(ahead)]
        for k in range(total):
            slots += [("F", ahead + k)] if ahead + k < total else []
            slots.append(("B", k))
        row = []
        for kind, k in slots:
            cycle, place = divmod(k, ranks * chunks)
            chunk, number = place // ranks, cycle * ranks + place % ranks
            chunk = chunks - 1 - chunk if kind == "B" and turned else chunk
            if number < micro_batches:
                row.append(f"{home(rank, chunk, ranks, chunks)}{kind}{number}")
        order.append(row)
    return order


def chunked_with(**mistakes):
    return lambda *arguments: chunked(*arguments, **mistakes)


def chunked_two_by_two(ranks, m, chunks):
    full = m % ranks == 0 and chunks > 1
    return chunked(ranks, m - m % 2 if full else m, chunks)


def chunked_flushed(ranks, m, chunks):
    """Empties the pipeline after every full round."""
    if m % ranks or chunks == 1:
        return chunked(ranks, m, chunks)
    order = [[] for _ in range(ranks)]
    for first in range(0, m, ranks):
        for row, part in zip(order, chunked(ranks, ranks, chunks), strict=True):
            for text in part:
                stage, kind, k = re.split(r"(\D)", text)
                row.append(f"{stage}{kind}{first + int(k)}")
    return order


def breadth_first(ranks, micro_batches, chunks):
    order = []
    for rank in range(ranks):
        stages = range(rank, ranks * chunks, ranks)
        row = [f"{s}F{k}" for s in stages for k in range(micro_batches)]
        order.append(row + [f"{s}B{k}" for s in reversed(stages) for k in range(micro_batches)])
    return order


def serial(ranks, micro_batches, chunks):
    order = [[] for _ in range(ranks)]
    stages = range(ranks * chunks)
    for k in range(micro_batches):
        for s in stages:
            order[s % ranks].append(f"{s}F{k}")
        for s in reversed(stages):
            order[s % ranks].append(f"{s}B{k}")
    return order


def played(ranks, micro_batches, chunks):
    """Merges two streams by their heads."""
    order = []
    for rank in range(ranks):
        keys = sorted((k // ranks, c, k) for c in range(chunks) for k in range(micro_batches))
        padded = -(-micro_batches // ranks) * ranks
        place = {
            key: i
            for i, key in enumerate(
                sorted((k // ranks, c, k) for c in range(chunks) for k in range(padded))
            )
        }
        lead = (chunks - 1) * ranks + 2 * (ranks - 1 - rank)
        forwards = [(place[key], 0, key) for key in keys]
        backwards = [(place[key] + lead, 1, key) for key in keys]
        row = []
        for _, back, (_, chunk, k) in sorted(forwards + backwards):
            stage = rank + (chunks - 1 - chunk if back else chunk) * ranks
            row.append(f"{stage}{'FB'[back]}{k}")
        order.append(row)
    return order


def greedy(p, m, times, limit, *, ranking="IFW", depth=lambda s, p, limit: limit):
    """Every stage does the first thing of its ranking that it can do; returns seconds and order."""
    seconds = dict(zip("FIW", times, strict=True))
    ends = [{kind: [] for kind in "FIW"} for _ in range(p)]
    order, free, clock = [[] for _ in range(p)], [0] * p, [0]

    def can(s, kind, now):
        own, k = ends[s], len(ends[s][kind])
        if k == m:
            return False
        if kind == "F":
            room = k - len(own["W"]) < limit and k - len(own["I"]) < depth(s, p, limit)
            return room and (s == 0 or (len(ends[s - 1]["F"]) > k and ends[s - 1]["F"][k] <= now))
        before = [own["F" if kind == "I" else "I"]]
        if kind == "I" and s < p - 1:
            before.append(ends[s + 1]["I"])
        return all(len(done) > k and done[k] <= now for done in before)

    while clock:
        now = heapq.heappop(clock)
        for s in range(p):
            kind = next((k for k in ranking if free[s] <= now and can(s, k, now)), None)
            if kind:
                order[s].append(f"{s}{kind}{len(ends[s][kind])}")
                free[s] = now + seconds[kind]
                ends[s][kind].append(free[s])
                heapq.heappush(clock, free[s])
    return max(free), order


def from_the_end(stage, stages, limit):
    return stages - stage


def best(p, m, times, limit):
    depths = [
        *(lambda s, p, limit, c=c: max(1, p - s + c) for c in range(3)),
        lambda s, p, limit: limit,
        lambda s, p, limit: 2 * (p - s) - 1,
    ]
    return min((greedy(p, m, times, limit, depth=d) for d in depths), key=lambda x: x[0])[1]


def best_but(when, otherwise):
    """The best order, but another one for some arguments."""
    return lambda *case: otherwise(*case) if when(*case) else best(*case)


def in_groups(p, m, times, limit):
    """GPipe with as many micro-batches as fit, then the next ones."""
    order = [[] for _ in range(p)]
    for first in range(0, m, limit):
        group = range(first, min(m, first + limit))
        for s in range(p):
            order[s] += [f"{s}F{k}" for k in group]
            order[s] += [f"{s}{kind}{k}" for k in group for kind in "IW"]
    return order


def weights_last(p, m, times, limit):
    rows = plain(p, m, done="I")
    return [row + [f"{s}W{k}" for k in range(m)] for s, row in enumerate(rows)]


def without_last(order):
    return [row[:-1] for row in order]


WRONG = {
    "pp.1": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: plain(4, 8),
        "GPipe": plain_with(ahead=lambda stage, p, m: m),
        "one micro-batch after the other": lambda p, m: serial(p, m, 1),
        "micro-batches two by two": plain_two_by_two,
        "one forward too few before the first backward": plain_lead(
            lambda stage, p: -(stage < p - 1)
        ),
        "one forward too many before the first backward": plain_lead(lambda stage, p: 1),
        "the same lead on all stages": plain_with(ahead=lambda stage, p, m: p - 1),
        "the lead of the mirrored stage": plain_with(ahead=lambda stage, p, m: stage),
        "lead longer than the micro-batches": plain_lead_not_capped,
        "no pipeline with one stage": lambda p, m: plain(p, m) if p > 1 else [],
        "the last backward is missing": lambda *a: without_last(plain(*a)),
        "stages from one": lambda p, m: [[], *plain(p, m)][: p + 1],
        "one text for each rank": lambda *a: [" ".join(row) for row in plain(*a)],
        "asks the engine": lambda p, m: texts(make_order("1f1b", p, m)),
    },
    "pp.2": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: chunked(4, 8, 2),
        "one micro-batch after the other": serial,
        "micro-batches two by two": chunked_two_by_two,
        "a flush after every round": chunked_flushed,
        "too short a lead": chunked_with(lead=lambda rank, p, m, v: (v - 1) * p + p - 2 - rank),
        "no lead": chunked_with(lead=lambda rank, p, m, v: 0),
        "all forwards first": breadth_first,
        "backwards in the order of forwards": chunked_with(turned=False),
        "neighbouring stages on a rank": chunked_with(home=lambda r, c, p, v: r * v + c),
        "the short round is left out": chunked_with(whole=lambda m, p: m // p),
        "divides by the other chunks": lambda p, m, v: chunked(p, m, v) if 1 % (v - 1) < 2 else [],
        "the last backward is missing": lambda *a: without_last(chunked(*a)),
        "asks the engine": lambda p, m, v: texts(make_order("interleaved-1f1b", p, m, v)),
    },
    "pp.3": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: best(4, 8, (1, 1, 1), 4),
        "1F1B as given": lambda p, m, times, limit: plain(p, m, done="IW"),
        "all weights at the end": weights_last,
        "groups of as many as fit": in_groups,
        "forwards first": lambda *case: greedy(*case, ranking="FIW")[1],
        "one place too many": lambda p, m, times, limit: best(p, m, times, limit + 1),
        "never one place only": best_but(
            lambda p, m, t, limit: limit == 1 < p, lambda p, m, t, limit: best(p, m, t, 2)
        ),
        "1F1B if there are few micro-batches": best_but(
            lambda p, m, t, limit: m < p and limit >= p,
            lambda p, m, t, limit: plain(p, m, done="IW"),
        ),
        "never more than 1F1B holds": best_but(
            lambda p, m, t, limit: limit > p,
            lambda *case: greedy(*case, depth=from_the_end)[1],
        ),
        "forwards as early as they can": lambda *case: greedy(*case)[1],
        "groups where memory is short": best_but(lambda p, m, t, limit: 1 < limit < p, in_groups),
        "the last weight part is missing": lambda *case: without_last(best(*case)),
        "asks the engine": lambda p, m, times, limit: texts(
            make_order("interleaved-zero-bubble", p, m, 1)
        ),
    },
}

RIGHT = {
    "pp.1": {"two streams merged": plain, "played step by step": plain_by_hand},
    "pp.2": {
        "by slots": chunked,
        "by places": played,
        "half the lead": chunked_with(lead=lambda rank, p, m, v: (v - 1) * p + p - 1 - rank),
    },
    "pp.3": {"best of greedy ones": best},
}

for _task, _entries in RIGHT.items():
    _entries["the reference"] = reference(TASKS[_task])
