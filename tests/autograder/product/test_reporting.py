"""Reports and exports say what the gradebook says, in the form that others read."""

import csv
import io
import json
import statistics
from pathlib import Path

import made_course
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_course import NAME, Layout, grade, make
from shardgrade.export import export
from shardgrade.gradebook.scores import CellScore, Student, Submission
from shardgrade.gradebook.tables import writing
from shardgrade.reporting import page
from shardgrade.reporting.statistics import figures, missed, summarise
from shardgrade.roster import import_roster

POINTS = {
    "ada": {"t1": 4, "t2": 6},
    "bob": {"t1": 4, "t2": 1},
    "cem": {"t1": 1, "t2": 3},
    "eve": {},
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = make(tmp_path_factory.mktemp("reporting") / "course", POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shardgrade.run.digest_of", made_course.digest_of)
        grade(layout)
    with writing(layout) as connection:
        roster = [
            Student("ada", "Ada", "=L(1)", "ada@x", "42"),
            Student("bob", "Bob", "<b>", "b@x", "43"),
        ]
        import_roster(connection, roster)
    return layout


def test_the_report_counts_what_was_recorded(layout: Layout) -> None:
    found = figures(layout, NAME)
    assert found is not None
    totals = [10, 5, 4, 0]
    assert (found.students, found.max_score) == (4, 15)
    assert found.mean == statistics.fmean(totals)
    assert found.quartiles == tuple(np.percentile(totals, [0, 25, 50, 75, 100]))
    assert sum(found.counts) == 4 and found.counts[6] == 1 and found.counts[0] == 1
    first = next(task for task in found.tasks if task.grade_id == "t1")
    assert (first.mean, first.full) == (9 / 4, 0.5)
    assert (first.failure, first.failures) == ("all of t1", 2)


def test_the_report_advises_where_tests_may_need_the_objects() -> None:
    cell = {"grade_id": "t0", "feedback": [], "error": "AssertionError: ", "points": 0}
    results = [{"cells": [{**cell, "needed": needed}]} for needed in ("<b> (x)", "", "<b> (x)")]
    results.append({"cells": [cell]})  # as it was recorded before there were hints
    found = summarise("hw", _class([[0.0]] * 4), results)
    (task,) = found.tasks
    assert (task.needed, task.needing, task.failures) == ("<b> (x)", 2, 4)
    assert task.advice.startswith("t0: 2 failed where <b> (x) was in another process; if the test")
    assert "2 failed where &lt;b&gt; (x) was" in page.as_html(found)


def _class(points: list[list[float]]) -> list[Submission]:
    return [
        Submission(
            f"s{number}",
            None,
            cells={f"t{n}": CellScore(p, None, 0.0, 1.0, False) for n, p in enumerate(mine)},
        )
        for number, mine in enumerate(points)
    ]


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=3), min_size=2))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_discrimination_is_the_correlation_with_the_rest(points: list[list[float]]) -> None:
    found = summarise("hw", _class(points), [])
    table = np.array(points)
    for number, task in enumerate(found.tasks):
        rest = table.sum(axis=1) - table[:, number]
        if np.ptp(table[:, number]) == 0 or np.ptp(rest) == 0:
            assert task.discrimination is None
        else:
            wanted = np.corrcoef(table[:, number], rest)[0, 1]
            assert task.discrimination == pytest.approx(wanted)


def test_one_student_is_a_class(tmp_path: Path) -> None:
    found = summarise("hw", _class([[1.0, 0.0]]), [])
    assert found.quartiles == (1.0,) * 5 and found.tasks[0].discrimination is None
    assert "<h1>Report: hw</h1>" in page.as_html(found)


def test_a_failure_is_a_criterion_or_the_errors_last_line() -> None:
    told = [
        {"criterion": "a", "points": 0.0, "of": 1.0},
        {"criterion": "b", "points": 1.0, "of": 1.0},
    ]
    assert missed({"feedback": told, "error": None}) == ["a"]
    error = "Traceback\n  ...\nKeyError: 'x'\n"
    assert missed({"feedback": [], "error": error}) == ["KeyError: 'x'"]


def test_the_page_stands_alone_names_nobody_and_escapes(layout: Layout) -> None:
    found = figures(layout, NAME)
    assert found is not None
    text = page.as_html(found)
    assert "http" not in text and "<script" not in text
    assert not any(f">{name}<" in text for name in POINTS)
    assert all(task.grade_id in text for task in found.tasks)
    rows = list(csv.reader(io.StringIO(page.as_csv(found))))
    assert rows[0][:3] == ["task", "points", "mean"] and ["students", "4"] in rows
    assert [row[0] for row in rows[1:4]] == [task.grade_id for task in found.tasks]


def _rows(layout: Layout, form: str, target: Path) -> list[list[str]]:
    (path,) = export(layout, NAME, form, target / "out.csv")
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_csv_has_every_cell(layout: Layout, tmp_path: Path) -> None:
    head, *rows = _rows(layout, "csv", tmp_path)
    table = {row[1]: dict(zip(head, row, strict=True)) for row in rows}
    assert set(table) == set(POINTS)
    assert (table["bob"]["score"], table["bob"]["max_score"], table["bob"]["t2"]) == (
        "5",
        "15",
        "1",
    )
    # A spreadsheet would run a name that begins with an equals sign.
    assert table["ada"]["last_name"] == "'=L(1)"


def test_canvas_gets_the_columns_it_asks_for(layout: Layout, tmp_path: Path) -> None:
    head, possible, *rows = _rows(layout, "canvas", tmp_path)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", NAME]
    assert possible == ["    Points Possible", "", "", "", "", "15"]
    assert ["<b>, Bob", "43", "", "bob", "", "5"] in rows


def test_moodle_gets_who_and_how_much(layout: Layout, tmp_path: Path) -> None:
    head, *rows = _rows(layout, "moodle", tmp_path)
    assert head == ["Username", "Full name", "Email address", "Grade", "Maximum grade"]
    assert ["bob", "Bob <b>", "b@x", "5", "15"] in rows


def test_gradescope_gets_a_file_for_each(layout: Layout, tmp_path: Path) -> None:
    files = export(layout, NAME, "gradescope", tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in files] == [
        f"{student}/results.json" for student in POINTS
    ]
    found = json.loads((tmp_path / "bob" / "results.json").read_text())
    assert found["score"] == 5
    tests = {test["name"]: test for test in found["tests"]}
    assert (tests["t2"]["score"], tests["t2"]["max_score"]) == (1, 6)
    assert "expected a number, got 1" in tests["t2"]["output"]
    assert "hint: look again" in tests["t2"]["output"]


def test_an_ungraded_assignment_has_no_figures(layout: Layout) -> None:
    assert figures(layout, "other") is None
