"""The lesson's calculators and the corrected claims: both values, each where it comes from."""

from typing import Any

import pytest

from shardbook.errors import InputError
from shardbook.ledger.activations import shape
from shardbook.ledger.calculators import (
    COMPARED_MODELS,
    LESSON_RECIPE,
    REAL_MODELS,
    RUNS,
    largest_batch,
    lesson_bytes_per_rank,
    memory_calculator,
    mixed_precision_comparison,
    real_model,
)
from shardbook.ledger.reconciliation import correction, corrections
from shardbook.numbers.units import GB


def test_the_lessons_code_prints_what_it_prints() -> None:
    printed = [round(float(lesson_bytes_per_rank(*run)) / GB, 1) for run in RUNS]
    assert printed == [91.0, 17.5, 910.0, 175.0, 122.5, 480.9, 443.0]


def test_the_calculator_put_right_lets_16_ranks_fit_at_12_bytes() -> None:
    """(S8, S38)"""
    eight, sixteen = (memory_calculator(70 * GB, n, "fsdp", LESSON_RECIPE) for n in (8, 16))
    assert (eight.per_rank, eight.fits) == (105 * GB, False)
    assert (sixteen.per_rank, sixteen.fits) == (52.5 * GB, True)
    alone = memory_calculator(70 * GB, 1, "none", LESSON_RECIPE)
    assert (alone.weights, alone.optimizer, alone.total) == (140 * GB, 560 * GB, 840 * GB)


def test_stages_do_not_shard_activations() -> None:
    """(S8)"""
    model = shape(1, 2048, 4096, 32, 32)
    for sharding, ranks in (("none", 1), ("zero1", 8), ("zero2", 8), ("fsdp", 8), ("zero3", 64)):
        run = memory_calculator(7 * GB, ranks, sharding, shape=model)
        assert run.activations == 2 * 2**30
        assert run.per_rank == run.states + run.activations
        assert run.total == ranks * run.per_rank
    assert memory_calculator(7 * GB, 8, "zero3") == memory_calculator(7 * GB, 8, "fsdp")


def test_mixed_precision_saves_no_states() -> None:
    """(S9)"""
    rows = [mixed_precision_comparison(size) for size in COMPARED_MODELS]
    assert [(row.fp32 / GB, row.without_master / GB) for row in rows] == [
        (112, 84),
        (208, 156),
        (1120, 840),
        (6480, 4860),
    ]
    assert all(row.saved_without_master == 0.25 and row.saved_with_master == 0 for row in rows)


def test_the_table_of_real_models() -> None:
    """(S10)"""
    rows = [real_model(size, LESSON_RECIPE) for size in REAL_MODELS]
    assert [(row.cards_for_weights, row.cards_for_states) for row in rows] == [
        (1, 2),
        (2, 11),
        (11, 61),
    ]
    assert (rows[0].weights, rows[0].optimizer, rows[0].states) == (14 * GB, 56 * GB, 84 * GB)
    assert real_model(7 * GB).states == 112 * GB


#: id → (claimed, right) of each figure, from the list of corrections
EXPECTED = {
    "M5": [(28, 56), (56, 84), (56, 112), (24, -4)],
    "M6": [(84, 112), (28, 0), (25, 0)],
    "M7": [(16, 11), (16, 14)],
    "M8": [(122.5, 52.5), (443.0, 37.96875)],
    "M9": [(61, 81), (61, 92), (61, 102)],
    "M22": [(75, 65.625), (14, 112)],
    "M27": [(121.6, 122.2687)],
    "M31": [(8192, 16384), (8, 4)],
    "M32": [(33, 67.1089), (2, 4.1943)],
    "M34": [(64, 956.301), (2, 30.6016), (11, 0)],
}


def test_every_mistake_has_both_values() -> None:
    found = {
        row.id: [(figure.claimed, pytest.approx(figure.right, rel=1e-4)) for figure in row.figures]
        for row in corrections()
    }
    assert found == EXPECTED


@pytest.mark.parametrize("name", EXPECTED)
def test_the_sources_own_way_gives_the_claimed_value(name: str) -> None:
    for figure in correction(name).figures:
        # the lesson rounds 2.147 to 2 and calls 67.1 MB 64
        assert figure.as_source == pytest.approx(figure.claimed, rel=0.08)
        assert figure.as_source != figure.right


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("M5", ["7 × 8 = 56 GB", "84 GB", "112 GB"]),
        ("M6", ["2 + 2 + 4 + 4 + 4 = 16 B"]),
        ("M7", ["70 × 12 B ÷ 80 GB = 10.5, so 11 cards", "so 14 cards"]),
        ("M8", ["70 GB", "10.74 GB"]),
        ("M9", ["60.75, so 61", "91.125, so 92", "101.25, so 102"]),
        ("M22", ["65.6 % on 8", "holds 14 GB"]),
        ("M27", ["0.55 %", "122.3"]),
        ("M31", ["4.29 GB, 2 GiB", "√16 = 4 times"]),
        ("M32", ["33.55 billion elements", "67.1 GB, and 4.2 GB"]),
        ("M34", ["64 MiB = 67.1 MB", "14.25 times", "285 MB"]),
    ],
)
def test_the_derivation_shows_the_steps(name: str, words: list[str]) -> None:
    row = correction(name)
    text = " ".join(row.derivation)
    assert all(word in text for word in words)
    assert row.claim.endswith((".", ")")) and row.how.endswith(".") and row.document in "BCD"


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("correction", lambda: correction("M1")),
        ("sharding", lambda: memory_calculator(8, sharding="zero4")),
        ("card", lambda: memory_calculator(8, card_bytes=0)),
        ("ranks", lambda: lesson_bytes_per_rank(8, 0, "none")),
        ("parameters", lambda: mixed_precision_comparison(0)),
        ("sequence bytes", lambda: largest_batch(8, 0)),
        ("free bytes", lambda: largest_batch(float("nan"), 1)),
    ],
)
def test_bad_calculator_input_names_the_argument(argument: str, call: Any) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument
