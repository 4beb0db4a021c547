"""What the page about two streams says: against the lecture's times and closed forms."""

import pytest
from chapters.execute import Executed, execute


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n47_two_streams.md")


def test_four_units_take_the_lectures_times(page: Executed) -> None:
    """(S29)"""
    said = page.said
    assert [said[name] for name in ("serial", "overlap", "prefetch")] == ["40.5", "36", "27"]
    assert (said["compute"], said["gathers"]) == ("24", "7")
    assert (said["exposed_overlap"], said["exposed_prefetch"]) == ("12", "3")
    answers = page.questions()
    for start, time in (
        ("Everything in one", "40.5"),
        ("Communication has", "36"),
        ("Each gather", "27"),
    ):
        question = next(text for text in answers if text.startswith(start))
        assert answers[question] == f"{time} s."


def test_the_drawings_are_the_lectures(page: Executed) -> None:
    """(S29)"""
    rows = [line.split()[1] for line in page.printed.splitlines() if line[0] in "c"]
    assert rows == [
        "AG0F0==AG1F1==AG2F2==AG3F3==B3======RS3AG2B2======RS2AG1B1======RS1AG0B0======RS0",
        "AG0AG1AG2AG3...............RS3AG2........RS2AG1........RS1AG0........RS0",
        "...F0==F1==F2==F3==B3======......B2======......B1======......B0======...",
        "AG0AG1AG2AG3AG2............RS3AG1..RS2AG0..RS1.....RS0",
        "...F0==F1==F2==F3==B3======B2======B1======B0======...",
    ]


def test_the_readers_cases_follow_the_rule_while_it_holds(page: Executed) -> None:
    said = page.said
    assert said["six_compute"] == str(6 * 6)
    assert said["six_overlap"] == f"{36 + 6 * 3:g}"
    assert said["six_prefetch"] == f"{36 + 3:g}"
    # the network's work: seven gathers and four reductions
    assert said["slow_traffic"] == str(11 * 3)
    assert said["slower_traffic"] == str(11 * 6)
    assert (said["slow_overlap"], said["slow_one"], said["slow_two"]) == ("51", "37", "33")
    assert said["slower_one"] == said["slower_traffic"]
    # nothing waits with one unit ahead: a second gains nothing
    assert said["two_ahead"] == said["prefetch"] == "27"


def test_13b_takes_the_lectures_seconds_and_buffers(page: Executed) -> None:
    """(S30, S31)"""
    rows = next(rows for caption, rows in page.tables().items() if caption.startswith("13 billion"))
    assert [row[1] for row in rows] == ["4.05 s", "3.54 s", "2.53 s"]
    said = page.said
    assert (said["free_peak"], said["limited_peak"]) == ("79", "2")
    assert (said["free_bytes"], said["limited_step"]) == ("49.7 GB", "2.53 s")
    assert (page.said["gain"], page.said["saved"]) == ("40%", "28.7%")
    caption = next(caption for caption in page.tables() if caption.startswith("13 billion"))
    assert "20.8 ms" in caption and "41.7 ms" in caption and "13 ms" in caption


def test_a_slow_host_makes_the_limiter_and_forward_prefetch_cost(page: Executed) -> None:
    """(S31, S32)"""
    said = page.said
    assert (said["lost_tenth"], said["lost_one"]) == ("0.3%", "3.0%")
    # the corrections' −2.8 % of speed is 2.9 % more time
    assert said["ahead_two"] == f"{1 / (1 - 0.028) - 1:.1%}"
    assert said["three_one"] == said["back_room"] == "0.0%"
    assert said["back_two"] == "2.9%"
    free = next(
        rows for caption, rows in page.tables().items() if caption.startswith("The step with")
    )
    assert free[0][1:] == ("2.526 s",) * 3
    times = [[float(cell.split()[0]) for cell in row[1:]] for row in free]
    assert all(row == sorted(row) for row in times)


def test_the_exercises_buffers_and_times(page: Executed) -> None:
    said = page.said
    assert (said["re_time"], said["re_peak"], said["plain_peak"]) == ("27", "8", "7")
    assert (said["res_time"], said["res_peak"]) == ("27", "4")
    # two passes; then without the reduction and the gather at the seam (S37); one all-reduce (S34)
    assert (said["each_time"], said["acc_time"]) == (f"{2 * 27}", f"{2 * 27 - 3}")
    assert said["hybrid_time"] == f"{27 + int(said['replica_time'])}"
