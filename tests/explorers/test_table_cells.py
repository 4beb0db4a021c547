"""Which cells of a table stand as numbers: to the right, on one line."""

import pytest

from shardbook.explorers.html import table_html
from shardbook.explorers.view import Table
from shardbook.pages import table


def as_number(cell: str) -> bool:
    return "sb-number" in table_html(Table("a caption", ("what", "how much"), (("row", cell),)))


@pytest.mark.parametrize(
    "cell",
    [
        *("0", "1,552", "−0.25", "+3", "2²⁰", "5.96e−08", "1.4e-07"),
        *("12.9 GB", "450 GB/s", "74.6 µs", "35%", "39.06 %", "9.3 ×", "405B", "2Ψ"),
        *("3.89 billion", "98.6 GB ✗", "✓ 66.3 GB", "126,037 tokens/s"),
    ],
)
def test_a_number_with_a_unit_or_without_is_a_number(cell: str) -> None:
    assert as_number(cell)


@pytest.mark.parametrize(
    "cell",
    [
        *("", "–", "yes", "GPU", "2 of 2", "0 to 1.5", "4, 3, 2, 1", "0x57d479fd", "2F7"),
        *("16 × 64 MiB", "52.5 (52.5) / 41.25 (41.3)", "3,072 B at most", "3D parallelism, 650B"),
        "33.3 s a step, 126,037 tokens/s, 456 TFLOP/s a card",
    ],
)
def test_a_text_that_begins_with_a_digit_is_a_text(cell: str) -> None:
    assert not as_number(cell)


def test_a_folded_table_opens_behind_its_line() -> None:
    shown = [table("c", ["a", "b"], [["x", "1"]], folded=line) for line in ("", "All <results>")]
    plain, folded = (each._repr_html_() for each in shown)
    assert plain.startswith('<div class="sb-rows">')
    assert folded == (
        f'<details class="sb-table"><summary>All &lt;results&gt;</summary>{plain}</details>'
    )
