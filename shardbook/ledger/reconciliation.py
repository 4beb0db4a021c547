"""Mistakes of the source lectures that the ledger settles: what was said, what is right, and why.

Documents: B is the lecture on ZeRO and FSDP, C the illustrated notes, D the extension lesson with
simulations. Every number but the claimed one is computed.
"""

from collections.abc import Callable
from typing import Final

from shardbook.corrections import Correction, Figure
from shardbook.errors import one_of
from shardbook.ledger.activations import (
    layer_bytes,
    lower_bound_layer_bytes,
    shape,
    zero_checkpoint_bytes,
)
from shardbook.ledger.calculators import (
    CARD_BYTES,
    LESSON_RECIPE,
    largest_batch,
    lesson_bytes_per_rank,
    memory_calculator,
    mixed_precision_comparison,
    real_model,
)
from shardbook.ledger.fits import floor_bytes, smallest_ranks
from shardbook.ledger.published import table_2
from shardbook.ledger.recipes import recipe_named
from shardbook.ledger.stages import bytes_per_rank
from shardbook.ledger.working import largest_hidden, operator_tensor_bytes, working_bytes
from shardbook.numbers.units import GB

_7B: Final = 7_000_000_000
_70B: Final = 70_000_000_000
_405B: Final = 405_000_000_000
_BILLION: Final = 10**9


def _m5() -> Correction:
    lesson, mixed = real_model(_7B, LESSON_RECIPE), real_model(_7B)
    table = recipe_named(LESSON_RECIPE).by_category()
    moments = table["momentum"] + table["variance"]
    as_source = lesson.states - lesson.optimizer // 2
    left = (CARD_BYTES - lesson.states) / GB
    return Correction(
        "M5",
        "D",
        "Adam's moments of a 7B model take 28 GB; with weights and gradients that is 56 GB, which"
        " leaves 24 GB of an 80 GB card for the batch.",
        "One FP32 moment is counted where Adam keeps two (the same lesson counts both for 70B), and"
        " the master weights are forgotten.",
        (
            Figure("Adam's moments", "GB", 28, lesson.optimizer / 2 / GB, lesson.optimizer / GB),
            Figure("states without master weights", "GB", 56, as_source / GB, lesson.states / GB),
            Figure("states with master weights", "GB", 56, as_source / GB, mixed.states / GB),
            Figure("left on an 80 GB card", "GB", 24, (CARD_BYTES - as_source) / GB, left),
        ),
        (
            f"Two FP32 moments are {moments} B a parameter: 7 × {moments} ="
            f" {lesson.optimizer / GB:g} GB.",
            f"At {_each(LESSON_RECIPE)} B a parameter the states are {lesson.states / GB:g} GB, with"
            f" master weights {mixed.states / GB:g} GB.",
            f"Both are more than {CARD_BYTES / GB:g} GB: nothing is left for a batch.",
        ),
    )


def _m6() -> Correction:
    row = mixed_precision_comparison(_7B)
    without, saved = float(row.saved_without_master), float(row.saved_with_master)
    parts = " + ".join(str(size) for size in recipe_named("mixed-adam").by_category().values())
    return Correction(
        "M6",
        "D",
        "Mixed precision needs 84 GB of states for 7B instead of 112 GB: it saves a quarter.",
        "Master weights belong to mixed precision as the lesson itself defines it, but are left out"
        " of the sum; halving the working copies looks like halving the states.",
        (
            Figure("states", "GB", 84, row.without_master / GB, row.with_master / GB),
            Figure(
                "saved against FP32",
                "GB",
                28,
                (row.fp32 - row.without_master) / GB,
                (row.fp32 - row.with_master) / GB,
            ),
            Figure("saved against FP32", "%", 25, 100 * without, 100 * saved),
        ),
        (
            f"{parts} = {_each('mixed-adam')} B a parameter with master weights, the same as FP32"
            f" Adam: {row.with_master / GB:g} GB.",
            f"{row.without_master / GB:g} GB is half precision without master weights.",
            "What mixed precision gains are smaller activations and faster matrix units.",
        ),
    )


def _m7() -> Correction:
    eight, states = (
        memory_calculator(_70B, ranks, "fsdp", LESSON_RECIPE).per_rank for ranks in (8, 1)
    )
    doubled = next(n for n in (8, 16, 32) if memory_calculator(_70B, n, "fsdp", LESSON_RECIPE).fits)
    recipes = (LESSON_RECIPE, "mixed-adam")
    return Correction(
        "M7",
        "D",
        "70B with FSDP takes 105 GB on each of 8 cards, so it needs at least 16 cards, or activation"
        " checkpointing.",
        "Only powers of two were tried, and two kinds of memory were mixed: checkpointing lowers"
        " activations, not states.",
        tuple(
            Figure(f"fewest cards at {_each(name)} B", "cards", 16, doubled, _cards(_70B, name))
            for name in recipes
        ),
        (
            f"{states / GB:g} GB ÷ 8 = {eight / GB:g} GB are states alone: recomputing activations"
            " can't lower them.",
            *(_division(_70B, name) for name in recipes),
            "Activations come on top.",
        ),
    )


