"""Write grades as other systems read them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from shardgrade.gradebook import scores
from shardgrade.gradebook.scores import Student, Submission
from shardgrade.gradebook.tables import RESULT, reading, rows
from shardgrade.layout import Layout
from shardgrade.safely import replace_file

Rows = list[list[str]]


def export(layout: Layout, assignment: str, form: str, target: Path) -> list[Path]:
    """Write the grades of ``assignment`` to ``target``; returns the files.

    ``target`` is a file; for Gradescope a folder with one ``STUDENT/results.json`` each.
    """
    with reading(layout) as connection:
        graded = scores.submissions(connection, assignment)
        known = scores.students(connection)
        results: dict[str, list[dict[str, Any]]] = {}
        for row in rows(connection, RESULT, assignment=assignment):
            results.setdefault(row.student, []).append(json.loads(row.result))
    people = {student: known.get(student, Student(student)) for student in graded}
    if form == "gradescope":
        return [
            _write(target / student / "results.json", _gradescope(one, results.get(student, [])))
            for student, one in graded.items()
        ]
    table = TABLES[form](assignment, people, graded)
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([list(map(_inert, row)) for row in table])
    return [_write(target, out.getvalue())]


def _write(path: Path, text: str) -> Path:
    replace_file(path, text.encode())
    return path


def _inert(cell: str) -> str:
    # A name such as =HYPERLINK(…) would be run by the spreadsheet that opens the file.
    return f"'{cell}" if cell[:1] in {"=", "+", "@", "\t", "\r"} else cell


def _points(value: float) -> str:
    return f"{value:.6g}"


def _plain(assignment: str, people: dict[str, Student], graded: dict[str, Submission]) -> Rows:
    cells = list(dict.fromkeys(name for one in graded.values() for name in one.cells))
    head = "assignment student_id last_name first_name email raw_score late_penalty score max_score"
    table = [[*head.split(), *cells]]
    for student, one in graded.items():
        who = people[student]
        given = [_points(one.cells[name].score) if name in one.cells else "" for name in cells]
        values = (one.raw_score, one.penalty, one.score, one.max_score)
        table.append(
            [
                assignment,
                student,
                who.last_name,
                who.first_name,
                who.email,
                *map(_points, values),
                *given,
            ]
        )
    return table


def _canvas(assignment: str, people: dict[str, Student], graded: dict[str, Submission]) -> Rows:
    most = max((one.max_score for one in graded.values()), default=0.0)
    table = [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment],
        ["    Points Possible", "", "", "", "", _points(most)],
    ]
    for student, one in graded.items():
        who = people[student]
        name = f"{who.last_name}, {who.first_name}" if who.last_name else student
        table.append([name, who.lms_user_id, "", student, "", _points(one.score)])
    return table


def _moodle(assignment: str, people: dict[str, Student], graded: dict[str, Submission]) -> Rows:
    head = ["Username", "Full name", "Email address", "Grade", "Maximum grade"]
    return [
        head,
        *(
            [
                student,
                people[student].name,
                people[student].email,
                _points(one.score),
                _points(one.max_score),
            ]
            for student, one in graded.items()
        ),
    ]


TABLES: Final[dict[str, Callable[..., Rows]]] = {
    "csv": _plain,
    "canvas": _canvas,
    "moodle": _moodle,
}
FORMATS: Final = (*TABLES, "gradescope")


def _gradescope(one: Submission, results: list[dict[str, Any]]) -> str:
    told = {cell["grade_id"]: cell for result in results for cell in result["cells"]}
    tests = [
        {
            "name": name,
            "score": cell.score,
            "max_score": cell.of,
            "output": _said(told.get(name.rpartition("/")[2], {})),
            "visibility": "after_published",
        }
        for name, cell in one.cells.items()
    ]
    late = f"Late penalty: {one.penalty:g} points." if one.penalty else ""
    return json.dumps({"score": one.score, "output": late, "tests": tests}, ensure_ascii=False)


def _said(cell: dict[str, Any]) -> str:
    lines = []
    for told in cell.get("feedback", []):
        if "criterion" in told:
            lines.append(f"{told['criterion']}: {told.get('points', 0):g} of {told.get('of', 0):g}")
            if fault := told.get("fault"):
                where = f"{fault['where']}: expected {fault['expected']}, got {fault['got']}"
                lines += [f"  {where}", *([f"  hint: {told['hint']}"] if told.get("hint") else [])]
    if not lines and cell.get("error"):
        lines = str(cell["error"]).strip().splitlines()[-1:]
    return "\n".join(lines)
