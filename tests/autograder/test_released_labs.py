"""Every lab: its stubs fail, its references earn all points, and what students get leaks nothing."""

import inspect
from pathlib import Path

import jupytext
import nbformat
import pytest
from leaks import ROOT, find_leaks
from nbformat.notebooknode import NotebookNode
from shardgrade.checkout import reference, solution_file
from shardgrade.checks.judging import assess
from shardgrade.compose import compose
from shardgrade.release import release

from shardbook.labs.checking import examine
from shardbook.labs.registry import LABS, TASKS, lab_of
from shardbook.labs.tasks import Lab, Task

labs = pytest.mark.parametrize("lab", LABS.values(), ids=LABS.keys())
tasks = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def _text(lab: Lab) -> Path:
    return ROOT / "labs" / f"{lab.stem}.md"


def _source(notebook: NotebookNode, grade_id: str) -> str:
    cells = [
        c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    ]
    assert len(cells) == 1
    return str(cells[0].source)


@tasks
def test_a_stub_earns_nothing_and_names_its_task(task: Task) -> None:
    names: dict[str, object] = {}
    exec(_source(jupytext.read(_text(lab_of(task))), task.answer_id), names)
    stub = names[task.function]
    assert inspect.getdoc(stub)
    assert inspect.signature(stub) == inspect.signature(reference(task))  # type: ignore[arg-type]
    assert examine(task.id, stub).status == "unanswered"
    assert assess(task.id, stub).points == 0
    with pytest.raises(NotImplementedError, match=task.id):
        stub(*[None] * len(inspect.signature(stub).parameters))  # type: ignore[arg-type, operator]


@tasks
def test_a_reference_solution_earns_all_points(task: Task) -> None:
    assert assess(task.id, reference(task)).points == task.points
    assert examine(task.id, reference(task)).status == "passed"


@labs
def test_the_composed_solutions_run_on_their_own(lab: Lab) -> None:
    notebook = compose(lab, _text(lab), solution_file(lab))
    for task in lab.tasks:
        names: dict[str, object] = {}
        exec(_source(notebook, task.answer_id), names)
        assert assess(task.id, names[task.function]).points == task.points


@labs
@pytest.mark.slow
def test_a_student_package_leaks_nothing(lab: Lab, tmp_path: Path) -> None:
    released = release(lab, tmp_path)
    assert find_leaks(released.package.parent) == []
    assert find_leaks(released.student_notebook.parent) == []
    assert find_leaks(released.source.parent)
    texts = [cell.source for cell in jupytext.read(_text(lab)).cells]
    student = nbformat.read(released.student_notebook, as_version=4)
    assert [cell.source for cell in student.cells] == texts