def _m8() -> Correction:
    runs = (("70B on 16 ranks", _70B, 16, 122.5), ("405B on 128 ranks", _405B, 128, 443.0))
    figures = tuple(
        Figure(
            f"{name}: each, before activations",
            "GB",
            printed,
            float(lesson_bytes_per_rank(parameters, ranks, "fsdp") / GB),
            memory_calculator(parameters, ranks, "fsdp", LESSON_RECIPE).per_rank / GB,
        )
        for name, parameters, ranks, printed in runs
    )
    model = shape(batch=1, sequence=2048, hidden=8192, layers=80, heads=64)
    run = memory_calculator(_70B, 16, "fsdp", LESSON_RECIPE, model)
    return Correction(
        "M8",
        "D",
        "The calculator confirms that 70B fits on 16 cards. (It prints 122.5 GB: it does not.)",
        "Without a width the code takes half the weights for the activations and doesn't shard"
        " them: activations were thought to follow the parameters.",
        figures,
        (
            f"Half the weights, {figures[0].as_source - figures[0].right:g} GB, are added to each"
            f" rank's {run.states / GB:g} GB of states.",
            "Activations follow batch, length, width and layers, so a shape has to be given.",
            f"With {model.sequence:,} tokens, width {model.hidden:,} and {model.layers} layers their"
            f" lower bound is {run.activations / GB:.2f} GB: {run.per_rank / GB:.2f} GB in all.",
        ),
    )


def _m9() -> Correction:
    masters = ("mixed-adam", "mixed-adam-fp32-gradients", "mixed-adam-resident-fp32-gradients")
    lesson = _cards(_405B, LESSON_RECIPE)
    return Correction(
        "M9",
        "D",
        "405B needs 61 H100 cards; 16,384 were used because memory forced it.",
        "The bytes of a parameter are not stated, and a size chosen for time is explained by room.",
        tuple(
            Figure(f"cards at {_each(name)} B", "cards", 61, lesson, _cards(_405B, name))
            for name in masters
        ),
        (
            *(_division(_405B, name) for name in (LESSON_RECIPE, *masters)),
            "States explain tens of cards; thousands of cards buy time.",
        ),
    )


def _m22() -> Correction:
    alone, third = (bytes_per_rank(_7B, *run).fullest_rank_bytes for run in ((1, 0), (8, 3)))
    saved = {
        ranks: 100 * (1 - bytes_per_rank(_7B, ranks, 1).fullest_rank_bytes / alone)
        for ranks in (8, 64, 1024)
    }
    limit = 100 * (1 - floor_bytes(_7B, 1) / alone)
    return Correction(
        "M22",
        "C",
        "ZeRO-1 cuts three quarters of the states at once, and ZeRO-3 lets 7B run on one card.",
        "The limit for ever more ranks is read as the value for eight, and the share of one of eight"
        " cards as the need of a single card.",
        (
            Figure("saved by stage 1 on 8 ranks", "%", 75, limit, saved[8]),
            Figure("7B on a single card", "GB", 14, third / GB, alone / GB),
        ),
        (
            "Stage 1 saves "
            + ", ".join(f"{share:.1f} % on {ranks:,}" for ranks, share in saved.items())
            + f" ranks; {limit:g} % is the limit.",
            f"Each of 8 ranks holds {third / GB:g} GB; a single card has no one to share with and"
            f" holds {alone / GB:g} GB.",
        ),
    )


def _m27() -> Correction:
    rows = {row.model_parallel: row for row in table_2() if row.stage == 1}
    one, sixteen = rows[1], rows[16]
    return Correction(
        "M27",
        "B",
        "The computed largest models equal ZeRO's Table 2 exactly.",
        "The paper multiplied the rounded value for MP 1, so the rounding grows with MP.",
        (
            Figure(
                "largest model at MP 16, stage 1",
                "billion",
                121.6,
                sixteen.rounded / _BILLION,
                sixteen.exact / _BILLION,
            ),
        ),
        (
            f"At MP 1 {one.exact / _BILLION:.4f} billion fit, printed {one.printed}.",
            f"16 × {one.rounded / _BILLION:g} = {sixteen.rounded / _BILLION:g}, as printed;"
            f" 16 × {one.exact / _BILLION:.4f} = {sixteen.exact / _BILLION:.1f}.",
            f"The difference is {100 * sixteen.relative_difference:.2f} %. At stage 1 the rounded"
            " values agree only at MP 1.",
        ),
    )


