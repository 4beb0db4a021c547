"""Grades get into nbgrader's gradebook whole, once, and without touching what people put there."""

import dataclasses
from pathlib import Path

import made_course
import pytest
from made_course import NAME, grade, hand_in, make
from shardgrade import regrade, run
from shardgrade.gradebook import backup
from shardgrade.grading.result import GradeRequest
from shardgrade.safely import plain_errors

from shardbook.errors import InputError

POINTS = {"ada": {"t1": 4, "t2": 6}, "bob": {"t1": 1.5}, "eve": {}}


@pytest.fixture
def layout(tmp_path: Path) -> made_course.Layout:
    return make(tmp_path / "course", POINTS)


def _book(layout: made_course.Layout):
    from nbgrader.api import Gradebook

    return Gradebook(layout.db_url, layout.course_id)


def test_nbgrader_reads_the_grades_it_would_have_written(layout: made_course.Layout) -> None:
    grade(layout)
    with _book(layout) as book:
        assert book.find_assignment(NAME).max_score == 15
        for student, points in POINTS.items():
            one = book.find_submission(NAME, student)
            assert one.score == sum(points.values())
            assert one.code_score == one.score and one.max_code_score == 10
            # The essay was not touched: nothing to wait for.
            assert not one.needs_manual_grade
            assert book.find_comment("essay", "hw", NAME, student).comment == "No response."
        assert book.find_comment("t1-solution", "hw", NAME, "ada").comment is None
        assert book.find_comment("t1-solution", "hw", NAME, "eve").comment == "No response."
        assert book.find_grade("t2", "hw", NAME, "bob").failed_tests


def test_an_answer_for_a_person_waits_for_one(layout: made_course.Layout) -> None:
    hand_in(layout, "ada", POINTS["ada"], essay="My answer.")
    hand_in(layout, "eve", POINTS["eve"], essay="")
    grade(layout)
    with _book(layout) as book:
        assert book.find_submission(NAME, "ada").needs_manual_grade
        assert book.find_grade("essay", "hw", NAME, "ada").auto_score is None
        for silent in ("bob", "eve"):
            assert book.find_grade("essay", "hw", NAME, silent).auto_score == 0
            assert book.find_comment("essay", "hw", NAME, silent).comment == "No response."
    (record,) = [r for r in run.records(layout, NAME) if r.student == "ada"]
    assert "waits for a person's grade" in record.notes


def test_only_what_changed_is_graded_again(layout: made_course.Layout) -> None:
    assert grade(layout).done == 3
    assert grade(layout).done == 0
    hand_in(layout, "bob", {"t1": 2.0})
    progress = grade(layout)
    assert progress.done == 1
    assert [str(change) for change in progress.changes] == ["bob: t1: 1.5 → 2"]
    (layout.folder("autograded", "eve", NAME) / "hw.ipynb").write_text("{}")
    assert grade(layout).done == 1  # somebody changed the graded file
    source = layout.notebooks(NAME)[0]
    source.write_text(source.read_text() + "\n")
    assert grade(layout).done == 3


def test_manual_scores_and_comments_survive_a_regrade(layout: made_course.Layout) -> None:
    grade(layout)
    with _book(layout) as book:
        given = book.find_grade("t1", "hw", NAME, "bob")
        given.manual_score, given.extra_credit, given.needs_manual_grade = 3.0, 0.5, False
        book.find_comment("t1-solution", "hw", NAME, "bob").manual_comment = "Better than it looks."
        book.find_submission(NAME, "bob").notebooks[0].flagged = True
        book.db.commit()
    hand_in(layout, "bob", {"t1": 1.5, "t2": 1.0})
    grade(layout)
    with _book(layout) as book:
        given = book.find_grade("t1", "hw", NAME, "bob")
        assert (given.manual_score, given.extra_credit, given.score) == (3.0, 0.5, 3.5)
        assert not given.needs_manual_grade  # the grader didn't change its mind
        assert (
            book.find_comment("t1-solution", "hw", NAME, "bob").comment == "Better than it looks."
        )
        assert book.find_submission(NAME, "bob").notebooks[0].flagged
        assert book.find_submission(NAME, "bob").score == 4.5
    hand_in(layout, "bob", {"t1": 0.5, "t2": 1.0})
    grade(layout)
    with _book(layout) as book:
        given = book.find_grade("t1", "hw", NAME, "bob")
        assert given.score == 3.5 and given.needs_manual_grade


