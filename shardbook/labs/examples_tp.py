"""The visible examples of lab tp: cuts and programs, run on simulated ranks."""

from functools import partial
from typing import Any, Final

from shardbook.labs.checking import Rule
from shardbook.labs.handed_tensor_cuts import (
    needless_input,
    not_refused,
    read_cut,
    unequal_share,
    unlike_parts,
    wrong_output,
)
from shardbook.labs.handed_tensor_heads import HeadCut, read_heads, unequal_heads
from shardbook.labs.handed_tensor_layers import (
    Layer,
    attention_layer,
    mlp_stack,
    sequence_stack,
    word_loss,
)
from shardbook.labs.handed_tensor_programs import BACKWARD, FORWARD, Ran
from shardbook.labs.handed_tensor_results import (
    all_reduce_bytes,
    kept_whole,
    other_exchanges,
    run_handed,
    too_many_products,
    too_many_sent,
    wrong_arrays,
)
from shardbook.labs.values import Fault


def _cut(rows: int, columns: int, cut: str, parts: int, ranks: int, value: Any) -> Fault | None:
    found = read_cut(value, rows, columns, ranks)
    if isinstance(found, Fault):
        return found
    fault = wrong_output(found) or needless_input(found) or unequal_share(found)
    return fault or (unlike_parts(found, parts) if cut == "column" else None)


def _refused(rows: int, columns: int, cut: str, parts: int, ranks: int, value: Any) -> Fault | None:
    return not_refused(value)


def _equal(layer: Layer, value: Any) -> Ran | Fault:
    ran = run_handed(layer, value)
    if isinstance(ran, Fault):
        return ran
    return wrong_arrays(ran, layer, FORWARD) or wrong_arrays(ran, layer, BACKWARD) or ran


def _mlp(blocks: int, gated: bool, value: Any, *, counted: bool) -> Fault | None:
    ran = _equal(mlp_stack(blocks, gated, 2), value)
    if isinstance(ran, Fault) or not counted:
        return ran if isinstance(ran, Fault) else None
    return other_exchanges(ran, FORWARD, blocks) or other_exchanges(ran, BACKWARD, blocks)


def _heads(heads: int, kv_heads: int, ranks: int, value: Any) -> HeadCut | Fault:
    cut = read_heads(value, heads, kv_heads, ranks)
    return cut if isinstance(cut, Fault) else unequal_heads(cut) or cut


def _attention(heads: int, kv_heads: int, ranks: int, value: Any, *, counted: bool) -> Fault | None:
    cut = _heads(heads, kv_heads, ranks, value)
    if isinstance(cut, Fault):
        return cut
    ran = _equal(attention_layer(cut), value)
    if isinstance(ran, Fault) or not counted:
        return ran if isinstance(ran, Fault) else None
    copies = "sum_copies" if kv_heads < ranks else ""
    return other_exchanges(ran, FORWARD, 1) or other_exchanges(ran, BACKWARD, 1, copies)


def _no_heads(heads: int, kv_heads: int, ranks: int, value: Any) -> Fault | None:
    return not_refused(value)


def _sequence(blocks: int, gather_again: bool, value: Any, *, counted: bool) -> Fault | None:
    ranks, tokens, width = 2, 8, 4
    layer = sequence_stack(blocks, ranks, tokens=tokens)
    ran = _equal(layer, value)
    if isinstance(ran, Fault) or not counted:
        return ran if isinstance(ran, Fault) else None
    sums = blocks * all_reduce_bytes(ranks, tokens * width)
    rows = 2 * blocks * all_reduce_bytes(ranks, width)
    again = sums // 2 if gather_again else 0
    if fault := too_many_sent(ran, FORWARD, sums, drawn=True):
        return fault
    if fault := too_many_sent(ran, BACKWARD, sums + rows + again, drawn=True):
        return fault
    if not gather_again:
        return None
    alone = run_handed(sequence_stack(blocks, 1, tokens=tokens), value)
    if isinstance(alone, Fault):
        return alone
    return too_many_products(ran, 2 * blocks, 4 * blocks) or kept_whole(ran, alone)


