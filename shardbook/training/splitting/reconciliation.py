"""Mistakes about splitting the computation: M10, M13, M17, M18, M19, M24 and M36.

``claimed`` values and what a claim is about are the documents'; the others are counted here.
Documents: C is the illustrated notes on parallelism, D the extension lesson.
"""

from fractions import Fraction
from typing import Final

import numpy as np

from shardbook.collectives.groups import process_groups
from shardbook.collectives.plan import even_sizes
from shardbook.collectives.tensor import ALL_REDUCES_PER_LAYER, tensor_traffic, traffic_ratio
from shardbook.corrections import Correction, Figure
from shardbook.training.splitting.blocks import MLP_AXES, mlp
from shardbook.training.splitting.tensor_parallel import Outcome, linear, pair

_RANKS: Final = 2
_TOKENS: Final = 16_384
_WIDTHS: Final = (4096, 5120, 8192)
#: FSDP's and ZeRO's first papers, by arXiv number (year and month, then a serial number)
_ZERO: Final = "1910.02054"
_FSDP: Final = "2304.11277"


def corrections() -> tuple[Correction, ...]:
    """Return the corrections, computed by running and counting small cases."""
    return (_m10(), _m13(), _m17(), _m18(), _m19(), _m24(), _m36())


def _linear(cut: str) -> Outcome:
    values = np.arange(16.0).reshape(4, 4)
    return linear(cut, values, values.T, values, _RANKS)


def _times(outcome: Outcome, phase: str, collective: str = "all-reduce") -> int:
    return outcome.wires.count().get((phase, collective), 0)


def _m10() -> Correction:
    axes = {"TP": 8, "PP": 16, "DP": 128}
    world = sum(map(len, process_groups(axes)["DP"]))
    share = Fraction(2_048, world)
    return Correction(
        "M10",
        "D",
        "The 2,048 cards of one training are less than 1/8 of the 16,384 of another.",
        "A comparison by feel: both numbers are powers of two, so that the share is a clean one.",
        (),
        (
            f"8 × 16 × 128 = {world:,} ranks.",
            f"2,048/{world:,} = {share}: exactly that, not less.",
        ),
    )


def _m13() -> Correction:
    values = np.arange(16.0).reshape(4, 4) / 16
    weights = {"up": values, "up_bias": values[0], "down": values}
    outcome = pair(mlp, MLP_AXES, weights, values[0], values, values, _RANKS)
    products = sum(weights[name].ndim == 2 for name in MLP_AXES)
    forward, backward = _times(outcome, "forward"), _times(outcome, "backward")
    return Correction(
        "M13",
        "D",
        "Tensor parallelism needs an all-reduce after every matrix product; columns then rows avoid"
        " an all-reduce between layers.",
        "Each product is looked at alone. In a pair the columns of the first are just what the rows"
        " of the second need.",
        (Figure("all-reduces forward in an MLP", "", products, products, forward),),
        (
            "Columns leave each rank with its part of the hidden vector; the activation function"
            " acts on each number alone; rows take that part as it is.",
            f"Counted on {_RANKS} ranks: {forward} forward, {backward} backward.",
            "What is avoided between the two products is an all-gather of the hidden vector.",
        ),
    )


def _m17() -> Correction:
    column, row = _linear("column"), _linear("row")
    counted = {
        (name, phase): _times(outcome, phase)
        for name, outcome in (("column", column), ("row", row))
        for phase in ("forward", "backward")
    }
    return Correction(
        "M17",
        "C",
        "A column split costs one all-gather, to bring everybody the input, and has zero"
        " communication; a row split must all-reduce in the backward.",
        "Bringing the input is counted at one place and not at another; and the row's sum is booked"
        " in the wrong direction.",
        (
            Figure("collectives, column, forward", "", 1, 0, counted["column", "forward"]),
            Figure("collectives, row, backward", "", 1, 1, counted["row", "backward"]),
        ),
        (
            "Column: the input is on every rank already. Backward, every rank has the part of dX"
            f" that its columns give: {counted['column', 'backward']} all-reduce.",
            f"Row: partial sums of the output, {counted['row', 'forward']} all-reduce forward;"
            " backward, the output's gradient is on every rank already.",
            "The two are conjugate: where one sums forward the other sums backward.",
        ),
    )


def _m18() -> Correction:
    cut = tensor_traffic(_TOKENS, _WIDTHS[0], 1, 8, 8).ratio
    assert cut is not None
    return Correction(
        "M18",
        "C",
        "Tensor parallelism sends twice the activation, orders of magnitude less than the twice the"
        " parameters of data parallelism, and therefore belongs on the fast links of a node.",
        "One all-reduce is counted instead of four, for few tokens. The conclusion is right for the"
        " opposite reason: the traffic is large, and computing waits for it.",
        tuple(
            Figure(
                f"TP over DP, one layer, {_TOKENS:,} tokens, h = {width:,}",
                "",
                0.01,
                float(traffic_ratio(_TOKENS, width) / ALL_REDUCES_PER_LAYER),
                float(traffic_ratio(_TOKENS, width)),
            )
            for width in _WIDTHS
        ),
        (
            "Claimed: two orders of magnitude, the least that the plural says.",
            f"A layer has {ALL_REDUCES_PER_LAYER} all-reduces of t·h numbers, and 12h² gradients:"
            " the ratio is t/(3h).",
            "Cut among T ranks, the gradients shrink and the activations don't: T times as much,"
            f" {float(cut):.3g} for h = {_WIDTHS[0]:,} and T = 8.",
        ),
    )


def _m19() -> Correction:
    layers = 4
    return Correction(
        "M19",
        "C",
        "Pipeline parallelism is the vertical split in one figure and the horizontal one in the"
        " text; tensor parallelism the reverse.",
        "The words depend on whether the network is drawn upwards or from left to right.",
        (),
        (
            "Inter-layer (pipeline): a rank has all of some layers,"
            f" {even_sizes(layers, layers)[0]} of {layers} on {layers} ranks.",
            f"Intra-layer (tensor): a rank has a part of every layer, of all {layers}.",
            "These two names say what is cut, however it is drawn.",
        ),
    )


def _m24() -> Correction:
    experts, cards = 4, 2
    each = even_sizes(experts, cards)[0]
    return Correction(
        "M24",
        "C",
        "With expert parallelism each card holds 2/8 of the experts; the figure has 2 cards with 2"
        " experts each.",
        "The text is about another, larger example than its figure.",
        (Figure("a card's share of the experts", "", 2 / 8, each / experts, each / experts),),
        (f"{cards} cards with {each} experts each are {experts} experts: {each}/{experts}.",),
    )


def _m36() -> Correction:
    first, second = sorted((_ZERO, _FSDP))
    return Correction(
        "M36",
        "D",
        "PyTorch's FSDP and ZeRO-3 arose independently; elsewhere, FSDP came after DeepSpeed had"
        " shown ZeRO-3.",
        "Two developments of one idea are told as two ideas.",
        (),
        (
            f"ZeRO, with its stage 3: arXiv {first}, 20{first[:2]}.",
            f"FSDP: arXiv {second}, 20{second[:2]}; its documentation says that ZeRO stage 3 inspired it.",
            f"ZeRO precedes FSDP by {int(second[:2]) - int(first[:2])} years.",
        ),
    )
