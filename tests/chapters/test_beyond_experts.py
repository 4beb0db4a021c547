"""What the page says about experts: against sums written out here."""

import pytest
from chapters.execute import Executed, execute


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("beyond_experts.md")


def rows(page: Executed, part: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if part in caption)


def test_routing_by_hand(page: Executed) -> None:
    """Expert 1 has room for two of three first choices, expert 0 for one second choice (S58)."""
    assert "chosen\n[0 1]\n[1 0]\n[1 0]\n[1 0]\n" in page.printed
    kept = "kept\n[ True False]\n[ True  True]\n[ True False]\n[False False]"
    assert kept in page.printed


def test_experts_on_many_ranks_are_one_layer(page: Executed) -> None:
    """(S58)"""
    for ranks, copies, moves, computed, same in rows(page, "4 experts"):
        assert (moves, same) == ("4", "yes")
        counts = [int(count) for count in computed.split(", ")]
        assert len(counts) == int(ranks) * int(copies)
        assert sum(counts) == 2 * 24


def test_bytes_of_an_all_to_all(page: Executed) -> None:
    once = 7 / 8 * 2 * 6144 * 4096 * 2
    assert page.said["once"] == f"{once / 1e6:.1f} MB"
    assert page.said["four"] == f"{4 * once / 1e6:.0f} MB"
    expert = 2 * 2 * 4096 * 14336
    assert page.said["weights_bytes"] == f"{expert / 1e6:.0f} MB"
    assert page.said["gather"] == f"{7 * expert / 1e9:.2f} GB"
    assert page.said["x_fast"] == f"{4 * once / 450e9 * 1e3:.3g} ms"
    assert page.said["x_slow"] == f"{4 * once / 50e9 * 1e3:.3g} ms"


def test_a_quarter_on_one_of_sixteen_is_four_times_as_slow(page: Executed) -> None:
    """0.25 against 1/16; with a mate of 5 % on eight ranks 0.30 against 1/8."""
    asked = next(text for text in page.questions().values() if "times as long" in text)
    assert asked == "4 times as long."
    assert page.said["paired"] == f"{0.30 * 8:g}"


def test_capacities(page: Executed) -> None:
    """Switch Transformers, section 2.2 (S58)."""
    said = page.said
    assert said["wk"] == f"{1.25 * 2 * 32768 / 16:,.0f}"
    assert (said["f_even"], said["fd"]) == ("128", "192")
    assert (said["b_most"], said["b_dropped"], said["b_mean"]) == ("30", "20", "20")
    assert (said["b_before"], said["b_after"]) == (f"{50 / 25:g}", f"{30 / 20:g}")


def test_the_exercise_on_placement(page: Executed) -> None:
    loads = [int(load) for load in page.said["x_loads"].split(", ")]
    assert sum(loads) == 1200
    ranks = [sum(loads[i : i + 3]) for i in range(0, 12, 3)]
    assert page.said["x_ranks"] == ", ".join(map(str, ranks))
    assert page.said["x_ratio"] == f"{ranks[0] / 300:.3g}"
    assert page.said["x_better"] == f"{(loads[0] + loads[-1] + loads[-2]) / 300:.3g}"
