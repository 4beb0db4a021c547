"""A small made-up course, and a grader that reads the points from the submission itself.

What is tested here is everything around the execution; that has tests of its own.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat
from shardgrade import run
from shardgrade.grading.result import CellResult, GradeRequest, SubmissionResult
from shardgrade.layout import Layout, open_layout

NAME = "hw"
TASKS = {"t1": 4.0, "t2": 6.0}
ESSAY = {"essay": 5.0}


def notebook(cells: dict[str, str], metadata: dict[str, Any] | None = None) -> str:
    """A notebook whose cells are named by grade id; ``essay`` is one for a person."""
    made = []
    for name, source in cells.items():
        graded = name in TASKS or name in ESSAY
        solution = name.endswith("-solution") or name in ESSAY
        cell = {
            "grade_id": name,
            "grade": graded,
            "solution": solution,
            "locked": graded and not solution,
            "schema_version": 3,
            "task": False,
        }
        if graded:
            cell["points"] = {**TASKS, **ESSAY}[name]
        new = nbformat.v4.new_markdown_cell if name in ESSAY else nbformat.v4.new_code_cell
        made.append(new(source, id=name, metadata={"nbgrader": cell}))
    content = nbformat.v4.new_notebook(cells=made, metadata=metadata or {})
    return str(nbformat.writes(content))


def cells(points: dict[str, float], essay: str = "Write here.", **extra: str) -> dict[str, str]:
    """The cells of a submission that earns ``points``."""
    made = {}
    for task in TASKS:
        made[f"{task}-solution"] = f"{task} = {points.get(task, 0)}\n"
        made[task] = f"{task}"
    return {**made, "essay": essay, **extra}


def make(root: Path, points: dict[str, dict[str, float]]) -> Layout:
    """A course with one assignment, which the students of ``points`` have handed in."""
    for step in ("source", "release"):
        write(root / step / NAME / "hw.ipynb", notebook(cells({})))
    layout = open_layout(root)
    for student, earned in points.items():
        hand_in(layout, student, earned)
    return layout


def hand_in(layout: Layout, student: str, points: dict[str, float], **changes: str) -> Path:
    path = layout.folder("submitted", student, NAME) / "hw.ipynb"
    write(path, notebook(cells(points, **changes)))
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def digest_of(request: GradeRequest) -> str:
    """Of the submission and the source, as the real one (which looks at more)."""
    whole = hashlib.sha256(request.source_path.read_bytes())
    path = request.submission_path
    for file in sorted(path.glob("*.ipynb")) if path.is_dir() else [path]:
        whole.update(file.read_bytes())
    return whole.hexdigest()


def execute(requests: Iterable[GradeRequest]) -> Iterator[SubmissionResult]:
    return map(graded, requests)


def graded(request: GradeRequest) -> SubmissionResult:
    path = request.submission_path
    path = path / request.source_path.name if path.is_dir() else path
    text = path.read_text()
    names: dict[str, float] = {}
    for cell in json.loads(text)["cells"]:
        if cell["metadata"]["nbgrader"]["grade_id"].endswith("-solution"):
            exec("".join(cell["source"]), names)
    source = json.loads(request.source_path.read_text())["cells"]
    wanted = {
        cell["metadata"]["nbgrader"]["grade_id"]: cell["metadata"]["nbgrader"]["points"]
        for cell in source
        if cell["metadata"]["nbgrader"]["grade"] and cell["cell_type"] == "code"
    }
    results = tuple(_cell(name, names.get(name, 0.0), of) for name, of in wanted.items())
    return SubmissionResult(
        request.student,
        request.assignment,
        text,
        results,
        (),
        tuple(f"{c.grade_id}: nothing" for c in results if c.points == 0),
        0.01,
        "none",
        digest_of(request),
    )


def _cell(name: str, points: float, of: float) -> CellResult:
    missed = points < of
    fault = {"where": "result", "expected": "a number", "got": f"{points:g}"} if missed else None
    told = {"criterion": f"all of {name}", "points": points, "of": of}
    return CellResult(name, points, of, [{**told, "fault": fault, "hint": "look again"}])


def grade(layout: Layout, name: str = NAME) -> run.Progress:
    """Grade as the command does, with the made-up execution."""
    nothing = GradeRequest("", "", Path(), Path())
    planned = run.plan(layout, name, nothing)
    return run.grade(layout, name, planned, execute, lambda result, progress: None)


def tables(layout: Layout) -> dict[str, list[str]]:
    """All that the gradebook says, without the random ids: what two gradebooks are compared by."""
    from shardgrade.gradebook import scores
    from shardgrade.gradebook.tables import RESULT, reading, rows

    with reading(layout) as connection:
        found = scores.submissions(connection, NAME)
        results = rows(connection, RESULT, assignment=NAME)
        students = scores.students(connection)
        counted = {
            table.name: connection.execute(table.select()).fetchall()
            for table in (scores.SUBMISSION, scores.SUBMITTED, scores.GRADE, scores.COMMENT)
        }
    return {
        "scores": [f"{one}" for one in found.values()],
        "results": sorted(f"{row}" for row in results),
        "students": [f"{one}" for one in students.values()],
        **{name: [str(len(some))] for name, some in counted.items()},
    }
