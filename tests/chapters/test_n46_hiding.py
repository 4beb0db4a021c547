"""What the page says about hiding communication: against formulas and pencil and paper."""

import pytest
from chapters.execute import Executed, execute


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n46_hiding_the_wait.md")


def milliseconds(text: str) -> float:
    value, unit = text.split()
    return float(value.replace(",", "")) * {"s": 1e3, "ms": 1.0, "µs": 1e-3}[unit]


def rule(ready: list[float], takes: list[float]) -> float:
    """The page's formula: the length of a step from when buckets are ready and how long they take."""
    return max(start + sum(takes[k:]) for k, start in enumerate(ready))


def test_the_large_models_step_in_turn(page: Executed) -> None:
    backward = 4 * 8e9 * 8192 / 400e12
    reduce = 2 * 3 * (5e-6 + 16e9 / 4 / 50e9)
    assert page.said["backward"] == f"{1e3 * backward:.3g} ms" == "655 ms"
    assert page.said["reduce_all"] == f"{1e3 * reduce:.3g} ms" == "480 ms"
    assert page.said["lost"] == f"{reduce / (1.5 * backward + reduce):.0%}" == "33%"


def test_the_worked_case_by_hand(page: Executed) -> None:
    said = page.said
    # forward 4 s, a layer's gradient every 2 s, 0.5 s to start and 1 s of bytes a layer
    assert float(said["w_each"].split()[0]) == rule([6, 8, 10, 12], [1.5] * 4) == 13.5
    assert float(said["w_once"].split()[0]) == rule([12], [4.5]) == 16.5
    assert float(said["w_pair"].split()[0]) == rule([8, 12], [2.5] * 2) == 14.5
    assert (said["w_turn"], said["w_busy"]) == ("18 s", "6 s")
    assert "B3======B2======B1======B0======......" in page.printed
    assert "AR0---..AR1---..AR2---..AR3---" in page.printed


def test_when_starting_is_dear_the_middle_wins(page: Executed) -> None:
    # 2 s to start instead of 0.5 s
    steps = [
        rule([6, 8, 10, 12], [3] * 4),
        rule([8, 12], [4] * 2),
        rule([12], [6]),
    ]
    assert steps == [18, 16, 18]
    assert [page.said[f"q_{name}"] for name in ("each", "two", "once")] == ["18 s", "16 s", "18 s"]
    answers = page.questions()
    asked = next(q for q in answers if q.startswith("Now the network takes two seconds"))
    assert answers[asked] == "Two layers at a time: 16 s."


def test_a_slow_rank_and_contention(page: Executed) -> None:
    assert page.said["s_late"] == f"{1.25 * 12 + 1.5:g} s"
    hidden = 6 - 1.5
    assert page.said["c_hidden"] == f"{hidden:g} s"
    assert page.said["c_more"] == f"{hidden / 4:.3g} s"
    answers = page.questions()
    assert answers[next(q for q in answers if "takes a quarter longer" in q)].startswith("16.5 s")


def test_the_embedding_sets_the_tail_whatever_the_bucket(page: Executed) -> None:
    assert page.said["l_parameters"] == "8.03B"  # Llama 3 8B (Llama Team, 2024)
    embedding = 2 * 3 * (5e-6 + 2 * 128256 * 4096 / 4 / 50e9)
    assert page.said["l_embedding_time"] == f"{1e3 * embedding:.3g} ms"
    rows = next(rows for title, rows in page.tables().items() if title.startswith("One step on 4"))
    tails = [milliseconds(row[3]) for row in rows]
    assert all(tail >= 1e3 * embedding for tail in tails)
    assert tails[1] < 1.1 * 1e3 * embedding
    assert tails[-1] == pytest.approx(1e3 * 2 * 3 * (5e-6 + 2 * 8.03e9 / 4 / 50e9), rel=0.01)


def test_more_ranks_want_larger_buckets(page: Executed) -> None:
    sizes = [float(page.said[name].split()[0]) for name in ("best_8", "best_32")]
    assert sizes[0] < sizes[1]
    assert page.said["best_8"] == page.said["bucket"] == "25 MiB"


def test_latency_is_a_growing_share_of_a_bucket(page: Executed) -> None:
    for name, ranks in (("x_share", 4), ("x_share_64", 64)):
        latency = 2 * (ranks - 1) * 5e-6
        size = 2 * (ranks - 1) / ranks * 25 * 2**20 / 50e9
        assert page.said[name] == f"{latency / (latency + size):.0%}"
