"""Reference solutions of lab tp. For course staff: in no student package, on no page."""


def cut_linear(rows, columns, cut, parts, ranks):
    """tp.1"""
    divided = columns // parts if cut == "column" else rows
    if divided % ranks:
        return None
    share = divided // ranks
    mine = [(rank * share, (rank + 1) * share) for rank in range(ranks)]
    if cut == "row":
        weight = [[(start, stop, 0, columns)] for start, stop in mine]
        return {"input": mine, "weight": weight, "output": "sum"}
    width = columns // parts
    weight = [
        [(0, rows, part * width + start, part * width + stop) for part in range(parts)]
        for start, stop in mine
    ]
    return {"input": [(0, rows)] * ranks, "weight": weight, "output": "join"}


def mlp_program(blocks, gated):
    """tp.2"""
    forward, backward = [], []
    source = "x"
    for n in range(blocks):
        target = "y" if n == blocks - 1 else f"x{n + 1}"
        forward += [
            f"product{n} = {source} @ up{n}",
            f"z{n} = product{n} + up_bias{n}",
            f"bent{n} = gelu(z{n})",
        ]
        hidden = f"bent{n}"
        if gated:
            forward += [f"open{n} = {source} @ gate{n}", f"hidden{n} = bent{n} * open{n}"]
            hidden = f"hidden{n}"
        forward += [
            f"part = {hidden} @ down{n}",
            "whole = all_reduce(part)",
            f"biased = whole + down_bias{n}",
            f"{target} = biased + {source}",
        ]
        steps = [
            f"d_down_bias{n} = colsum(dy)",
            f"d_down{n} = {hidden}.T @ dy",
            f"d_hidden = dy @ down{n}.T",
        ]
        if gated:
            steps += [
                f"d_open = d_hidden * bent{n}",
                f"d_gate{n} = {source}.T @ d_open",
                f"d_hidden = d_hidden * open{n}",
            ]
        steps += [
            f"slope = gelu_slope(z{n})",
            "dz = d_hidden * slope",
            f"d_up_bias{n} = colsum(dz)",
            f"d_up{n} = {source}.T @ dz",
            f"back = dz @ up{n}.T",
        ]
        if gated:
            steps += [f"through_gate = d_open @ gate{n}.T", "back = back + through_gate"]
        steps += ["back = all_reduce(back)", "dy = dy + back"]
        backward = steps + backward
        source = target
    last = backward.pop()
    return {"forward": forward, "backward": [*backward, last.replace("dy =", "dx =")]}


def attention_program(heads, kv_heads, ranks):
    """tp.3"""
    if heads % ranks or (kv_heads % ranks and ranks % kv_heads):
        return None
    share, group = heads // ranks, heads // kv_heads
    q = [list(range(rank * share, (rank + 1) * share)) for rank in range(ranks)]
    kv = [sorted({head // group for head in own}) for own in q]
    forward = [
        "q = x @ wq",
        "k = x @ wk",
        "v = x @ wv",
        "mixed = attend(q, k, v)",
        "part = mixed @ wo",
        "y = all_reduce(part)",
    ]
    backward = [
        "d_wo = mixed.T @ dy",
        "d_mixed = dy @ wo.T",
        "dq, dk, dv = attend_back(q, k, v, d_mixed)",
        "d_wq = x.T @ dq",
        "d_wk = x.T @ dk",
        "d_wv = x.T @ dv",
        "by_q = dq @ wq.T",
        "by_k = dk @ wk.T",
        "by_v = dv @ wv.T",
        "by_kv = by_k + by_v",
        "part = by_q + by_kv",
        "dx = all_reduce(part)",
    ]
    if kv_heads < ranks:
        backward += ["d_wk = sum_copies(d_wk)", "d_wv = sum_copies(d_wv)"]
    return {"q": q, "kv": kv, "forward": forward, "backward": backward}


def sequence_program(blocks, gather_again):
    """tp.4"""
    forward, backward = [], []
    source = "x"
    for n in range(blocks):
        target = "y" if n == blocks - 1 else f"x{n + 1}"
        forward += [
            f"normed{n} = norm({source})",
            f"own{n} = normed{n} * gain{n}",
            f"input{n} = all_gather(own{n})",
            f"z{n} = input{n} @ up{n}",
            f"bent{n} = gelu(z{n})",
            f"part = bent{n} @ down{n}",
            "sum = reduce_scatter(part)",
            f"biased = sum + down_bias{n}",
            f"{target} = biased + {source}",
        ]
        steps = [f"input{n} = all_gather(own{n})"] if gather_again else []
        steps += [
            "arrived = all_gather(dy)",
            f"d_down_bias{n} = colsum(arrived)",
            f"d_down{n} = bent{n}.T @ arrived",
            f"d_bent = arrived @ down{n}.T",
            f"slope = gelu_slope(z{n})",
            "dz = d_bent * slope",
            f"d_up{n} = input{n}.T @ dz",
            f"part = dz @ up{n}.T",
            "d_own = reduce_scatter(part)",
            f"by_token = d_own * normed{n}",
            f"d_gain{n} = colsum(by_token)",
            f"d_gain{n} = all_reduce(d_gain{n})",
            f"d_normed = d_own * gain{n}",
            f"through = norm_back({source}, d_normed)",
            "dy = dy + through",
        ]
        backward = steps + backward
        source = target
    last = backward.pop()
    return {"forward": forward, "backward": [*backward, last.replace("dy =", "dx =")]}


def loss_program(ranks):
    """tp.5"""

    def log_sum_exp(made, values):
        return [
            f"top = rowmax({values})",
            f"lower = {values} - top",
            "grown = exp(lower)",
            "total = rowsum(grown)",
            "logs = log(total)",
            f"{made} = top + logs",
        ]

    return {
        "forward": [
            "logits = x @ words",
            *log_sum_exp("mine", "logits"),
            "by_rank = all_to_all(mine)",
            *log_sum_exp("own_tokens", "by_rank"),
            "normaliser = all_gather(own_tokens)",
            "hits = logits * wanted",
            "hits = rowsum(hits)",
            "hits = colsum(hits)",
            "hits = all_reduce(hits)",
            "logs = colsum(normaliser)",
            "loss = logs - hits",
        ],
        "backward": [
            "lower = logits - normaliser",
            "chances = exp(lower)",
            "d_logits = chances - wanted",
            "d_words = x.T @ d_logits",
            "part = d_logits @ words.T",
            "dx = all_reduce(part)",
        ],
    }
