"""Compose a lab's text, its solutions and its hidden checks into nbgrader's source notebook."""

import ast
import textwrap
from pathlib import Path

import jupytext
import nbformat
from nbformat.notebooknode import NotebookNode

from shardbook.errors import InputError
from shardbook.labs.tasks import Lab, Task


def compose(lab: Lab, text: Path, solutions: Path) -> NotebookNode:
    """Return the source notebook of ``lab``.

    ``text`` is the lab's notebook in MyST, with the stubs; ``solutions`` the module whose function
    bodies take the stubs' places.

    Raises:
        InputError: a task has not exactly one answer cell and one check cell, or other points.
    """
    notebook = nbformat.v4.upgrade(jupytext.read(text))
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec}
    bodies = _bodies(solutions)
    cells: dict[str, list[NotebookNode]] = {}
    for number, cell in enumerate(notebook.cells, start=1):
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        cell["id"] = name or f"{lab.id}-cell-{number}"
        cells.setdefault(name, []).append(cell)
    for task in lab.tasks:
        answer = _only(cells, task.answer_id, text)
        answer.source = _with_solution(task, answer.source, bodies[task.function])
        check = _only(cells, task.grade_id, text)
        if check.metadata.nbgrader.points != task.points:
            raise InputError(f"points of {task.id}", check.metadata.nbgrader.points, "see LABS")
        check.source += _hidden(task)
    return notebook


def _only(cells: dict[str, list[NotebookNode]], grade_id: str, text: Path) -> NotebookNode:
    found = cells.get(grade_id, [])
    if len(found) != 1:
        raise InputError("lab", str(text), f"one cell {grade_id} is needed, not {len(found)}")
    return found[0]


def _hidden(task: Task) -> str:
    return (
        "\n### BEGIN HIDDEN TESTS\n"
        "from shardgrade.checks import grade\n"
        f'grade("{task.id}", {task.function})\n'
        "### END HIDDEN TESTS"
    )


def _with_solution(task: Task, stub: str, body: str) -> str:
    lines = stub.splitlines()
    function = next(
        node
        for node in ast.parse(stub).body
        if isinstance(node, ast.FunctionDef) and node.name == task.function
    )
    head = lines[: function.body[-1].lineno - 1]
    inside = ["### BEGIN SOLUTION", *body.splitlines(), "### END SOLUTION"]
    return "\n".join([*head, *textwrap.indent("\n".join(inside), "    ").splitlines()])


def _bodies(solutions: Path) -> dict[str, str]:
    """Function name → the lines of its body behind the docstring, not indented."""
    source = solutions.read_text(encoding="utf-8")
    lines = source.splitlines()
    bodies = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            first = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
            bodies[node.name] = textwrap.dedent("\n".join(lines[first : node.end_lineno]))
    return bodies
