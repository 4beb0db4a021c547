"""Wrong and right answers to lab plan."""

import itertools
from math import ceil, inf, prod

from shardgrade.checkout import reference

from shardbook.collectives.groups import process_groups
from shardbook.labs.handed_layouts import cluster_of, model_of
from shardbook.labs.registry import TASKS
from shardbook.planner.layouts import Layout, Limits, micro_batches, refused
from shardbook.planner.memory import peak_memory
from shardbook.planner.plan import judge, plan

OPTIMIZER, GRADIENTS, WEIGHTS = 1, 2, 3
KINDS = ("none", "selective", "full")


def card(
    model,
    layout,
    place,
    *,
    holders=lambda y: y["data"] * y["context"],
    tables=lambda place, p: place in (0, p - 1),
    cut=lambda y: y["tensor"],
    split=lambda y: y["tensor"] * y["context"],
    alive=lambda place, p, m: p - place,
    none=lambda inner, matrix: inner + matrix,
    selective=lambda inner, matrix: inner,
    moments=12,
    whole_gradient=lambda stage, n: stage >= GRADIENTS and n > 1,
    gathered=lambda stage, n: 2 * (stage == WEIGHTS and n > 1),
    at_most=min,
    again=lambda inner, kept: inner - kept,
    logits=lambda place, p: place == p - 1,
):
    """Everything of plan.1, each part open to a mistake."""
    p, h, s = layout["pipeline"], model["hidden"], model["sequence"]
    n, stage, kind = holders(layout), layout["stage"], layout["recompute"]
    one = 12 * h * h // cut(layout)
    mine = model["layers"] // p * one + tables(place, p) * model["vocabulary"] * h // cut(layout)
    work = s * layout["micro_batch"]
    inner = 34 * work * h // split(layout)
    matrix = 5 * model["heads"] * work * s // split(layout)
    least = 2 * work * h // split(layout)
    kept = {"none": none(inner, matrix), "selective": selective(inner, matrix), "full": least}[kind]
    count = model["batch"] // layout["data"] // layout["micro_batch"]
    part = [n if stage >= first else 1 for first in (WEIGHTS, GRADIENTS, OPTIMIZER)]
    return {
        "weights": 2 * mine // part[0],
        "gradients": 2 * mine // part[1],
        "optimizer": moments * mine // part[2],
        "activations": alive(place, p, count) * (model["layers"] // p) * kept,
        "temporary": 2 * one * at_most(gathered(stage, n), model["layers"] // p)
        + 2 * one * whole_gradient(stage, n)
        + (again(inner, least) if kind == "full" else 0)
        + logits(place, p) * 6 * work * model["vocabulary"] // split(layout),
    }


def card_with(**mistakes):
    return lambda *arguments: card(*arguments, **mistakes)


def card_as_floats(model, layout, place):
    return {name: float(size) for name, size in card(model, layout, place).items()}


def engine_card(model, layout, place):
    pieces = dict(peak_memory(model_of(model), Layout(**layout)).pieces)
    return {
        "weights": pieces["weights"],
        "gradients": pieces["gradients"],
        "optimizer": pieces["master_weights"] + pieces["momentum"] + pieces["variance"],
        "activations": pieces["activations"],
        "temporary": pieces["logits"] + pieces["gathered_layers"] + pieces["layer_gradient"],
    }


def by_coordinates(axes, cards, rank):
    """Lists all ranks by their coordinates, and looks for those that differ in one axis only."""
    degrees = [degree for _, degree in axes]
    spots = [spot[::-1] for spot in itertools.product(*map(range, reversed(degrees)))]
    table = {}
    for axis, (name, degree) in enumerate(axes):
        mine = spots[rank]
        same = [
            number
            for number, spot in enumerate(spots)
            if all(a == b for i, (a, b) in enumerate(zip(spot, mine, strict=True)) if i != axis)
        ]
        nodes = [number // cards for number in same]
        table[name] = (same, sum(nodes[i] != nodes[i - 1] for i in range(degree)))
    return table


def changed_rings(change):
    return lambda axes, cards, rank: {
        name: change(group, leaving, cards)
        for name, (group, leaving) in by_coordinates(axes, cards, rank).items()
    }


def in_a_usual_order(axes, cards, rank):
    order = ("tensor", "context", "expert", "data", "pipeline")
    return by_coordinates(sorted(axes, key=lambda axis: order.index(axis[0])), cards, rank)


def last_axis_fastest(axes, cards, rank):
    return by_coordinates(axes[::-1], cards, rank)


def neighbours_only(axes, cards, rank):
    return {name: ([rank - rank % degree + i for i in range(degree)], 0) for name, degree in axes}


def short_strides(axes, cards, rank):
    """Steps from rank to rank by the product of the two axes before, not of all."""
    degrees = [degree for _, degree in axes]
    table = {}
    for axis, (name, degree) in enumerate(axes):
        stride = prod(degrees[max(0, axis - 2) : axis])
        start = rank - rank // stride % degree * stride
        group = [start + i * stride for i in range(degree)]
        table[name] = (
            group,
            sum(group[i] // cards != group[i - 1] // cards for i in range(degree)),
        )
    return table


def from_own_rank(axes, cards, rank):
    """The ring begins at this rank instead of the group's first."""
    return {
        name: (group[group.index(rank) :] + group[: group.index(rank)], leaving)
        for name, (group, leaving) in by_coordinates(axes, cards, rank).items()
    }


def without_single_axes(axes, cards, rank):
    return by_coordinates([axis for axis in axes if axis[1] > 1], cards, rank)


def chain(group, leaving, cards):
    return group, sum(a // cards != b // cards for a, b in itertools.pairwise(group))


def nodes_of_the_group(group, leaving, cards):
    """Right: a ring in rank order leaves each of its nodes once."""
    return group, len({rank // cards for rank in group}) if leaving else 0


def engine_rings(axes, cards, rank):
    return {
        name: chain(list(next(g for g in groups if rank in g)), 0, cards)
        for name, groups in process_groups(dict(axes)).items()
    }


RULES = {
    "cards": lambda m, k, y, peak: (
        prod(y[name] for name in ("tensor", "context", "pipeline", "data"))
        == k["nodes"] * k["cards"]
    ),
    "node": lambda m, k, y, peak: y["tensor"] <= k["cards"],
    "heads": lambda m, k, y, peak: m["heads"] % y["tensor"] == 0,
    "sequence": lambda m, k, y, peak: y["context"] == 1 or m["sequence"] % (2 * y["context"]) == 0,
    "layers": lambda m, k, y, peak: m["layers"] % y["pipeline"] == 0,
    "batch": lambda m, k, y, peak: m["batch"] % (y["data"] * y["micro_batch"]) == 0,
    "micro-batches": lambda m, k, y, peak: (
        m["batch"] // (y["data"] * y["micro_batch"]) >= y["pipeline"]
    ),
    "memory": lambda m, k, y, peak: peak <= k["memory"],
}


def limit_with(names=tuple(RULES), **changed):
    rules = RULES | {name.replace("_", "-"): rule for name, rule in changed.items()}
    return lambda *case: next((name for name in names if not rules[name](*case)), None)


def all_limits(*case):
    return [name for name, rule in RULES.items() if not rule(*case)]


def engine_limit(model, cluster, layout, peak):
    links = {"flops": 1, "inside": 1, "inside_latency": 0, "between": 1, "between_latency": 0}
    return refused(model_of(model), cluster_of(cluster | links), Layout(**layout))


def deal_with(
    *,
    replicas=lambda y: y["data"],
    sizes=lambda most: range(1, most + 1),
    least=lambda y: y["pipeline"],
    otherwise=lambda batch, y: None,
    first=False,
):
    def answer(batch, layout, most):
        ways = [
            (size, batch // size // replicas(layout))
            for size in sizes(most)
            if batch % (size * replicas(layout)) == 0
            and batch // size // replicas(layout) >= least(layout)
        ]
        return ways[0 if first else -1] if ways else otherwise(batch, layout)

    return answer


def rounded_down(batch, layout, most):
    size = min(most, batch // layout["data"] // layout["pipeline"])
    return (size, batch // layout["data"] // size) if size else None


def by_divisors(batch, layout, most):
    """Right: all divisors of a replica's part, from the largest one down."""
    own, rest = divmod(batch, layout["data"])
    if rest:
        return None
    sizes = [size for size in range(1, own + 1) if own % size == 0]
    fitting = [size for size in sizes if size <= most and own // size >= layout["pipeline"]]
    return (max(fitting), own // max(fitting)) if fitting else None


def engine_deal(batch, layout, most):
    model = model_of({"layers": 1, "hidden": 1, "heads": 1, "vocabulary": 1, "sequence": 1,
                      "batch": batch})  # fmt: skip
    for size in range(most, 0, -1):
        count = micro_batches(model, Layout(**layout, micro_batch=size))
        if count >= layout["pipeline"]:
            return size, count
    return None


def every_layout(model, cluster, *, heads=True, layers=True, batch=True, rows=1, widths=None):
    cards = cluster["nodes"] * cluster["cards"]
    for t, p in itertools.product(range(1, cluster["cards"] + 1), range(1, cards + 1)):
        if cluster["cards"] % t or cards % (t * p) or (widths and t not in widths):
            continue
        if (heads and model["heads"] % t) or (layers and model["layers"] % p):
            continue
        d = cards // t // p
        for b, stage, kind in itertools.product((1, 2, 4, 8), range(4 if d > 1 else 1), KINDS):
            whole = not batch or model["batch"] % (d * b) == 0
            if whole and model["batch"] // (d * b) >= p * rows:
                yield t, p, d, stage, kind, b


def held(model, t, p, d, stage, kind, b, **mistakes):
    layout = {"tensor": t, "context": 1, "pipeline": p, "data": d, "stage": stage,
              "recompute": kind, "micro_batch": b}  # fmt: skip
    return max(sum(card(model, layout, place, **mistakes).values()) for place in {0, p - 1})


def spent(
    model,
    cluster,
    t,
    p,
    d,
    stage,
    kind,
    b,
    *,
    between="between",
    bubble=True,
    tensor=True,
    data=True,
    head=True,
    again=True,
    latency=True,
):
    """The step's time in s, by parts that can be left out."""
    h, s, flops = model["hidden"], model["sequence"], cluster["flops"] * t
    own, work, cards = model["layers"] // p, b * s, cluster["nodes"] * cluster["cards"]
    count = model["batch"] / (d * b)

    def cost(size, ranks, span):
        kind = "inside" if span <= cluster["cards"] else between
        wait = cluster[f"{kind}_latency"] if latency else 0
        return (ranks - 1) * wait + (ranks - 1) / ranks * size / cluster[kind]

    matrix = work * 4 * s * h / flops
    one = work * 24 * h * h / flops + matrix
    reduce = 4 * cost(2 * work * h, t, t) if tensor else 0
    repeated = {"none": 0, "selective": matrix, "full": one + reduce}[kind] if again else 0
    forward, backward = own * (one + reduce), own * (2 * one + reduce + repeated)
    last = 6 * work * h * model["vocabulary"] / flops if head else 0
    total = count * (forward + backward + last)
    if bubble and p > 1:
        where = "inside" if cards // p < cluster["cards"] else between
        total += (p - 1) * (forward + backward)
        total += 2 * (p - 1) * (cluster[f"{where}_latency"] + 2 * work * h / t / cluster[where])
    if data and d > 1:
        parameters = (own * 12 * h * h + h * model["vocabulary"]) / t
        g = own * cost(2 * parameters / own, d, t * d)

        def past(x, y):
            return max(x / own, x - y + y / own)

        total += {
            0: past(2 * g, backward),
            1: past(g, backward) + past(g, forward),
            2: past(g, backward) + past(g, forward) + (count - 1) * max(0, g - backward),
            3: count * (max(0, g - forward) + max(0, 2 * g - backward)) + 2 * g / own,
        }[stage]
    return total


def planner(*, room=lambda k: k["memory"], layouts=None, holds=None, takes=None, pick=min):
    """A planner with a mistake in what it looks at, how it adds up, or how it picks."""

    def choose(model, cluster):
        found = [
            (spent(model, cluster, *each, **(takes or {})), each)
            for each in every_layout(model, cluster, **(layouts or {}))
            if held(model, *each, **(holds or {})) <= room(cluster)
        ]
        return as_dict(pick(found)[1]) if found else None

    return choose


def as_dict(each):
    return dict(zip(("tensor", "pipeline", "data", "stage", "recompute", "micro_batch"), each,
                    strict=True))  # fmt: skip


def all_data(stage, kind="none"):
    def choose(model, cluster):
        return as_dict((1, 1, cluster["nodes"] * cluster["cards"], stage, kind, 1))

    return choose


def largest_tensor(model, cluster):
    return as_dict((cluster["cards"], 1, cluster["nodes"], 1, "none", 1))


def batch_over_all_cards(model, cluster):
    """Takes all cards for replicas when it counts micro-batches."""
    cards = cluster["nodes"] * cluster["cards"]
    each = planner()(model, cluster)
    return each | {"micro_batch": max(1, model["batch"] // cards)} if each else None


def first_that_fits(found):
    return found[0]


def but(when, otherwise):
    """A good planner, but another one for some clusters."""

    def choose(model, cluster):
        return (otherwise if when(model, cluster) else planner())(model, cluster)

    return choose


def many_nodes(model, cluster):
    return cluster["nodes"] == 8


def one_plenty_node(model, cluster):
    return cluster["nodes"] == 1 and cluster["memory"] > 4e10 and model["batch"] > 60


def several(model, cluster):
    return cluster["cards"] == 8 and cluster["nodes"] > 1 and 3e10 < cluster["memory"] < 4e11


def by_the_planner(model, cluster):
    answer = plan(model_of(model), cluster_of(cluster), Limits(schedules=("1f1b",), usable=1.0))
    layout = answer.ranked[0].layout
    return {
        name: getattr(layout, name)
        for name in ("tensor", "pipeline", "data", "stage", "recompute", "micro_batch")
    }


def by_judging(model, cluster):
    def seconds(each):
        made = judge(model_of(model), cluster_of(cluster), Layout(**as_dict(each)))
        return inf if isinstance(made, str) else made.seconds

    return as_dict(min(every_layout(model, cluster), key=seconds))


def rent_with(
    *,
    fits=lambda job, offer, cards: job["states"] / cards + job["kept"] <= offer["memory"],
    divides=lambda job, cards: job["batch"] % cards == 0,
    sends=lambda nodes: nodes > 1,
    billed=ceil,
    late=lambda paid, hours: paid > hours,
    price=lambda paid, cards, offer: paid * cards * offer["price"],
    nodes_of=lambda offer: range(1, offer["nodes"] + 1),
    rank=lambda row: row,
):
    def rent(job, offers, hours):
        rows = []
        for index, offer in enumerate(offers):
            for nodes in nodes_of(offer):
                cards = nodes * offer["cards"]
                if divides(job, cards) and fits(job, offer, cards):
                    step = job["batch"] / cards * job["flop"] / offer["flops"]
                    step += sends(nodes) * job["moved"] / offer["bandwidth"]
                    paid = billed(job["steps"] * step / 3600)
                    if not late(paid, hours):
                        rows.append((price(paid, cards, offer), paid, index, nodes))
        return min(rows, key=rank)[2:] if rows else None

    return rent


def fewest_cards(job, offers, hours):
    return rent_with(rank=lambda row: (row[3], *row))(job, offers, hours)


def something_else_when_nothing_goes(job, offers, hours):
    return rent_with()(job, offers, hours) or rent_with(late=lambda *a: False)(job, offers, hours)


WRONG = {
    "plan.1": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: {
            "weights": 828112896,
            "gradients": 828112896,
            "optimizer": 4968677376,
            "activations": 1396703232,
            "temporary": 294912000,
        },
        "the table on every pipeline rank": card_with(tables=lambda place, p: True),
        "the table on the first rank only": card_with(tables=lambda place, p: place == 0),
        "the table twice on a rank alone": card_with(
            tables=lambda place, p: (place == 0) + (place == p - 1)
        ),
        "context cuts the weights": card_with(cut=lambda y: y["tensor"] * y["context"]),
        "sharded over all cards": card_with(
            holders=lambda y: y["tensor"] * y["context"] * y["pipeline"] * y["data"]
        ),
        "sharded over data only": card_with(holders=lambda y: y["data"]),
        "no master weights": card_with(moments=8),
        "context leaves activations whole": card_with(split=lambda y: y["tensor"]),
        "selective keeps the matrix": card_with(selective=lambda inner, matrix: inner + matrix),
        "none forgets the matrix": card_with(none=lambda inner, matrix: inner),
        "one micro-batch in flight": card_with(alive=lambda place, p, m: 1),
        "all micro-batches in flight": card_with(alive=lambda place, p, m: m if p > 1 else 1),
        "one too few in flight": card_with(alive=lambda place, p, m: max(1, p - place - 1)),
        "one too many in flight": card_with(alive=lambda place, p, m: p - place + (p > 1)),
        "the last rank holds most": card_with(alive=lambda place, p, m: place + 1),
        "every rank holds as many as the first": card_with(alive=lambda place, p, m: p),
        "one gathered layer": card_with(gathered=lambda stage, n: stage == WEIGHTS and n > 1),
        "two gathered layers where there is one": card_with(at_most=lambda two, layers: two),
        "gathers alone": card_with(gathered=lambda stage, n: 2 * (stage == WEIGHTS)),
        "no layer's gradient": card_with(whole_gradient=lambda stage, n: False),
        "logits on every rank": card_with(logits=lambda place, p: True),
        "recomputed layer forgotten": card_with(again=lambda inner, kept: 0),
        "asks the engine": engine_card,
    },
    "plan.2": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: {
            "tensor": ([4, 5, 6, 7], 0),
            "data": ([2, 6], 2),
        },
        "the last axis varies fastest": last_axis_fastest,
        "in the usual order": in_a_usual_order,
        "neighbours along every axis": neighbours_only,
        "begins at the own rank": from_own_rank,
        "axes of degree one left out": without_single_axes,
        "a chain instead of a ring": changed_rings(chain),
        "the stride forgets all axes but two": short_strides,
        "only whether it leaves the node": changed_rings(lambda g, k, cards: (g, int(k > 0))),
        "both directions": changed_rings(lambda g, k, cards: (g, 2 * k)),
        "groups without transfers": changed_rings(lambda g, k, cards: g),
        "asks the engine": engine_rings,
    },
    "plan.3": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: "heads",
        "context is no degree": limit_with(
            cards=lambda m, k, y, peak: (
                y["tensor"] * y["pipeline"] * y["data"] == k["nodes"] * k["cards"]
            )
        ),
        "fewer cards than the cluster will do": limit_with(
            cards=lambda m, k, y, peak: (
                prod(y[name] for name in ("tensor", "context", "pipeline", "data"))
                <= k["nodes"] * k["cards"]
            )
        ),
        "tensor may leave the node": limit_with(
            node=lambda m, k, y, peak: y["tensor"] <= k["cards"] * k["nodes"]
        ),
        "tensor and context stay in a node": limit_with(
            node=lambda m, k, y, peak: y["tensor"] * y["context"] <= k["cards"] // 2
        ),
        "one piece of the sequence a card": limit_with(
            sequence=lambda m, k, y, peak: m["sequence"] % y["context"] == 0
        ),
        "heads only need to be enough": limit_with(
            heads=lambda m, k, y, peak: m["heads"] >= y["tensor"]
        ),
        "layers only need to be enough": limit_with(
            layers=lambda m, k, y, peak: m["layers"] >= y["pipeline"]
        ),
        "the batch by replicas only": limit_with(
            batch=lambda m, k, y, peak: m["batch"] % y["data"] == 0
        ),
        "the batch over all cards": limit_with(
            batch=lambda m, k, y, peak: (
                m["batch"] % (y["data"] * y["context"] * y["tensor"] * y["micro_batch"]) == 0
            )
        ),
        "one micro-batch more than ranks": limit_with(
            micro_batches=lambda m, k, y, peak: (
                m["batch"] // (y["data"] * y["micro_batch"]) > y["pipeline"]
            )
        ),
        "never short of micro-batches": limit_with(micro_batches=lambda *case: True),
        "full is too full": limit_with(memory=lambda m, k, y, peak: peak < k["memory"]),
        "a part of the memory only": limit_with(
            memory=lambda m, k, y, peak: peak <= k["memory"] * 0.92
        ),
        "memory first": limit_with(("memory", *RULES)),
        "the last one": limit_with(tuple(reversed(RULES))),
        "all of them": all_limits,
        "asks the engine": engine_limit,
    },
    "plan.4": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: (8, 2),
        "all cards are replicas": deal_with(
            replicas=lambda y: y["data"] * y["tensor"] * y["context"] * y["pipeline"]
        ),
        "context reads other sequences": deal_with(replicas=lambda y: y["data"] * y["context"]),
        "no replicas": deal_with(replicas=lambda y: 1),
        "one micro-batch will do": deal_with(least=lambda y: 1),
        "half the pipeline will do": deal_with(least=lambda y: y["pipeline"] / 2),
        "one more than the pipeline": deal_with(least=lambda y: y["pipeline"] + 1),
        "powers of two": deal_with(sizes=lambda most: [1 << k for k in range(most.bit_length())]),
        "divisors of the limit": deal_with(
            sizes=lambda most: [k for k in range(1, most + 1) if most % k == 0]
        ),
        "the smallest": deal_with(first=True),
        "up to below the limit": deal_with(sizes=lambda most: range(1, most)),
        "rounds the batch down": rounded_down,
        "something when nothing goes": deal_with(
            otherwise=lambda batch, y: (1, batch // y["data"])
        ),
        "zeros when nothing goes": deal_with(otherwise=lambda batch, y: (0, 0)),
        "accumulation first": lambda *case: (by_divisors(*case) or ())[::-1] or None,
        "asks the engine": engine_deal,
    },
    "plan.5": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: as_dict((4, 1, 2, 1, "selective", 1)),
        "always replicas": all_data(0),
        "always stage 1": all_data(1),
        "stage 3 over all cards": all_data(3),
        "stage 3 and all recomputed": all_data(3, "full"),
        "the largest tensor group": largest_tensor,
        "no tensor parallelism": planner(layouts={"widths": (1,)}),
        "ignores the memory": planner(room=lambda k: inf),
        "states only": planner(holds={"split": lambda y: 10**9}),
        "forgets the logits": planner(holds={"logits": lambda place, p: False}),
        "forgets the logits of a large table": but(
            lambda m, k: m["vocabulary"] > 10**5, planner(holds={"logits": lambda place, p: False})
        ),
        "shards over all cards": planner(
            holds={"holders": lambda y: y["tensor"] * y["pipeline"] * y["data"]}
        ),
        "half of the memory": planner(room=lambda k: k["memory"] / 2),
        "ignores the heads": planner(layouts={"heads": False}),
        "ignores the layers": planner(layouts={"layers": False}),
        "ignores the batch": planner(layouts={"batch": False}),
        "all cards read sequences": batch_over_all_cards,
        "the first that fits": planner(pick=first_that_fits),
        "the slowest": planner(pick=max),
        "all links are fast": planner(takes={"between": "inside"}),
        "counts compute only": planner(takes={"tensor": False, "data": False, "bubble": False}),
        "recomputation is free": planner(takes={"again": False}),
        "data parallelism is free": planner(takes={"data": False}),
        "tensor parallelism is free": planner(takes={"tensor": False}),
        "no pipeline over eight nodes": but(many_nodes, all_data(3, "full")),
        "the largest tensor group in one node": but(one_plenty_node, largest_tensor),
        "the largest tensor group over several nodes": but(several, largest_tensor),
        "recomputes all where memory is short": but(
            lambda m, k: k["memory"] < 3e10 and k["between"] == 50e9,
            planner(layouts={}, holds={"none": lambda i, x: inf, "selective": lambda i, x: inf}),
        ),
        "asks the planner": by_the_planner,
        "asks the planner's judge": by_judging,
    },
    "plan.6": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: (0, 1),
        "the cheapest card": rent_with(price=lambda paid, cards, offer: offer["price"]),
        "the cheapest node hour": rent_with(
            price=lambda paid, cards, offer: cards * offer["price"]
        ),
        "the fastest": rent_with(price=lambda paid, cards, offer: paid),
        "the fewest nodes": fewest_cards,
        "all nodes": rent_with(nodes_of=lambda offer: [offer["nodes"]]),
        "ignores the memory": rent_with(fits=lambda *case: True),
        "each card holds all states": rent_with(
            fits=lambda job, offer, cards: job["states"] + job["kept"] <= offer["memory"]
        ),
        "activations are shared, too": rent_with(
            fits=lambda job, offer, cards: (job["states"] + job["kept"]) / cards <= offer["memory"]
        ),
        "ignores the deadline": rent_with(late=lambda *case: False),
        "late by a seventh will do": rent_with(late=lambda paid, hours: paid > hours * 8 / 7),
        "sending is free": rent_with(sends=lambda nodes: False),
        "a node sends, too": rent_with(sends=lambda nodes: True),
        "pays the seconds": rent_with(billed=lambda hours: hours),
        "rounds to the nearest hour": rent_with(billed=round),
        "a deadline for what it takes, not for what is paid": rent_with(billed=int),
        "any batch": rent_with(divides=lambda *case: True),
        "the rest of the batch is dropped": rent_with(
            divides=lambda job, cards: job["batch"] >= cards
        ),
        "late rather than never": something_else_when_nothing_goes,
        "fails without a candidate": lambda *case: tuple(rent_with()(*case)),
    },
}

RIGHT = {
    "plan.1": {"part by part": card, "as floats": card_as_floats},
    "plan.2": {
        "by coordinates": by_coordinates,
        "as many as nodes": changed_rings(nodes_of_the_group),
        "lists for pairs": changed_rings(lambda g, k, cards: [tuple(g), k]),
    },
    "plan.3": {"rule by rule": limit_with()},
    "plan.4": {"from below": deal_with(), "by divisors": by_divisors},
    "plan.5": {
        "all layouts": planner(),
        "latencies left out": planner(takes={"latency": False}),
        "the head left out": planner(takes={"head": False}),
        "a thousandth of the memory left free": planner(room=lambda k: k["memory"] * 0.999),
    },
    "plan.6": {"row by row": rent_with()},
}

for _task, _entries in RIGHT.items():
    _entries["the reference"] = reference(TASKS[_task])
