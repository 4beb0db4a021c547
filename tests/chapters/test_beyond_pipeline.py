"""What the page says about pipelines: against the papers' formulas and pencil and paper."""

from fractions import Fraction

import pytest
from chapters.execute import Executed, execute

from shardbook.schedules.pipeline import StageTimes, make_order, parse_order, run_order


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("beyond_pipeline.md")


def rows_of(page: Executed, part: str) -> dict[str, tuple[str, ...]]:
    rows = next(rows for caption, rows in page.tables().items() if part in caption)
    return {row[0]: row[1:] for row in rows}


def shares(stages: int, micro_batches: float) -> tuple[str, str]:
    """Idle share (GPipe, section 2.3) and extra time (Megatron-LM, 2021, section 2.2)."""
    lost = stages - 1
    return f"{lost / (micro_batches + lost):.1%}", f"{100 * lost / micro_batches:.4g}%"


def test_both_ratios_of_the_bubble(page: Executed) -> None:
    """M1 to M3."""
    for m, row in rows_of(page, "the bubble by executing").items():
        idle, extra = shares(4, int(m))
        assert row == (f"{int(m) / (int(m) + 3):.1%}", idle, extra)
    said = page.said
    assert (said["b_extra"], said["b_idle"]) == ("18.75%", "15.8%")
    assert (said["b_single"], said["b_single_idle"]) == ("300%", "75%")
    assert (said["f_share"], said["f_wrong"], said["f_slots"]) == ("57%", "73%", "14")
    assert (said["a_idle"], said["a_extra"]) == shares(8, 32)


def test_one_f_one_b_saves_memory_and_no_time(page: Executed) -> None:
    """M4."""
    rows = rows_of(page, "4 ranks, 8 micro-batches")
    assert rows["GPipe"][:3] == rows["1F1B"][:3] == ("33 s", "27.3%", "37.5%")
    assert rows["GPipe"][3] == "8, 8, 8, 8"
    assert rows["1F1B"][3] == page.said["o_held"] == "4, 3, 2, 1"
    assert "rank 0, step 4: 0F4: the rank would hold 5, more than 4" in page.printed


def test_interleaving_divides_the_extra_time_and_multiplies_the_sends(page: Executed) -> None:
    rows = rows_of(page, "4 ranks, 8 micro-batches")
    for name, chunks in (("1F1B", 1), ("interleaved 1F1B, two chunks", 2)):
        assert rows[name][1:3] == shares(4, 8 * chunks)
        assert rows[name][4] == str(2 * (4 * chunks - 1))
    assert rows["interleaved 1F1B, four chunks"][1:3] == shares(4, 32)
    assert rows["ZBV"][4] == "12"  # the two ends of the V lie on one rank: 2 · 2 · 3


def test_breadth_first_takes_as_long_as_interleaved_and_holds_as_much_as_gpipe() -> None:
    """By pencil: (8 + 3/2) turns of 3 s; all eight micro-batches of both chunks, half a rank each."""
    run = run_order(make_order("looped-bfs", 4, 8, 2), StageTimes(0.5, 0.5, 0.5))
    assert run.makespan == (8 + 3 / 2) * 3
    assert run.peak_live == (8 * 2,) * 4


def test_split_backwards_keep_the_worst_ranks_peak(page: Executed) -> None:
    rows = rows_of(page, "4 ranks, 8 micro-batches")
    # (P - 1)(F + I - W) extra for one chunk (Qi et al., 2024), F = I = W = 1
    assert rows["zero bubble, one chunk"][0] == f"{8 * 3 + 3:g} s"
    assert rows["ZBV"][0] == "25.5 s"  # 51 half slots, by PyTorch's action list
    for name in ("zero bubble, one chunk", "ZBV"):
        assert rows[name][3] == "4, 4, 4, 4"


def test_pipedream_keeps_p_minus_r_versions(page: Executed) -> None:
    for rank, row in enumerate(rows_of(page, "PipeDream").values()):
        assert row == (str(4 - rank), str(3 - rank))
    assert (page.said["d_weights"], page.said["d_one"]) == ("16 GB", "4 GB")


def test_what_crosses_a_boundary(page: Executed) -> None:
    each_way = 2 * 4 * 8192 * 4096
    assert page.said["crossing"] == f"{each_way / 1e6:.0f} MB"
    assert page.said["full_shard"] == "36 GB"  # 3 (N - 1)/N of 16 GB
    assert page.said["fewer"] == f"{36e9 / (2 * each_way):.0f}"


def test_transfers_hurt_1f1b_more_than_gpipe(page: Executed) -> None:
    said = page.said
    # GPipe: each ramp has three ways more; 1F1B: each turn but the first waits for two
    assert said["t_gpipe"] == f"{33 + 2 * 3 * 0.5:g} s"
    assert (said["t_eager"], said["t_eager_held"]) == (said["t_gpipe"], "7, 5, 3, 1")
    assert (said["t_1f1b"], said["t_two"], said["t_four"]) == ("41 s", "35.5 s", "45 s")


def test_the_slowest_stage_sets_the_pace(page: Executed) -> None:
    assert page.said["u_time"] == f"{8 * 4.5 + 3 * 3:g} s"
    busy = Fraction(8 * (3 * 3), 1) + Fraction(8 * 9, 2)
    assert page.said["u_idle"] == f"{float(1 - busy / (4 * 45)):.0%}"


def test_the_order_in_the_solution_reaches_the_bound(page: Executed) -> None:
    text = "0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2\n1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2"
    assert run_order(parse_order(text)).makespan == 1 + 9
    assert (page.said["h_best"], page.said["h_plain"]) == ("10 s", "12 s")


def test_exercises(page: Executed) -> None:
    said = page.said
    assert (said["few"], said["more"]) == ("32", "16")
    assert (said["few_idle"], said["more_idle"]) == (shares(8, 32)[0], shares(8, 16)[0])
    assert (said["needed"], said["needed_idle"]) == ("133", "5.0%")
    assert (said["flushes"], said["flush_idle"]) == ("42 s", shares(4, 4)[0])
