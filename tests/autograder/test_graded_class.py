"""A made-up class goes through release, stock nbgrader and feedback."""

import html
import json
import re
import zipfile
from pathlib import Path

import nbformat
import pytest
from leaks import ROOT, find_leaks, secret_lines
from shardgrade.checkout import reference
from shardgrade.demo import CLASS, Graded

from shardbook.labs.registry import LABS

LAB = LABS["n45"]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("graded class")]


def _page(graded: Graded, student: str) -> str:
    text = (graded.course / "feedback" / student / LAB.id / f"{LAB.stem}.html").read_text()
    return html.unescape(re.sub(r"<[^>]+>", "", text))


def _without_first(points: float) -> float:
    return LAB.points - LAB.tasks[0].points + points


@pytest.mark.parametrize(
    ("student", "score"),
    [
        ("perfect", LAB.points),
        ("partial", _without_first(3.5)),
        ("syntax-error", _without_first(0)),
        ("blank", 0),
        ("wrong", 0),
        ("endless", 0),
        ("raises", 0),
        ("edited-check", 0),
    ],
)
def test_each_student_gets_what_is_due(graded: Graded, student: str, score: float) -> None:
    record = graded.records[student]
    assert record.graded and record.score == score
    assert record.max_score == LAB.points
    assert sum(record.scores.values()) == score


def test_the_whole_class_is_graded(graded: Graded) -> None:
    assert set(graded.records) == set(CLASS)


def test_what_was_put_right_or_went_wrong_is_said(graded: Graded) -> None:
    told = {student for student, record in graded.records.items() if record.notices}
    assert told == {"edited-check", "endless"}
    assert "n45-1 was edited" in graded.records["edited-check"].put_right[0]
    assert graded.records["endless"].went_wrong == ("cell n45-1: a call gave no result in time",)


def test_feedback_leads_to_each_task_by_its_title(graded: Graded) -> None:
    page = graded.course / "feedback" / "perfect" / LAB.id / f"{LAB.stem}.html"
    links = re.findall(r'<li><a href="#([^"]+)">([^<]+)</a>', page.read_text())
    assert [(id, html.unescape(title)) for id, title in links] == [
        (task.grade_id, f"{task.id} {task.title}") for task in LAB.tasks
    ]
    assert all(f'<a name="{task.grade_id}"></a>' in page.read_text() for task in LAB.tasks)


def test_feedback_says_what_was_missed(graded: Graded) -> None:
    assert "result: an entry 'weights'" in _page(graded, "partial")
    assert "KeyError: 'momentum'" in _page(graded, "raises")
    assert "result in time" in _page(graded, "endless")
    assert "is not defined" in _page(graded, "syntax-error")
    assert "unanswered" in _page(graded, "blank")


@pytest.mark.parametrize("student", CLASS)
def test_feedback_shows_no_hidden_part(graded: Graded, student: str) -> None:
    page = _page(graded, student)
    assert "HIDDEN TESTS" not in page and "shardgrade" not in page and "grade(" not in page


def test_feedback_leaks_nothing(graded: Graded, tmp_path: Path) -> None:
    # Whoever solved it sees the own answer again.
    for student in set(CLASS) - {"perfect", "partial", "syntax-error"}:
        (tmp_path / student).symlink_to(graded.course / "feedback" / student)
        assert find_leaks(tmp_path / student) == []
    assert find_leaks(graded.course / "feedback" / "perfect")


def test_the_student_package_leaks_nothing(graded: Graded) -> None:
    assert find_leaks(graded.released.package.parent) == []
    assert find_leaks(graded.released.student_notebook.parent) == []
    assert find_leaks(graded.released.source.parent)


def test_the_package_holds_what_a_student_needs_and_no_more(graded: Graded) -> None:
    with zipfile.ZipFile(graded.released.package) as package:
        names = {name.partition("/")[2] for name in package.namelist()}
    wheels = {name for name in names if name.endswith(".whl")}
    assert len(wheels) == 1
    assert names - wheels == {"README.md", "LICENSE", f"blank/{LAB.notebook}"}


def test_the_released_stubs_are_those_of_the_text(graded: Graded) -> None:
    import jupytext

    text = jupytext.read(ROOT / "labs" / f"{LAB.stem}.md")
    released = nbformat.read(graded.released.student_notebook, as_version=4)
    assert [cell.source for cell in released.cells] == [cell.source for cell in text.cells]


@pytest.mark.parametrize("task", LAB.tasks, ids=[task.id for task in LAB.tasks])
def test_every_stub_fails_and_names_its_task(graded: Graded, task: object) -> None:
    released = nbformat.read(graded.released.student_notebook, as_version=4)
    stub = next(cell.source for cell in released.cells if cell.id == task.answer_id)
    names: dict[str, object] = {}
    exec(stub, names)
    function = names[task.function]
    assert function.__doc__
    with pytest.raises(NotImplementedError, match=task.id):
        function(*[None] * function.__code__.co_argcount)
    assert (
        function.__code__.co_varnames[: function.__code__.co_argcount]
        == (reference(task).__code__.co_varnames[: reference(task).__code__.co_argcount])
    )


def test_cells_keep_their_ids(graded: Graded) -> None:
    source, student = (
        json.loads(path.read_text())["cells"]
        for path in (graded.released.source, graded.released.student_notebook)
    )
    assert [cell["id"] for cell in source] == [cell["id"] for cell in student]
    assert len({cell["id"] for cell in source}) == len(source)


def test_there_are_secrets_to_look_for() -> None:
    assert len(secret_lines()) > 20
