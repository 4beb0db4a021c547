"""What the page about owning and borrowing says: against the sources' values and sums on paper."""

import pytest
from chapters.execute import Executed, execute


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n47_own_a_part.md")


def test_a_rank_stores_a_quarter_of_the_weights_and_computes_all_layers(page: Executed) -> None:
    """(S16, S24)"""
    assert page.said["all_weights"] == f"{2 * 32_656:,} B"
    assert page.said["own"] == "16,328 B"
    question = next(text for text in page.questions() if "Which layers does rank 0" in text)
    assert page.questions()[question].startswith("All of them")


def test_the_small_layer_is_cut_as_printed(page: Executed) -> None:
    """(S17)"""
    assert "rank 2: weight[8:12]\nrank 3: bias[0:3]\n4 elements a rank; padding: 1" in page.printed
    assert "rank 2: weight[10:12]\nrank 2: bias[0:3]\n" in page.printed
    assert (page.said["pad_16"], page.said["shard_16"]) == ("1", "1")
    assert (page.said["block_exact"], page.said["block_pad"]) == (f"{12 * 5120**2:,}", "200")
    # nine elements on eight ranks: 2 + 2 + 2 + 2 + 1, and three ranks with nothing
    assert [page.said[name] for name in ("nine_shard", "nine_pad", "nine_empty")] == ["2", "7", "3"]


def test_gradients_written_through_views_stand_in_the_flat_gradient(page: Executed) -> None:
    """(S36)"""
    assert "[" + "1. " * 12 + "2. 2. 2. 0.]" in page.printed


def test_a_unit_lives_twice_and_the_last_one_once(page: Executed) -> None:
    """(S28)"""
    life = "AG1 → unsharded, F1 → sharded, AG1 → unsharded, B1 → sharded, RS1"
    assert life in page.printed
    assert "AG4 → unsharded, F4, B4 → sharded, RS4" in page.printed


def test_traffic_is_three_terms_and_less_where_a_unit_is_kept(page: Executed) -> None:
    """(S20)"""
    # 3/4 of the two-byte weights for each term; the kept unit of 1,552 saves one of its three
    term = 2 * 32_656 * 3 // 4
    kept = 3 * term - 2 * 1552 * 3 // 4
    assert page.said["sent_zero3"] == f"{3 * term:,} B" == "146,952 B"
    assert page.said["sent_again"] == f"{2 * term:,} B"
    assert page.said["sent_kept"] == f"{kept:,} B"
    assert (page.said["share_zero3"], page.said["share_kept"]) == ("2.25", "2.214")
    rows = next(iter(page.tables().values()))
    assert [row[2] for row in rows] == [f"{2 * term:,}", f"{3 * term:,}"]


def test_without_reshard_the_peak_holds_the_whole_model(page: Executed) -> None:
    assert page.said["peak_zero3"] == "161,632 B"
    # states, all weights but the last unit's, its gradient's part, the next unit's gradient
    held = 14 * 32_656 // 4 + 2 * (32_656 - 1552) + 2 * 1552 // 4 + 2 * 9312
    assert page.said["peak_again"] == f"{held:,} B"


def test_cut_by_rows_the_last_rank_has_nothing(page: Executed) -> None:
    rows = page.tables()["The linear layer on 4 ranks: elements a rank owns"]
    assert rows == [("0", "4", "5"), ("1", "4", "5"), ("2", "4", "5"), ("3", "3", "0")]
    # a row has four weights and a bias; four ranks are given one row each
    assert (page.said["rows_gathered"], page.said["flat_gathered"]) == ("20", "16")