def _m31() -> Correction:
    piece, tiles, measured = 2 * 2**30, 16, 8192
    untiled, tiled = largest_hidden(piece), largest_hidden(piece, tiles)
    return Correction(
        "M31",
        "B",
        "In pieces of 2 GB the largest width is 8K without tiling and 64K with 16 tiles.",
        "A measurement over powers of two is read as what the formula gives: at 16K a tensor just"
        " fills a piece.",
        (
            Figure("largest width without tiling", "", 8192, measured, untiled),
            Figure("gain in width of 16 tiles", "×", 8, tiled / measured, tiled / untiled),
        ),
        (
            f"Width {tiled:,} in {tiles} tiles and width {untiled:,} untiled need the same"
            f" {working_bytes(untiled) / GB:.2f} GB, {operator_tensor_bytes(untiled) / 2**30:g} GiB"
            " for each of two tensors.",
            f"Memory grows with the square of the width: {tiles} tiles gain √{tiles} ="
            f" {tiled / untiled:g} times the width.",
        ),
    )


def _m32() -> Correction:
    model, parallel = shape(batch=32, sequence=1024, hidden=8192, layers=125), 16
    elements = model.elements * model.layers
    total = zero_checkpoint_bytes(model) / GB
    cut = zero_checkpoint_bytes(model, model_parallel=parallel) / GB
    return Correction(
        "M32",
        "B",
        "Checkpoints of a 100B model take 33 GB on a card, 2 GB when cut over 16 ranks; the formula"
        " beside it gives twice as much, without a word.",
        "The published figures equal the number of elements: it looks as if elements were read as"
        " bytes (an inference, not proved).",
        (
            Figure("checkpoints on each rank", "GB", 33, elements / GB, total),
            Figure("cut over 16 ranks", "GB", 2, elements / parallel / GB, cut),
        ),
        (
            f"{model.batch} × {model.sequence:,} × {model.hidden:,} × {model.layers} ="
            f" {elements / _BILLION:.2f} billion elements.",
            f"At 2 B each: {total:.1f} GB, and {cut:.1f} GB over {parallel} ranks.",
        ),
    )


def _m34() -> Correction:
    model, free = shape(batch=1, sequence=2048, hidden=4096, layers=32, heads=32), 24 * GB
    bound, full = lower_bound_layer_bytes(model), layer_bytes(model)
    selective = layer_bytes(model, recompute="selective")
    batch, right = (largest_batch(free, model.layers * each) for each in (bound, full))
    return Correction(
        "M34",
        "D",
        "A layer keeps 64 MB of activations for a sequence, 32 layers 2 GB, so that only"
        " a batch of 12 overflows 24 GB.",
        "MiB and GiB are called MB and GB, and four tensors are counted of the many a layer keeps.",
        (
            Figure("one layer", "MB", 64, bound / 10**6, full / 10**6),
            Figure("32 layers", "GB", 2, model.layers * bound / GB, model.layers * full / GB),
            Figure("largest batch in 24 GB", "sequences", 11, batch, right),
        ),
        (
            f"Four half-precision tensors of {model.sequence:,} × {model.hidden:,} are"
            f" {bound / 2**20:g} MiB = {bound / 10**6:.1f} MB: a lower bound.",
            f"{model.layers} of them are {model.layers * bound / 2**30:g} GiB ="
            f" {model.layers * bound / GB:.2f} GB.",
            f"By the published formula a layer keeps {full / 10**6:.0f} MB, {full / bound:.2f} times"
            f" as much; {selective / 10**6:.0f} MB without the attention matrix.",
        ),
    )


#: id → the correction, computed when called
_CORRECTIONS: Final[dict[str, Callable[[], Correction]]] = {
    "M5": _m5,
    "M6": _m6,
    "M7": _m7,
    "M8": _m8,
    "M9": _m9,
    "M22": _m22,
    "M27": _m27,
    "M31": _m31,
    "M32": _m32,
    "M34": _m34,
}


def correction(id: str) -> Correction:
    """The correction of one id, such as ``M5``.

    Raises:
        InputError: there is no such correction here.
    """
    return _CORRECTIONS[one_of("correction", id, _CORRECTIONS)]()


def corrections() -> tuple[Correction, ...]:
    """All corrections of the ledger, in the order of their ids."""
    return tuple(make() for make in _CORRECTIONS.values())


def _each(recipe: str) -> str:
    return f"{float(recipe_named(recipe).bytes_per_parameter):g}"


def _cards(parameters: int, recipe: str) -> int:
    return smallest_ranks(parameters, CARD_BYTES, 3, recipe) or 0


def _division(parameters: int, recipe: str) -> str:
    cards = float(parameters * recipe_named(recipe).bytes_per_parameter / CARD_BYTES)
    return (
        f"{parameters // _BILLION} × {_each(recipe)} B ÷ {CARD_BYTES / GB:g} GB = {cards:g},"
        f" so {_cards(parameters, recipe)} cards."
    )
