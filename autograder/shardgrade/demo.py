"""A small synthetic class, graded end to end: `python -m shardgrade.demo`.

Each student is a way of changing the released notebook; all of them are made up.
"""

import copy
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import nbformat
from nbformat.notebooknode import NotebookNode

from shardbook import cli as shell
from shardbook.labs.registry import LABS, lab_named
from shardbook.labs.tasks import Lab
from shardgrade import run
from shardgrade.cli import show_records
from shardgrade.feedback import write_feedback
from shardgrade.grading.result import GradeRequest, grade_many
from shardgrade.layout import open_layout
from shardgrade.release import Release, release
from shardgrade.safely import alone

#: gets the released notebook, its source notebook and the lab; changes the first
Change = Callable[[NotebookNode, NotebookNode, Lab], None]


@dataclass(frozen=True, slots=True)
class Graded:
    """A graded class: the course folder, what was released, one record a student."""

    course: Path
    released: Release
    records: dict[str, run.Record]


def _perfect(notebook: NotebookNode, source: NotebookNode, lab: Lab) -> None:
    solved = {cell.id: cell.source for cell in source.cells}
    for task in lab.tasks:
        lines = [line for line in solved[task.answer_id].splitlines() if "###" not in line]
        _cell(notebook, task.answer_id).source = "\n".join(lines)


def _blank(notebook: NotebookNode, source: NotebookNode, lab: Lab) -> None:
    pass


def _partial(notebook: NotebookNode, source: NotebookNode, lab: Lab) -> None:
    """Right for what is kept, but silent about what is not; talks a lot."""
    _perfect(notebook, source, lab)
    answer = _cell(notebook, LABS["n45"].tasks[0].answer_id)
    answer.source = (
        "import logging, sys, warnings\n"
        "logging.basicConfig()\n"
        + answer.source.replace("bytes_per_parameter", "all_categories")
        + "\n\ndef bytes_per_parameter(kept):\n"
        "    print('kept', kept)\n"
        "    warnings.warn('is this right?')\n"
        "    logging.warning('or this?')\n"
        "    print('hm', file=sys.stderr)\n"
        "    return {name: size for name, size in all_categories(kept).items() if size}"
    )


def _replaced(body: str, tasks: slice = slice(None)) -> Change:
    def change(notebook: NotebookNode, source: NotebookNode, lab: Lab) -> None:
        for task in lab.tasks[tasks]:
            _cell(notebook, task.answer_id).source = f"def {task.function}(*args):\n    {body}"

    return change


def _edited_check(notebook: NotebookNode, source: NotebookNode, lab: Lab) -> None:
    for task in lab.tasks:
        _cell(notebook, task.grade_id).source = f"{task.points}"


def _syntax_error(notebook: NotebookNode, source: NotebookNode, lab: Lab) -> None:
    _perfect(notebook, source, lab)
    _cell(notebook, lab.tasks[0].answer_id).source = "def f(:"


def _cell(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == cell_id)


CLASS: Final[dict[str, Change]] = {
    "perfect": _perfect,
    "blank": _blank,
    "partial": _partial,
    "wrong": _replaced("return 16"),
    "endless": _replaced("while True: pass", slice(1)),
    "raises": _replaced("raise KeyError('momentum')"),
    "edited-check": _edited_check,
    "syntax-error": _syntax_error,
}


def grade_class(lab: Lab, course: Path, students: dict[str, Change] | None = None) -> Graded:
    """Release ``lab`` into ``course``, hand in for each student, grade, write feedback."""
    released = release(lab, course)
    blank = nbformat.read(released.student_notebook, as_version=4)
    source = nbformat.read(released.source, as_version=4)
    for student, change in (CLASS if students is None else students).items():
        notebook = copy.deepcopy(blank)
        change(notebook, source, lab)
        target = course / "submitted" / student / lab.id / lab.notebook
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)
    layout = open_layout(course)
    with alone(layout):
        planned = run.plan(layout, lab.id, GradeRequest("", lab.id, course, released.source))
        run.grade(layout, lab.id, planned, grade_many, lambda result, progress: None)
    write_feedback(layout, lab.id)
    return Graded(course, released, {one.student: one for one in run.records(layout, lab.id)})


@click.command()
@click.argument("lab", default="n45")
def main(lab: str) -> None:
    """Grade the made-up class in a temporary course and show the table."""
    course = Path(tempfile.gettempdir()) / "shardbook-grade-demo"
    shutil.rmtree(course, ignore_errors=True)
    graded = grade_class(lab_named(lab), course)
    show_records(list(graded.records.values()), lab_named(lab))
    click.echo(f"Feedback: {course / 'feedback'}/STUDENT/{lab}/{lab_named(lab).stem}.html")


if __name__ == "__main__":
    shell.run(main, "shardgrade.demo")
