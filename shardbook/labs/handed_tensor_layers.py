"""Layers to run handed-in programs on: what each rank is given, and what one device computes.

Values are always the same for the same arguments.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.labs.handed_tensor_heads import HEAD_SIZE, HeadCut, columns_of
from shardbook.labs.handed_tensor_programs import (
    BACKWARD,
    FORWARD,
    Start,
    gelu,
    gelu_slope,
    norm,
    norm_back,
)
from shardbook.training.splitting.blocks import attend, attend_backward

Array = NDArray[Any]
Arrays = dict[str, Array]
#: the output's gradient → the input's, and the weights' by name
Back = Callable[[Array], tuple[Array, Arrays]]

_WIDTH: Final = 4
#: of `sequence_stack`: 1, 2, 3, 4 and 6 ranks divide it
_HIDDEN: Final = 12
#: weight → the axis that is cut; None: whole on every rank
_AXES: Final = {
    **{"up": 1, "up_bias": 1, "gate": 1, "down": 0},
    **{"down_bias": None, "gain": None},
}


@dataclass(frozen=True, slots=True)
class Layer:
    """Where ranks start, and ``expected``: phase → each rank's arrays as one device has them."""

    start: Start
    expected: Mapping[str, tuple[Arrays, ...]]


def mlp_stack(
    blocks: int, gated: bool, ranks: int, *, biased: bool = True, tokens: int = 5
) -> Layer:
    """Return ``blocks`` times y = x + MLP(x), one after the other; x and y whole on all ranks.

    MLP(x) = gelu(x @ up + up_bias) [* (x @ gate)] @ down + down_bias; up, up_bias and gate are cut
    by columns, down by rows. ``biased``: whether the down_biases are other than 0. (S55)
    """
    stream = np.random.default_rng([blocks, gated, ranks])
    hidden = 3 * ranks
    x, dy = stream.standard_normal((2, tokens, _WIDTH))
    weights, gradients = Arrays(), Arrays()
    backs: list[Back] = []
    y = x
    for block in range(blocks):
        own = {
            "up": stream.standard_normal((_WIDTH, hidden)),
            "up_bias": stream.standard_normal((1, hidden)),
            "down": stream.standard_normal((hidden, _WIDTH)) / 2,
            "down_bias": stream.standard_normal((1, _WIDTH)) * biased,
            **({"gate": stream.standard_normal((_WIDTH, hidden))} if gated else {}),
        }
        weights |= {f"{name}{block}": array for name, array in own.items()}
        out, back = _mlp(own, y)
        backs.append(back)
        y = y + out
    dx = dy
    for block, back in reversed(list(enumerate(backs))):
        into, found = back(dx)
        dx = dx + into
        gradients |= {f"d_{name}{block}": array for name, array in found.items()}
    starts = tuple({"x": x, **part} for part in _cut(weights, ranks))
    return Layer(
        Start(starts, frozenset(weights), ({"dy": dy},) * ranks),
        {
            FORWARD: ({"y": y},) * ranks,
            BACKWARD: tuple({"dx": dx, **part} for part in _cut(gradients, ranks)),
        },
    )


def _mlp(own: Arrays, x: Array) -> tuple[Array, Back]:
    z = x @ own["up"] + own.get("up_bias", 0)
    factor = x @ own["gate"] if "gate" in own else np.ones_like(z)
    bent = gelu(z)

    def back(dy: Array) -> tuple[Array, Arrays]:
        d_product = dy @ own["down"].T
        dz = d_product * factor * gelu_slope(z)
        d_factor = d_product * bent
        found = {
            "up": x.T @ dz,
            "up_bias": dz.sum(axis=0, keepdims=True),
            "gate": x.T @ d_factor,
            "down": (bent * factor).T @ dy,
            "down_bias": dy.sum(axis=0, keepdims=True),
        }
        dx = dz @ own["up"].T
        if "gate" in own:
            dx = dx + d_factor @ own["gate"].T
        return dx, {name: array for name, array in found.items() if name in own}

    return (bent * factor) @ own["down"] + own["down_bias"], back


def sequence_stack(blocks: int, ranks: int, *, biased: bool = True, tokens: int = 7) -> Layer:
    """Return ``blocks`` times y = x + MLP(norm(x) * gain); x and y cut by tokens.

    MLP as in `mlp_stack`, without gate and up_bias; gain and down_bias are whole on every rank.
    Source: Korthikanti et al., MLSys 2023, section 4.2. (S55)
    """
    stream = np.random.default_rng([blocks, ranks, tokens])
    x, dy = stream.standard_normal((2, tokens, _WIDTH))
    weights, gradients = Arrays(), Arrays()
    ran: list[tuple[Array, Arrays, Back]] = []
    y = x
    for block in range(blocks):
        own = {
            "gain": stream.standard_normal((1, _WIDTH)),
            "up": stream.standard_normal((_WIDTH, _HIDDEN)),
            "down": stream.standard_normal((_HIDDEN, _WIDTH)) / 2,
            "down_bias": stream.standard_normal((1, _WIDTH)) * biased,
        }
        weights |= {f"{name}{block}": array for name, array in own.items()}
        out, back = _mlp(own, norm(y) * own["gain"])
        ran.append((y, own, back))
        y = y + out
    dx = dy
    for block, (before, own, back) in reversed(list(enumerate(ran))):
        into, found = back(dx)
        found["gain"] = (into * norm(before)).sum(axis=0, keepdims=True)
        dx = dx + norm_back(before, into * own["gain"])
        gradients |= {f"d_{name}{block}": array for name, array in found.items()}
    xs, ys, dys, dxs = (np.array_split(array, ranks) for array in (x, y, dy, dx))
    parts = zip(xs, _cut(weights, ranks), strict=True)
    back_parts = zip(dxs, _cut(gradients, ranks), strict=True)
    return Layer(
        Start(
            tuple({"x": own_x, **part} for own_x, part in parts),
            frozenset(weights),
            tuple({"dy": own_dy} for own_dy in dys),
        ),
        {
            FORWARD: tuple({"y": own_y} for own_y in ys),
            BACKWARD: tuple({"dx": own_dx, **part} for own_dx, part in back_parts),
        },
    )