def test_a_changed_lab_changes_cells_and_points(
    layout: made_course.Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    grade(layout)
    monkeypatch.setitem(made_course.TASKS, "t1", 2.0)
    monkeypatch.setitem(made_course.TASKS, "t3", 1.0)
    monkeypatch.delitem(made_course.TASKS, "t2")
    text = made_course.notebook(made_course.cells({}))
    layout.notebooks(NAME)[0].write_text(text)
    progress = grade(layout)
    told = {str(change) for change in progress.changes if change.student == "ada"}
    assert told == {"ada: t2: 6 → nothing", "ada: t3: nothing → 0"}
    with _book(layout) as book:
        assert book.find_assignment(NAME).max_score == 2 + 1 + 5
        assert {g.name for g in book.find_submission(NAME, "ada").notebooks[0].grades} == {
            "t1",
            "t3",
            "essay",
        }


def test_a_preview_changes_nothing_and_applying_grades_nothing_twice(
    layout: made_course.Layout,
) -> None:
    grade(layout)
    before = made_course.tables(layout)
    for student in POINTS:
        hand_in(layout, student, {"t1": 3.0})
    calls: list[str] = []

    def counted(requests):
        for request in requests:
            calls.append(request.student)
            yield made_course.graded(request)

    nothing = GradeRequest("", "", Path(), Path())
    kept = regrade.kept_at(layout, NAME)
    planned = run.plan(layout, NAME, nothing)
    execute = regrade.remembering(kept, counted)
    shown = regrade.preview(layout, NAME, planned, execute, lambda *_: None)
    assert made_course.tables(layout) == before
    kept.write_text(kept.read_text()[:-40])  # as a kill leaves it
    done = run.grade(layout, NAME, planned, execute, lambda *_: None)
    assert sorted(calls) == sorted([*POINTS, calls[-1]])
    assert sorted(map(str, done.changes)) == sorted(map(str, shown.changes))
    assert len(shown.changes) == 2 + 1 + 1
    assert made_course.tables(layout) != before


def test_an_interrupted_run_keeps_what_was_recorded(layout: made_course.Layout) -> None:
    def interrupted(requests):
        yield made_course.graded(next(iter(requests)))
        raise KeyboardInterrupt

    planned = run.plan(layout, NAME, GradeRequest("", "", Path(), Path()))
    with pytest.raises(KeyboardInterrupt):
        run.grade(layout, NAME, planned, interrupted, lambda *_: None)
    assert [record.student for record in run.records(layout, NAME)] == ["ada"]
    assert grade(layout).done == 2


def test_a_failed_write_leaves_no_half_grade(
    layout: made_course.Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    grade(layout)
    before = made_course.tables(layout)
    hand_in(layout, "bob", {"t1": 4, "t2": 6})
    from shardgrade import late

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(late, "apply", fail)
    with pytest.raises(Exception, match="no room on the disk"), plain_errors():
        grade(layout)
    assert made_course.tables(layout) == before


def test_a_gradebook_can_be_brought_back(layout: made_course.Layout) -> None:
    assert backup.backup(layout, "x") is None
    grade(layout)
    before = made_course.tables(layout)
    first = backup.backup(layout, "x")
    assert backup.backup(layout, "y") == first  # nothing changed: no second copy
    hand_in(layout, "bob", {"t1": 4, "t2": 6})
    grade(layout)
    after = made_course.tables(layout)
    assert after != before
    chosen, replaced = backup.restore(layout, first.name)
    assert chosen == first and made_course.tables(layout) == before
    backup.restore(layout, replaced.name)
    assert made_course.tables(layout) == after
    with pytest.raises(InputError, match=replaced.name):
        backup.restore(layout, "gradebook-of-last-year.db")


def test_old_backups_go(layout: made_course.Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_KEPT", 3)
    for points in range(5):
        hand_in(layout, "bob", {"t1": points / 2})
        grade(layout)
    assert len(backup.backups(layout)) == 3


def test_several_notebooks_of_one_assignment_add_up(layout: made_course.Layout) -> None:
    made_course.write(
        layout.folder("source", ".", NAME) / "second.ipynb",
        made_course.notebook(made_course.cells({})),
    )
    for student, points in POINTS.items():
        made_course.write(
            layout.folder("submitted", student, NAME) / "second.ipynb",
            made_course.notebook(made_course.cells(points)),
        )
    assert grade(layout).done == 6
    records = {record.student: record for record in run.records(layout, NAME)}
    assert records["ada"].score == 20 and records["ada"].max_score == 30
    assert records["bob"].scores["second/t1"] == 1.5
    assert records["bob"].went_wrong == ("hw: t2: nothing", "second: t2: nothing")
    assert grade(layout).done == 0


def test_a_renamed_notebook_leaves_nothing_of_the_old_one(layout: made_course.Layout) -> None:
    grade(layout)
    source = layout.notebooks(NAME)[0]
    source.rename(source.with_name("new.ipynb"))
    for student in POINTS:
        path = layout.folder("submitted", student, NAME) / "hw.ipynb"
        path.rename(path.with_name("new.ipynb"))
    assert grade(layout).done == 3
    (ada, *_) = run.records(layout, NAME)
    assert (ada.score, ada.max_score, set(ada.scores)) == (10, 15, {"t1", "t2", "essay"})


def test_odd_names_are_names(tmp_path: Path) -> None:
    layout = make(tmp_path / "a [b]", {})
    source = layout.folder("source", ".", "x[1]*") / "hw.ipynb"
    made_course.write(source, made_course.notebook(made_course.cells({})))
    for student in ("ö ü", "a*b", ".hidden"):
        made_course.write(
            layout.folder("submitted", student, "x[1]*") / "hw.ipynb",
            made_course.notebook(made_course.cells({"t1": 2})),
        )
    assert grade(layout, "x[1]*").done == 2
    assert [one.student for one in run.records(layout, "x[1]*")] == ["a*b", "ö ü"]


def test_what_is_not_there_is_said(layout: made_course.Layout, tmp_path: Path) -> None:
    nothing = GradeRequest("", "", Path(), Path())
    with pytest.raises(InputError, match="there is: hw"):
        run.plan(layout, "hw2", nothing)
    empty = make(tmp_path / "empty", {})
    with pytest.raises(InputError, match="handed in"):
        run.plan(empty, NAME, nothing)
    with pytest.raises(InputError, match="release"):
        made_course.open_layout(tmp_path)


def test_a_gradebook_of_another_address_takes_the_grades(
    layout: made_course.Layout, tmp_path: Path
) -> None:
    other = dataclasses.replace(layout, db_url=f"sqlite:///{tmp_path / 'other.db'}")
    grade(other)
    assert len(run.records(other, NAME)) == 3
    assert not (layout.root / "gradebook.db").exists()
