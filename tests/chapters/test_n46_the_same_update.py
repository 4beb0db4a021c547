"""What the page says about replicas: against printed values, pencil and paper, and plain numpy."""

import numpy as np
import pytest
from chapters.execute import Executed, execute

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n46_the_same_update.md")


def rows_of(page: Executed, start: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if caption.startswith(start))


def test_the_average_over_1_2_4_and_8_ranks_is_the_lessons_value(page: Executed) -> None:
    rows = rows_of(page, "64 rows on one rank")
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    for row in rows:
        assert row[1] == "30.2175"
        # the lesson prints 53.0517, which lacks the division by the width
        assert float(row[2]) == pytest.approx(53.0517 / 16, abs=5e-5)
    assert len({row[3] for row in rows}) == 4, "the ranks' own gradients differ"


def test_the_gradient_agrees_with_the_slope_and_the_lessons_is_the_width_too_large(
    page: Executed,
) -> None:
    assert (page.said["slope"], page.said["analytic"]) == ("-0.0791", "-0.0791")
    assert page.said["too_large"] == "-1.2658"
    assert page.said["width"] == "16"
    # the lesson's error of the unweighted mean of 22, 21 and 21 rows is 0.10 in its own scale
    assert float(page.said["uneven_off"]) * 16 == pytest.approx(0.10, abs=0.005)
    assert page.said["uneven"] == "22, 21, 21"


def test_four_ranks_one_rank_and_four_portions_train_alike(page: Executed) -> None:
    for row in rows_of(page, "The same training three times"):
        losses = [float(text) for text in row[1:4]]
        assert max(losses) - min(losses) < 1e-8
        assert 0 < float(row[4]) < 1e-6
    assert page.names["same"] is True


def test_the_largest_difference_is_that_of_the_weight_with_the_smallest_gradient(
    page: Executed,
) -> None:
    four, one = (page.names["trainer"](*shape) for shape in ((4, 16), (1, 64)))
    start = one.weights().copy()
    four.step()
    one.step()
    apart, moved = np.abs(four.weights() - one.weights()), np.abs(one.weights() - start)
    # Adam's first step is rate · g / (|g| + ε): who moves least has the smallest gradient
    assert apart.argmax() == moved.argmin()
    rows = rows_of(page, "The same training three times")
    assert {row[4] for row in rows} == {f"{apart.max():.1e}"}


def test_a_token_of_the_thin_rank_weighs_three_times_as_much(page: Executed) -> None:
    assert page.said["thin"] == "3"
    asked = page.questions()
    assert any("3 times as much" in answer for answer in asked.values())


def test_the_mean_of_means_turns_the_gradient_and_hardly_stretches_it(page: Executed) -> None:
    right, means, total = rows_of(page, "The reduced gradient")
    assert float(right[1]) == 1 and float(right[2]) < 1e-5
    assert abs(float(means[1]) - 1) < 0.01 and 0.2 < float(means[2]) < 0.5
    # a sum of four means is four times their mean
    assert float(total[1]) == pytest.approx(4 * float(means[1]), rel=1e-3)
    assert page.said["off"] == f"{float(means[2]):.0%}"


def test_clipping_before_the_average_makes_it_shorter(page: Executed) -> None:
    local = [np.asarray(part) for part in page.names["local"]]
    joint = np.linalg.norm(sum(local) / 4)
    units = sum(part / np.linalg.norm(part) for part in local) / 4
    # each is longer than half the joint norm, so each is scaled to it
    assert min(np.linalg.norm(part) for part in local) > joint / 2
    assert page.said["early"] == f"{np.linalg.norm(units):.2f}"


def test_accumulated_micro_batches_are_sent_once(page: Executed) -> None:
    # one all-reduce of 32,656 FP32 elements: 2 · 3/4 of them, 4 B each
    assert page.said["sent_once"] == f"{2 * 3 * 32_656 // 4 * 4:,}" == "195,936"
    assert page.said["sent_each"] == f"{4 * 195_936:,}"


def test_a_global_batch_counts_replicas_and_not_cards(page: Executed) -> None:
    said = page.said
    assert said["rows_all"] == str(4 * 8 * 2)
    assert said["sixteen"] == "1024"
    assert int(said["blank"]) * 64 // 16 == 1024
    question = next(text for text in page.questions() if "global batch?" in text.lower())
    assert page.questions()[question] == "64."


def test_replicas_part_in_the_wrong_step_and_never_meet(page: Executed) -> None:
    for row in rows_of(page, "A checksum of everything"):
        sums = row[1:5]
        assert len({sums[0], sums[1], sums[3]}) == 1
        assert (sums[2] != sums[0]) == (int(row[0]) >= 3) == ("✗" in sums[2])
        assert (float(row[5]) > 0) == (int(row[0]) >= 3)
    assert abs(float(page.said["broken_loss"]) - float(page.said["healthy_loss"])) < 0.01
    assert float(page.said["spread_last"]) > float(page.said["spread_then"]) > 0


def test_the_self_check_is_the_weighted_mean(page: Executed) -> None:
    question = next(text for text in page.questions() if text.startswith("Two ranks have 10"))
    assert page.questions()[question] == "2.5"  # (10 · 4 + 30 · 2) / 40