def attention_layer(cut: HeadCut, *, tokens: int = 5) -> Layer:
    """Return y = attention(x @ wq, x @ wk, x @ wv) @ wo with heads cut as ``cut`` says.

    Causal, of one sequence; x and y are whole on all ranks, and there is no residual. (S55)
    """
    heads = sum(map(len, cut.q))
    kv_heads = heads // cut.group
    stream = np.random.default_rng([heads, kv_heads, len(cut.q)])
    x, dy = stream.standard_normal((2, tokens, _WIDTH))
    wq = stream.standard_normal((_WIDTH, heads, HEAD_SIZE))
    wk, wv = stream.standard_normal((2, _WIDTH, kv_heads, HEAD_SIZE))
    wo = stream.standard_normal((heads, HEAD_SIZE, _WIDTH))
    shared = np.arange(heads) // cut.group
    q = np.einsum("th,had->atd", x, wq)
    k, v = (np.einsum("th,had->atd", x, w[:, shared]) for w in (wk, wv))
    mixed, probabilities = attend(q, k, v)
    d_mixed = np.einsum("th,adh->atd", dy, wo)
    dq, dk, dv = attend_backward(q, k, v, probabilities, d_mixed)
    d_wk, d_wv = np.zeros_like(wk), np.zeros_like(wv)
    for head, used in enumerate(shared):
        d_wk[:, used] += x.T @ dk[head]
        d_wv[:, used] += x.T @ dv[head]
    dx = sum(
        np.einsum("atd,had->th", found, w)
        for found, w in ((dq, wq), (dk, wk[:, shared]), (dv, wv[:, shared]))
    )
    y = np.einsum("atd,adh->th", mixed, wo)
    d_wq, d_wo = np.einsum("th,atd->had", x, dq), np.einsum("atd,th->adh", mixed, dy)
    weights = {"wq": wq, "wk": wk, "wv": wv}
    gradients = {"d_wq": d_wq, "d_wk": d_wk, "d_wv": d_wv}

    def part(arrays: Arrays, last: str, rows: Array, rank: int) -> Arrays:
        own = {}
        for name, array in arrays.items():
            columns = columns_of((cut.q if name.endswith("q") else cut.kv)[rank])
            own[name] = array.reshape(_WIDTH, -1)[:, columns]
        return {**own, last: rows.reshape(-1, _WIDTH)[columns_of(cut.q[rank])]}

    ranks = range(len(cut.q))
    return Layer(
        Start(
            tuple({"x": x, **part(weights, "wo", wo, rank)} for rank in ranks),
            frozenset((*weights, "wo")),
            ({"dy": dy},) * len(cut.q),
            cut,
        ),
        {
            FORWARD: ({"y": y},) * len(cut.q),
            BACKWARD: tuple({"dx": dx, **part(gradients, "d_wo", d_wo, rank)} for rank in ranks),
        },
    )


def word_loss(ranks: int, *, tokens: int = 6, scale: float = 1.0) -> Layer:
    """Return the sum of the tokens' cross-entropies, [1, 1], with the vocabulary cut by columns.

    Logits are x @ words; ``wanted`` has a 1 where a token's right word is, on the rank that has
    the word. ``scale`` makes the logits larger. (S55)
    """
    stream = np.random.default_rng([ranks, tokens])
    words = 3 * ranks + 2
    x = stream.standard_normal((tokens, _WIDTH)) * scale
    weight = stream.standard_normal((_WIDTH, words))
    wanted = np.eye(words)[stream.integers(0, words, tokens)]
    logits = x @ weight
    top = logits.max(axis=1, keepdims=True)
    total = np.exp(logits - top).sum(axis=1, keepdims=True)
    loss = (top + np.log(total) - (logits * wanted).sum(axis=1, keepdims=True)).sum()
    d_logits = np.exp(logits - top) / total - wanted
    dx = d_logits @ weight.T
    weights, right, gradients = (
        np.array_split(array, ranks, axis=1) for array in (weight, wanted, x.T @ d_logits)
    )
    given = zip(weights, right, strict=True)
    return Layer(
        Start(
            tuple({"x": x, "words": own, "wanted": mine} for own, mine in given),
            frozenset(("words", "wanted")),
            ({},) * ranks,
        ),
        {
            FORWARD: ({"loss": loss.reshape(1, 1)},) * ranks,
            BACKWARD: tuple({"dx": dx, "d_words": own} for own in gradients),
        },
    )


def _cut(arrays: Mapping[str, Array], ranks: int) -> list[Arrays]:
    """Each rank's part of each weight or its gradient, such as ``up0`` or ``d_up0``."""
    parts: list[Arrays] = [{} for _ in range(ranks)]
    for name, array in arrays.items():
        axis = _AXES[name.removeprefix("d_").rstrip("0123456789")]
        cut = [array] * ranks if axis is None else np.array_split(array, ranks, axis)
        for part, piece in zip(parts, cut, strict=True):
            part[name] = piece
    return parts
