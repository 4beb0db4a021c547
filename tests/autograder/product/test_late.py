"""Lateness is worked out from facts: twice is the same as once, and nothing adds up."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_course import NAME, Layout, grade, hand_in, make, tables
from shardgrade import late, run
from shardgrade.gradebook import scores
from shardgrade.gradebook.tables import reading, writing
from shardgrade.late import Policy, part_lost

from shardbook.errors import InputError

DUE = datetime(2026, 10, 1, 12)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("over", "part"),
    [
        (-DAY, 0.0),
        (timedelta(), 0.0),
        (timedelta(minutes=15), 0.0),
        (timedelta(minutes=15, seconds=1), 0.1),
        (DAY, 0.1),
        (DAY + timedelta(seconds=1), 0.2),
        (30 * DAY, 0.5),
    ],
)
def test_each_day_begun_costs_up_to_the_most(over: timedelta, part: float) -> None:
    assert part_lost(Policy(0.1, grace=900, at_most=0.5), over) == pytest.approx(part)


@given(st.floats(0, 1), st.floats(0, 1e6), st.floats(0, 1), st.floats(-1e7, 1e7), st.floats(0, 1e6))
@settings(derandomize=True, deadline=None)
def test_later_never_costs_less(
    per_day: float, grace: float, at_most: float, over: float, more: float
) -> None:
    policy = Policy(per_day, grace, at_most)
    first = part_lost(policy, timedelta(seconds=over))
    assert 0 <= first <= part_lost(policy, timedelta(seconds=over + more)) <= at_most


@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan")])
def test_a_policy_that_makes_no_sense_is_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="per-day"):
        Policy(wrong)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make(
        tmp_path / "course", {"ada": {"t1": 4, "t2": 6}, "bob": {"t1": 4}, "eve": {"t2": 6}}
    )
    for student, time in {
        "ada": "2026-10-01 11:00:00 UTC",
        "bob": "2026-10-02 16:00:00 +0200",
    }.items():
        (layout.folder("submitted", student, NAME) / "timestamp.txt").write_text(time + "\n")
    grade(layout)
    return layout


def penalties(layout: Layout) -> dict[str, float]:
    from shardgrade.commands.grade import apply_late

    return {record.student: record.penalty for record in apply_late(layout, NAME, set())}


def set_policy(layout: Layout, policy: Policy) -> None:
    with writing(layout) as connection:
        late.set_due(connection, NAME, DUE)
        late.set_policy(connection, NAME, policy)
        late.apply(connection, NAME)


def test_a_penalty_twice_is_the_penalty_once(layout: Layout) -> None:
    set_policy(layout, Policy(0.1))
    # bob: 2 h over a day. eve: nobody knows when, so nothing is lost.
    assert penalties(layout) == pytest.approx({"ada": 0, "bob": 0.8, "eve": 0})
    once = tables(layout)
    assert penalties(layout) == pytest.approx({"ada": 0, "bob": 0.8, "eve": 0})
    grade(layout)
    assert tables(layout) == once
    records = {record.student: record for record in run.records(layout, NAME)}
    assert records["bob"].score == pytest.approx(3.2)
    assert "late by 1 d 2 h" in records["bob"].notes and not records["ada"].notes


def test_an_extension_takes_the_place_of_the_one_before(layout: Layout) -> None:
    set_policy(layout, Policy(0.1))
    lost = []
    for hours in (2, 2, 26, 0):
        with writing(layout) as connection:
            late.extend(connection, NAME, "bob", timedelta(hours=hours), "was ill")
        lost.append(penalties(layout)["bob"])
    assert lost == pytest.approx([0.4, 0.4, 0, 0.8])


def test_nbgrader_sees_penalty_and_extension(layout: Layout) -> None:
    from nbgrader.api import Gradebook

    set_policy(layout, Policy(0.1))
    with writing(layout) as connection:
        late.extend(connection, NAME, "bob", timedelta(hours=1))
        late.apply(connection, NAME)
    with Gradebook(layout.db_url, layout.course_id) as book:
        one = book.find_submission(NAME, "bob")
        assert one.extension == timedelta(hours=1)
        assert one.total_seconds_late == 25 * 3600
        assert one.late_submission_penalty == pytest.approx(0.8)


def test_the_penalty_is_recorded_with_the_grade(layout: Layout) -> None:
    set_policy(layout, Policy(0.1))
    hand_in(layout, "bob", {"t1": 2})
    grade(layout)
    with reading(layout) as connection:
        assert scores.submissions(connection, NAME)["bob"].penalty == pytest.approx(0.4)


def test_a_persons_score_changes_the_penalty_with_it(layout: Layout) -> None:
    from nbgrader.api import Gradebook

    set_policy(layout, Policy(0.1))
    with Gradebook(layout.db_url, layout.course_id) as book:
        book.find_grade("t2", "hw", NAME, "bob").manual_score = 5.0
        book.db.commit()
    assert penalties(layout)["bob"] == pytest.approx(1.8)


def test_without_a_policy_a_courses_own_penalties_stay(layout: Layout) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(layout.db_url, layout.course_id) as book:
        book.find_submission(NAME, "ada").notebooks[0].late_submission_penalty = 3.0
        book.db.commit()
    assert penalties(layout)["ada"] == 3.0
    with pytest.raises(InputError, match="release"), writing(layout) as connection:
        late.set_due(connection, "hw9", DUE)