def _loss(ranks: int, value: Any, *, scale: float = 1.0, numbers: int = 0) -> Fault | None:
    tokens, width = 12, 4
    ran = _equal(word_loss(ranks, tokens=tokens, scale=scale), value)
    if isinstance(ran, Fault) or not numbers:
        return ran if isinstance(ran, Fault) else None
    if fault := too_many_sent(ran, BACKWARD, all_reduce_bytes(ranks, tokens * width), drawn=True):
        return fault
    most = all_reduce_bytes(ranks, numbers * tokens + 2 * ranks)
    return too_many_sent(ran, FORWARD, most, drawn=True)


#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "tp.1": (
        Rule(
            "cut by columns, each rank has its share and the output is one device's",
            "A column of the output needs all of x and one column of the weight.",
            (4, 6, "column", 1, 2),
            _cut,
        ),
        Rule(
            "cut by rows, each rank has its share and the output is one device's",
            "A row of the weight meets one column of x.",
            (6, 4, "row", 1, 3),
            _cut,
        ),
        Rule(
            "of two matrices side by side, a rank has the same columns",
            "Here the weight is two matrices of 4 columns.",
            (3, 8, "column", 2, 2),
            _cut,
        ),
        Rule(
            "a cut without equal shares is refused",
            "Three ranks and four rows.",
            (4, 6, "row", 1, 3),
            _refused,
        ),
    ),
    "tp.2": (
        Rule(
            "y, dx and all gradients of one block are one device's",
            "On each rank write down of each array whether it is whole, a part, or a partial sum.",
            (1, False),
            partial(_mlp, counted=False),
        ),
        Rule(
            "one all-reduce each way, and nothing else is sent",
            "Which sums are needed before the next step, and which can wait?",
            (1, False),
            partial(_mlp, counted=True),
        ),
        Rule(
            "in two blocks with gates, one all-reduce for each block and direction",
            "The y of a block is the x of the next.",
            (2, True),
            partial(_mlp, counted=True),
        ),
    ),
    "tp.3": (
        Rule(
            "with two query heads for each key/value head, all is one device's",
            "Columns of wq, wk and wv, rows of wo.",
            (8, 4, 2),
            partial(_attention, counted=False),
        ),
        Rule(
            "one all-reduce each way, and nothing else is sent",
            "dx is a sum of three. When must it be summed over the ranks?",
            (4, 4, 2),
            partial(_attention, counted=True),
        ),
        Rule(
            "with two ranks for each key/value head, all is one device's",
            "Here ranks 0 and 1 have copies of head 0. What has each of them seen?",
            (4, 2, 4),
            partial(_attention, counted=True),
        ),
        Rule(
            "heads that can't be dealt out equally are refused",
            "Six query heads, four ranks.",
            (6, 6, 4),
            _no_heads,
        ),
    ),
    "tp.4": (
        Rule(
            "y, dx and all gradients are one device's",
            "Which arrays have a rank's own tokens, and which have all tokens?",
            (1, False),
            partial(_sequence, counted=False),
        ),
        Rule(
            "no more is sent than all-reduces would send",
            "The list says what each action sends.",
            (1, False),
            partial(_sequence, counted=True),
        ),
        Rule(
            "in two blocks, gathering again, nothing is kept of all tokens",
            "The list says what is kept. The hidden array has all tokens and a part of its columns.",
            (2, True),
            partial(_sequence, counted=True),
        ),
    ),
    "tp.5": (
        Rule(
            "the loss and the gradients are one device's",
            "Which part of a softmax needs the other ranks?",
            (2,),
            _loss,
        ),
        Rule(
            "large logits don't overflow",
            "exp of a thousand is no number. Does log(exp(a) + exp(b)) need it?",
            (2,),
            partial(_loss, scale=1000.0),
        ),
        Rule(
            "no more than three numbers a token are all-reduced",
            "The list says what each action sends.",
            (3,),
            partial(_loss, numbers=3),
        ),
    ),
}
