"""Wrong and right answers to lab tp."""

from functools import partial

import numpy as np
from shardgrade.checkout import reference

from shardbook.labs.registry import TASKS
from shardbook.training.splitting.blocks import ATTENTION_AXES, MLP_AXES, attention, mlp
from shardbook.training.splitting.tensor_parallel import pair
from shardbook.training.splitting.vocabulary import cross_entropy
from shardbook.training.splitting.wires import split


def cut(
    rows,
    columns,
    kind,
    parts,
    ranks,
    *,
    output=lambda kind: "join" if kind == "column" else "sum",
    given=lambda kind, rank, share, rows: (
        (0, rows) if kind == "column" else (rank * share, (rank + 1) * share)
    ),
    columns_of=None,
    refuses=lambda rows, columns, kind, parts, ranks: (
        columns // parts % ranks if kind == "column" else rows % ranks
    ),
    everything=False,
):
    if refuses(rows, columns, kind, parts, ranks):
        return None
    width = columns // parts
    share = (width if kind == "column" else rows) // ranks
    weight = []
    for rank in range(ranks):
        if everything:
            weight.append([(0, rows, 0, columns)])
        elif kind == "row":
            weight.append([(rank * share, (rank + 1) * share, 0, columns)])
        elif columns_of:
            weight.append([(0, rows, *columns_of(rank, columns // ranks))])
        else:
            starts = [part * width + rank * share for part in range(parts)]
            weight.append([(0, rows, start, start + share) for start in starts])
    inputs = [given(kind, rank, share, rows) for rank in range(ranks)]
    return {"input": inputs, "weight": weight, "output": output(kind)}


def cut_with(**mistakes):
    return lambda *arguments: cut(*arguments, **mistakes)


def cut_uneven(rows, columns, kind, parts, ranks):
    """Longer ones first, as numpy's array_split does."""
    if not cut_refuses(rows, columns, kind, parts, ranks):
        return cut(rows, columns, kind, parts, ranks)
    length = columns if kind == "column" else rows
    pieces = [(int(p[0]), int(p[-1]) + 1) for p in np.array_split(np.arange(length), ranks)]
    if kind == "column":
        weight = [[(0, rows, *piece)] for piece in pieces]
        return {"input": [(0, rows)] * ranks, "weight": weight, "output": "join"}
    return {"input": pieces, "weight": [[(*p, 0, columns)] for p in pieces], "output": "sum"}


def cut_refuses(rows, columns, kind, parts, ranks):
    return bool(columns // parts % ranks if kind == "column" else rows % ranks)


def cut_dealt(rows, columns, kind, parts, ranks):
    """Deals single columns, or rows from the last to the first."""
    if cut_refuses(rows, columns, kind, parts, ranks):
        return None
    if kind == "row":
        found = cut(rows, columns, kind, parts, ranks)
        found["input"].reverse()
        found["weight"].reverse()
        return found
    width = columns // parts
    dealt = [
        [(0, rows, c, c + 1) for c in range(columns) if c % width % ranks == rank]
        for rank in range(ranks)
    ]
    return {"input": [(0, rows)] * ranks, "weight": dealt, "output": "join"}


def cut_rank_0(*arguments):
    found = cut(*arguments)
    return found and {**found, "weight": [found["weight"][0]] * arguments[4]}


def cut_by_engine(rows, columns, kind, parts, ranks):
    pieces = split(np.arange(columns // parts), ranks, 0, "columns")
    starts = [(int(piece[0]), int(piece[-1]) + 1) for piece in pieces]
    weight = [[(0, rows, *ends)] for ends in starts]
    return {"input": [(0, rows)] * ranks, "weight": weight, "output": "join"}


def changed(program, phase, old, new):
    """The program with a line in place of another one, or several."""
    lines = []
    for line in program[phase]:
        lines += [new] if isinstance(new, str) and line == old else new if line == old else [line]
    assert old in program[phase]
    return {**program, phase: lines}


def block(n, source, target, *, gated, bias, residual, extra):
    hidden = f"c{n}" if gated else f"b{n}"
    lines = [f"a{n} = {source} @ up{n}", f"a{n} = a{n} + up_bias{n}", f"b{n} = gelu(a{n})"]
    if gated:
        lines += [f"g{n} = {source} @ gate{n}", f"c{n} = b{n} * g{n}"]
    add_bias, add_x = f"p = p + down_bias{n}", f"p = p + {source}"
    before = [add_bias] * (bias == "before") + [add_x] * (residual == "before")
    after = [add_bias] * (bias == "after") + [add_x] * (residual == "after")
    return [
        *lines,
        *extra(n),
        f"p = {hidden} @ down{n}",
        *before,
        "p = all_reduce(p)",
        *after,
        f"{target} = p + zero",
    ]


def stacked(
    blocks,
    gated,
    *,
    bias="after",
    residual="after",
    back_residual="after",
    slope=lambda n: f"a{n}",
    extra=lambda n: [],
    order=reversed,
    gate_gradient="*",
    two_sums=False,
    bias_gradient=True,
    sums=("all_reduce", "all_reduce"),
    keeps_x=True,
):
    forward = ["zero = x - x"]
    sources = ["x", *(f"y{n}" for n in range(blocks - 1)), "y"]
    for n in range(blocks):
        forward += block(
            n, sources[n], sources[n + 1], gated=gated, bias=bias, residual=residual, extra=extra
        )
    backward = ["g = dy + zero"]
    for n in order(range(blocks)):
        source = sources[n] if keeps_x else sources[0]
        hidden = f"c{n}" if gated else f"b{n}"
        backward += [
            f"d_down{n} = {hidden}.T @ g",
            *([f"d_down_bias{n} = colsum(g)"] if bias_gradient else []),
            f"d_c = g @ down{n}.T",
        ]
        if gated:
            backward += [
                f"d_g = d_c {gate_gradient} b{n}",
                f"d_gate{n} = {source}.T @ d_g",
                f"d_g = d_c * b{n}",
                f"d_c = d_c * g{n}",
            ]
        backward += [
            f"s = gelu_slope({slope(n)})",
            "d_a = d_c * s",
            f"d_up{n} = {source}.T @ d_a",
            f"d_up_bias{n} = colsum(d_a)",
            f"d_x = d_a @ up{n}.T",
        ]
        if gated and two_sums:
            backward += [
                "d_x = all_reduce(d_x)",
                f"more = d_g @ gate{n}.T",
                "more = all_reduce(more)",
                "d_x = d_x + more",
                "g = g + d_x",
            ]
            continue
        if gated:
            backward += [f"more = d_g @ gate{n}.T", "d_x = d_x + more"]
        if back_residual == "before":
            backward += ["d_x = d_x + g", "g = all_reduce(d_x)"]
        else:
            backward += ["d_x = all_reduce(d_x)", "g = g + d_x"]
    backward += ["dx = g + zero"]
    forward = [line.replace("all_reduce", sums[0]) for line in forward]
    backward = [line.replace("all_reduce", sums[1]) for line in backward]
    return {"forward": forward, "backward": backward}


def stacked_with(**mistakes):
    return lambda *arguments: stacked(*arguments, **mistakes)


def without(name, phase, line, answer=None):
    """The answer's program without one line."""
    return lambda *case: replaced(answer or stacked, case, phase, line, [])


def replaced(answer, case, phase, line, new):
    program = answer(*case)
    return program and changed(program, phase, line, new)


def sums_doubled(which):
    """Every all-reduce of a phase twice: the second is halved again by nobody."""

    def answer(blocks, gated):
        program = stacked(blocks, gated)
        lines = []
        for line in program[which]:
            lines.append(line)
            if "all_reduce" in line:
                lines.append(line)
        return {**program, which: lines}

    return answer


def gathers_weights(blocks, gated):
    """Everybody computes everything: hidden columns and the rows of down are gathered."""
    program = stacked(blocks, gated)
    lines = []
    for line in program["forward"]:
        made, _, rest = line.partition(" = ")
        if made == "p" and " @ " in rest:
            hidden, _, down = rest.partition(" @ ")
            lines += [
                f"h = all_gather_columns({hidden})",
                f"d = all_gather({down})",
                "p = h @ d",
            ]
        elif "all_reduce" not in line:
            lines.append(line)
    return {**program, "forward": lines}


def sums_before_gelu(blocks, gated):
    """As if up were cut by rows: the GELU after a sum of what is no partial sum."""
    return stacked(
        blocks, gated, extra=lambda n: [f"a{n} = all_reduce(a{n})", f"b{n} = gelu(a{n})"]
    )


def joined_hidden(blocks, gated):
    program = stacked(blocks, gated)
    lines = [
        line.replace("p = all_reduce(p)", "p = all_gather_columns(p)")
        for line in program["forward"]
    ]
    return {**program, "forward": lines}


def mlp_by_engine(blocks, gated):
    ones = np.ones((2, 2))
    weights = {"up": ones, "up_bias": np.ones(2), "down": ones}
    pair(mlp, MLP_AXES, weights, np.ones(2), ones, ones, 2)
    return stacked(blocks, gated)


def mlp_recomputed(blocks, gated):
    """Computes gelu again, adds the bias to the residual first, and turns the order of sums."""
    program = stacked(blocks, gated, bias="none", residual="none")
    forward = []
    for line in program["forward"]:
        if line.endswith("p + zero"):
            target = line.partition(" = ")[0]
            n = blocks - 1 if target == "y" else int(target[1:])
            source = "x" if n == 0 else f"y{n - 1}"
            forward += [f"r = {source} + down_bias{n}", f"{target} = r + p"]
        else:
            forward.append(line)
    backward = []
    for line in program["backward"]:
        if line.startswith("d_down") and "bias" not in line and not gated:
            n = line.partition(" = ")[0].removeprefix("d_down")
            backward += [f"again = gelu(a{n})", f"d_down{n} = again.T @ g"]
        else:
            backward.append(line)
    return {"forward": forward, "backward": backward}


ATTEND = [
    "q = x @ wq",
    "k = x @ wk",
    "v = x @ wv",
    "m = attend(q, k, v)",
    "p = m @ wo",
    "y = all_reduce(p)",
]
ATTEND_BACK = [
    "d_wo = m.T @ dy",
    "d_m = dy @ wo.T",
    "d_q, d_k, d_v = attend_back(q, k, v, d_m)",
    "d_wq = x.T @ d_q",
    "d_wk = x.T @ d_k",
    "d_wv = x.T @ d_v",
    "a = d_q @ wq.T",
    "b = d_k @ wk.T",
    "c = d_v @ wv.T",
]
ONE_SUM = ["s = a + b", "s = s + c", "dx = all_reduce(s)"]
THREE_SUMS = [
    *("a = all_reduce(a)", "b = all_reduce(b)", "c = all_reduce(c)", "s = a + b", "dx = s + c"),
]
COPIES = ["d_wk = sum_copies(d_wk)", "d_wv = sum_copies(d_wv)"]


def attends(
    heads,
    kv_heads,
    ranks,
    *,
    q_of=lambda rank, share, heads, ranks: range(rank * share, (rank + 1) * share),
    kv_of=lambda own, group, kv_heads: sorted({head // group for head in own}),
    forward=ATTEND,
    backward=ATTEND_BACK,
    sums=ONE_SUM,
    copies=lambda kv_heads, ranks: COPIES if kv_heads < ranks else [],
    refuses=lambda h, kv, n: h % n or (kv % n and n % kv),
):
    if refuses(heads, kv_heads, ranks):
        return None
    q = [list(q_of(rank, heads // ranks, heads, ranks)) for rank in range(ranks)]
    kv = [list(kv_of(own, heads // kv_heads, kv_heads)) for own in q]
    backward = [*backward, *sums, *copies(kv_heads, ranks)]
    return {"q": q, "kv": kv, "forward": list(forward), "backward": backward}


def attends_with(**mistakes):
    return partial(attends, **mistakes)


def attends_unevenly(heads, kv_heads, ranks):
    """One key/value head's queries move from the last rank to the first, where that can be."""
    found = attends(heads, kv_heads, ranks)
    if found and ranks > 1 and len(found["kv"][-1]) > 1:
        group = heads // kv_heads
        moved = found["kv"][-1].pop()
        found["kv"][0].append(moved)
        found["q"][0] += found["q"][-1][-group:]
        del found["q"][-1][-group:]
    return found


def attends_sending_more(copied):
    """Sends x in case it is needed, only where there are copies or only where there are none."""

    def answer(heads, kv_heads, ranks):
        found = attends(heads, kv_heads, ranks)
        if found and (kv_heads < ranks) is copied:
            found["forward"].append("all_x = all_gather(x)")
        return found

    return answer


def attends_copied_first(heads, kv_heads, ranks):
    """Sums the gradients of keys and values over the copies, and then multiplies."""
    found = attends(heads, kv_heads, ranks, copies=lambda kv_heads, ranks: [])
    if found and kv_heads < ranks:
        new = [
            "w_k = sum_copies(d_k)",
            "w_v = sum_copies(d_v)",
            "d_wk = x.T @ w_k",
            "d_wv = x.T @ w_v",
        ]
        found["backward"] += new
    return found


def attends_summed_too_early(heads, kv_heads, ranks):
    found = attends(heads, kv_heads, ranks, copies=lambda kv_heads, ranks: [])
    if found and kv_heads < ranks:
        new = ["d_k = sum_copies(d_k)", "d_v = sum_copies(d_v)"]
        found["backward"][3:3] = new
    return found


def attention_by_engine(heads, kv_heads, ranks):
    ones = np.ones((2, 2))
    weights = {"qkv": np.ones((2, 3, 2, 1)), "out": np.ones((2, 1, 2))}
    pair(attention, ATTENTION_AXES, weights, np.ones(2), ones, ones, 2)
    return attends(heads, kv_heads, ranks)


def sequence(
    blocks,
    again,
    *,
    bias="after",
    gain_sum=True,
    order=reversed,
    regathers=lambda again: again,
    dy_twice=False,
    bias_from="full",
    slope_again=False,
    plain=False,
    product_again=False,
):
    forward, backward = [], []
    sources = ["x", *(f"y{n}" for n in range(blocks - 1)), "y"]
    for n in range(blocks):
        gather = [f"i{n} = all_gather(o{n})"]
        add = [f"p = p + down_bias{n}"]
        forward += [
            f"n{n} = norm({sources[n]})",
            f"o{n} = n{n} * gain{n}",
            *gather,
            f"a{n} = i{n} @ up{n}",
            f"b{n} = gelu(a{n})",
            f"p = b{n} @ down{n}",
            *(add if bias == "before" else []),
            "p = reduce_scatter(p)",
            *(add if bias == "after" else []),
            f"{sources[n + 1]} = p + {sources[n]}",
        ]
    backward.append("g = dy + dy")
    backward.append("g = g - dy")
    for n in order(range(blocks)):
        regather = regathers(again)
        bias_lines = [f"d_down_bias{n} = colsum(f)"]
        if bias_from == "own":
            bias_lines = [
                f"d_down_bias{n} = colsum(g)",
                f"d_down_bias{n} = all_reduce(d_down_bias{n})",
            ]
        elif bias_from == "own only":
            bias_lines = [f"d_down_bias{n} = colsum(g)"]
        backward += [
            *([f"j = all_gather(o{n})"] if regather else []),
            *([f"a{n} = j @ up{n}", f"b{n} = gelu(a{n})"] if regather and product_again else []),
            "f = all_gather(g)",
            *bias_lines,
            *(["f = all_gather(g)"] if dy_twice else []),
            f"d_down{n} = b{n}.T @ f",
            f"d_b = f @ down{n}.T",
            f"s = gelu_slope(a{n})",
            "d_a = d_b * s",
            f"d_up{n} = {'j' if regather else f'i{n}'}.T @ d_a",
            f"p = d_a @ up{n}.T",
            "d_o = reduce_scatter(p)",
            f"w = d_o * n{n}",
            f"d_gain{n} = colsum(w)",
            *([f"d_gain{n} = all_reduce(d_gain{n})"] if gain_sum else []),
            f"d_n = d_o * gain{n}",
            f"d_n = norm_back({sources[n]}, d_n)",
            "g = g + d_n",
        ]
    backward += ["dx = g + dy", "dx = dx - dy"]
    return {"forward": forward, "backward": backward}


def sequence_with(**mistakes):
    return partial(sequence, **mistakes)


def sequence_thrifty(blocks, again):
    """Keeps only what it can't make again without a product: no norm, gain or gelu."""
    program = sequence(blocks, again, bias_from="own")
    backward = []
    for line in program["backward"]:
        if "all_gather(o" in line:
            n = line.removesuffix(")").rpartition("o")[2]
            source = "x" if n == "0" else f"y{int(n) - 1}"
            backward += [f"m = norm({source})", f"m = m * gain{n}", "j = all_gather(m)"]
        elif line.startswith("d_down") and "bias" not in line:
            n = line.partition(" = ")[0].removeprefix("d_down")
            backward += [f"e = gelu(a{n})", f"d_down{n} = e.T @ f"]
        else:
            backward.append(line)
    return {**program, "backward": backward}


def sequence_made_up_for(blocks, again):
    """Never gathers again, and keeps useless arrays that ranks cut by tokens and by columns."""
    program = sequence(blocks, False)
    forward, backward = list(program["forward"]), list(program["backward"])
    for n in range(blocks):
        forward += ["tall = rowsum(x)", f"wide = colsum(a{n})", f"idle{n} = tall * wide"]
        backward.append(f"idle{n} = idle{n} + idle{n}")
    return {"forward": forward, "backward": backward} if again else program


def sequence_all_reduced(blocks, again):
    """Tensor parallelism without the cut by tokens has y whole on all ranks."""
    program = sequence(blocks, again)
    lines = [line.replace("reduce_scatter", "all_reduce") for line in program["forward"]]
    return {**program, "forward": lines}


def log_sum(made, values):
    return [
        f"t = rowmax({values})",
        f"l = {values} - t",
        "e = exp(l)",
        "e = rowsum(e)",
        "l = log(e)",
        f"{made} = t + l",
    ]


HITS = ["w = z * wanted", "w = rowsum(w)", "w = colsum(w)", "w = all_reduce(w)"]
LOSS_BACK = [
    "l = z - total",
    "s = exp(l)",
    "d_z = s - wanted",
    "d_words = x.T @ d_z",
    "p = d_z @ words.T",
    "dx = all_reduce(p)",
]
BY_OWNERS = [
    *log_sum("mine", "z"),
    "r = all_to_all(mine)",
    *log_sum("own", "r"),
    "total = all_gather(own)",
]


def loss(
    ranks,
    *,
    total=BY_OWNERS,
    hits=HITS,
    end=("all = colsum(total)", "loss = all - w"),
    backward=LOSS_BACK,
):
    return {"forward": ["z = x @ words", *total, *hits, *end], "backward": list(backward)}


def loss_with(**mistakes):
    return partial(loss, **mistakes)


THREE_NUMBERS = {
    "total": [
        "t = rowmax(z)",
        "t = all_reduce_max(t)",
        "l = z - t",
        "e = exp(l)",
        "e = rowsum(e)",
        "e = all_reduce(e)",
        "l = log(e)",
        "total = t + l",
    ],
    "hits": ["w = z * wanted", "w = rowsum(w)", "w = all_reduce(w)", "w = colsum(w)"],
}
NO_MAXIMUM = [
    "e = exp(z)",
    "e = rowsum(e)",
    "e = all_reduce(e)",
    "total = log(e)",
]
GATHERED = [*log_sum("mine", "z"), "r = all_gather_columns(mine)", *log_sum("total", "r")]
ALL_LOGITS = ["r = all_gather_columns(z)", *log_sum("total", "r")]


def loss_but(when, **other):
    return lambda ranks: loss(ranks, **(other if when(ranks) else {}))


def loss_by_engine(ranks):
    cross_entropy(np.ones((1, 1)), np.ones((1, 2)), np.array([0]), 2)
    return loss(ranks)


def loss_by_scatter(ranks):
    """Sums by halves: a reduce-scatter of exps under a bound that all ranks know, then a gather."""
    total = [
        *log_sum("mine", "z"),
        "r = all_to_all(mine)",
        "t = rowmax(r)",
        "l = r - t",
        "e = exp(l)",
        "e = rowsum(e)",
        "l = log(e)",
        "own = t + l",
        "total = all_gather(own)",
    ]
    hits = ["w = z * wanted", "w = colsum(w)", "w = rowsum(w)"]
    # Only one rank of all adds up the normalisers of a token: the owners' sums join the hits.
    end = ["m = colsum(own)", "m = m - w", "loss = all_reduce(m)"]
    return loss(ranks, total=total, hits=hits, end=end)


WRONG = {
    "tp.1": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: cut(4, 6, "column", 1, 2),
        "sum for join": cut_with(output=lambda kind: "sum"),
        "join for sum": cut_with(output=lambda kind: "join"),
        "the whole weight on every rank": cut_with(
            everything=True,
            output=lambda kind: "join",
            given=lambda kind, rank, share, rows: (0, rows),
        ),
        "the whole weight where columns are cut": lambda *a: cut(*a, everything=a[2] == "column"),
        "all of x to every rank": cut_with(given=lambda kind, rank, share, rows: (0, rows)),
        "one slice of two matrices": cut_with(columns_of=lambda rank, n: (rank * n, rank * n + n)),
        "uneven shares": cut_uneven,
        "rows must divide, too": cut_with(
            refuses=lambda rows, columns, kind, parts, ranks: rows % ranks or columns % ranks
        ),
        "never refuses": cut_with(refuses=lambda *arguments: False),
        "the slice of rank 0 on every rank": cut_rank_0,
        "asks the engine": cut_by_engine,
    },
    "tp.2": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: stacked(1, False),
        "no sum forward": stacked_with(sums=("gelu", "all_reduce")),
        "no sum backward": stacked_with(sums=("all_reduce", "gelu")),
        "parts joined that are sums": joined_hidden,
        "sums twice forward": sums_doubled("forward"),
        "sums twice backward": sums_doubled("backward"),
        "gathers the hidden array and down": gathers_weights,
        "a sum before the GELU": sums_before_gelu,
        "sends x in case it is needed": stacked_with(extra=lambda n: ["all_x = all_gather(x)"]),
        "the bias on every rank before the sum": stacked_with(bias="before"),
        "x on every rank before the sum": stacked_with(residual="before"),
        "dy on every rank before the sum": stacked_with(back_residual="before"),
        "the slope at the GELU's value": stacked_with(slope=lambda n: f"b{n}"),
        "no gradient of a bias": stacked_with(bias_gradient=False),
        "a sum for the gate and one for up": stacked_with(two_sums=True),
        "the gate's gradient added": stacked_with(gate_gradient="+"),
        "backward in the order of the forward": stacked_with(order=iter),
        "asks the engine": mlp_by_engine,
    },
    "tp.3": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: attends(4, 4, 2),
        "heads dealt one by one": attends_with(
            q_of=lambda rank, share, heads, ranks: range(rank, heads, ranks),
            copies=lambda kv, n: COPIES,
        ),
        "every key/value head on every rank": attends_with(
            kv_of=lambda own, group, kv_heads: range(kv_heads), copies=lambda kv, n: COPIES
        ),
        "one rank has more": attends_unevenly,
        "the query heads of rank 0 everywhere": attends_with(
            q_of=lambda rank, share, heads, ranks: range(share)
        ),
        "no sum forward": attends_with(forward=[*ATTEND[:-1], "y = norm(p)"]),
        "sums twice": attends_with(forward=[*ATTEND, "y = all_reduce(y)"]),
        "a residual that is not asked for": attends_with(forward=[*ATTEND, "y = y + x"]),
        "no gradient of wo": attends_with(backward=ATTEND_BACK[1:]),
        "keys and values have no gradient for x": attends_with(sums=["dx = all_reduce(a)"]),
        "a sum for each of three": attends_with(sums=THREE_SUMS),
        "sends x in case it is needed, beside copies": attends_sending_more(True),
        "sends x in case it is needed, without copies": attends_sending_more(False),
        "copies not summed": attends_with(copies=lambda kv, n: []),
        "copies summed before dx": attends_summed_too_early,
        "copies summed over all ranks": attends_with(
            copies=lambda kv, n: (
                ["d_wk = all_reduce(d_wk)", "d_wv = all_reduce(d_wv)"] if kv < n else []
            )
        ),
        "only as many ranks as key/value heads": attends_with(
            refuses=lambda h, kv, n: h % n or kv % n
        ),
        "looks at query heads only": attends_with(refuses=lambda h, kv, n: h % n),
        "asks the engine": attention_by_engine,
    },
    "tp.4": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: sequence(1, False),
        "the bias on every rank before the sum": sequence_with(bias="before"),
        "a sum of all on every rank": sequence_all_reduced,
        "the gain's gradient of own tokens": sequence_with(gain_sum=False),
        "the bias's gradient of own tokens": sequence_with(bias_from="own only"),
        "gathers dy twice": sequence_with(dy_twice=True),
        "always gathers again": sequence_with(regathers=lambda again: True),
        "never gathers again": sequence_with(regathers=lambda again: False),
        "a whole array made up for by parts of parts": sequence_made_up_for,
        "multiplies again": sequence_with(product_again=True),
        "backward in the order of the forward": sequence_with(order=iter),
        "one block only": lambda blocks, again: sequence(1, again),
        "asks the engine": lambda *arguments: mlp_by_engine(1, False) and sequence(*arguments),
    },
    "tp.5": {
        "does nothing": lambda *arguments: None,
        "gathers the logits": loss_with(total=ALL_LOGITS),
        "gathers the logits of three ranks": loss_but(lambda n: n == 3, total=ALL_LOGITS),
        "three numbers a token": loss_with(**THREE_NUMBERS),
        "three numbers a token of two ranks": loss_but(lambda n: n == 2, **THREE_NUMBERS),
        "the right words' logits one by one": loss_with(hits=THREE_NUMBERS["hits"]),
        "every rank's number to every rank": loss_with(total=GATHERED),
        "exp of what is too large": loss_with(total=NO_MAXIMUM),
        "own words only": loss_with(total=log_sum("total", "z")),
        "no sum of the right words' logits": loss_with(hits=HITS[:-1]),
        "the loss of each token": loss_with(
            hits=HITS[:2], end=["w = all_reduce(w)", "loss = total - w"]
        ),
        "no gradient of words": loss_with(
            backward=[line for line in LOSS_BACK if not line.startswith("d_words")]
        ),
        "no sum of dx": loss_with(backward=[*LOSS_BACK[:-1], "dx = p + p"]),
        "the softmax is the gradient": loss_with(
            backward=[line.replace("s - wanted", "s + wanted") for line in LOSS_BACK]
        ),
        "asks the engine": loss_by_engine,
    },
}

RIGHT = {
    "tp.1": {"by parts": cut, "dealt": cut_dealt},
    "tp.2": {"in a row": stacked, "some of it again": mlp_recomputed},
    "tp.3": {
        "in a row": attends,
        "copies summed before the product": attends_copied_first,
    },
    "tp.4": {"in a row": sequence, "keeps the least": sequence_thrifty},
    "tp.5": {"by owners": loss, "owners add up": loss_by_scatter},
}

for _task, _entries in RIGHT.items():
    _entries["the reference"] = reference(TASKS[_task])
