"""What the page says about tensor parallelism: against formulas written out here."""

import math

import pytest
from chapters.execute import Executed, execute


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("beyond_tensor.md")


def rows(page: Executed, part: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if part in caption)


def test_the_layer_and_its_hidden_activation(page: Executed) -> None:
    said = page.said
    assert said["one_layer"] == f"{2 * 12 * 16384**2 / 1e9:.2f} GB"
    assert said["hidden"] == f"{2 * 16384 * 4 * 16384 / 1e9:.2f} GB"
    assert (said["layer_part"], said["hidden_part"]) == ("805 MB", "268 MB")
    assert said["stored"] == f"{16 * 8 / 4:.0f} GB"


def test_columns_joined_and_rows_summed_are_the_product(page: Executed) -> None:
    """By pencil: X = 1 2 / 3 4, W = 1 0 2 1 / 0 1 1 3."""
    assert page.printed.count("[[ 1  2  4  7]\n [ 3  4 10 15]]") == 3


def test_what_each_cut_sends(page: Executed) -> None:
    """M17: conjugate operators, Megatron-LM, section 3 (S55)."""
    assert rows(page, "One linear") == [
        ("column", "nothing", "one all-reduce", "yes"),
        ("row", "one all-reduce", "nothing", "yes"),
    ]


def test_a_pair_has_one_all_reduce_each_way(page: Executed) -> None:
    """M13 (S55)."""
    for _, ranks, forward, backward, equal in rows(page, "A pair"):
        expected = "nothing" if ranks == "1" else "one all-reduce"
        assert (forward, backward, equal) == (expected, expected, "yes")
    assert len(rows(page, "A pair")) == 8


def test_the_ratio_is_t_over_3h(page: Executed) -> None:
    """M18: 1.33, 1.07, 0.67 at 16,384 tokens, times T (S55)."""
    found = rows(page, "activations to gradients")
    assert [row[1] for row in found] == ["1.33", "1.07", "0.67"]
    for width, _, four, eight in found:
        ratio = 16384 / (3 * int(width.replace(",", "")))
        assert (four, eight) == (f"{4 * ratio:.2f}", f"{8 * ratio:.2f}")
    said = page.said
    assert (said["ratio"], said["ratio_cut"]) == ("1.33", "5.33")
    assert said["ratio_ring"] == f"{4 * 16384 / (3 * 4096) * (3 / 4) / (7 / 8):.2f}"
    assert (said["f_ratio"], said["f_cut"]) == ("2.13", "8.53")
    assert (said["even"], said["even_check"]) == ("3,072", "1")


def test_the_sum_does_not_go_through_tanh(page: Executed) -> None:
    assert page.said["sum_first"] == f"{math.tanh(1.5):.3f}"
    assert page.said["sum_last"] == f"{math.tanh(0.5) + math.tanh(1):.3f}"


def test_sequence_parallelism_sends_the_same_bytes(page: Executed) -> None:
    sent = 2 * 3 * 8 * 12 * 8 // 4  # an all-reduce of 8 tokens × 12 float64 on four ranks
    assert (page.said["small_tokens"], page.said["small_width"]) == ("8", "12")
    assert page.said["forward_plain"] == page.said["forward_sequence"] == f"{sent / 1e3:g} kB"


def test_the_vocabulary(page: Executed) -> None:
    assert page.said["logits"] == f"{4 * 16384 * 128256 / 1e9:.2f} GB"
    assert page.said["three"] == f"{12 * 16384 / 1e3:.0f} kB"


def test_exercise_one(page: Executed) -> None:
    said = page.said
    sent = 32 * 4 * 16384 * 4096 * 2 * 2 * 7 / 8
    assert said["sums"] == "128"
    assert said["step_bytes"] == f"{sent / 1e9:.1f} GB"
    assert (said["wait_fast"], said["wait_slow"]) == (
        f"{sent / 450e9:.2f} s",
        f"{sent / 50e9:.2f} s",
    )
    assert said["compute"] == f"{6 * 12 * 4096**2 * 32 * 16384 / 8 / 500e12:.2f} s"
