"""Record graded submissions in nbgrader's gradebook, each in one transaction.

nbgrader's own methods commit one by one, so that a kill between two of them leaves half a grade:
here its models are used in a session of ours. What people put in (manual scores, extra credit,
comments) is never touched.
"""

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat.notebooknode import NotebookNode
from nbgrader import api, utils
from sqlalchemy import delete
from sqlalchemy.orm import Session

from shardgrade import late
from shardgrade.gradebook.tables import RESULT, closing_engine, make_tables, many_commits
from shardgrade.grading.result import SubmissionResult
from shardgrade.layout import Layout
from shardgrade.safely import replace_file


class Writer:
    """The one writer of ``assignment``'s grades; hold the course's lock while it is used."""

    def __init__(self, layout: Layout, assignment: str, session: Session) -> None:
        self._layout = layout
        self._assignment = assignment
        self._session = session
        self._released = {
            path.stem: _cells(layout.folder("release", ".", assignment) / path.name)
            for path in layout.notebooks(assignment)
        }

    def record(self, result: SubmissionResult, notebook: str) -> None:
        """Put the graded file into place, then record grades, comments, penalty and hash."""
        graded = self._layout.folder("autograded", result.student, self._assignment)
        submitted = self._layout.folder("submitted", result.student, self._assignment)
        sha256 = replace_file(graded / f"{notebook}.ipynb", result.notebook.encode())
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            replace_file(graded / "timestamp.txt", (submitted / "timestamp.txt").read_bytes())
        with self._session.begin():
            submission = self._submission(result.student, timestamp_of(submitted))
            mine = next(one for one in submission.notebooks if one.notebook.name == notebook)
            self._grade(mine, result, nbformat.reads(result.notebook, as_version=4))
            self._session.flush()
            connection = self._session.connection()
            kept = dataclasses.replace(result, notebook="")  # it is in the file
            key = {"student": result.student, "assignment": self._assignment, "notebook": notebook}
            connection.execute(delete(RESULT).filter_by(**key))
            connection.execute(
                RESULT.insert().values(
                    **key, digest=result.digest, sha256=sha256, result=kept.to_json()
                )
            )
            late.apply(connection, self._assignment, result.student)

    def _submission(self, student_id: str, timestamp: datetime | None) -> Any:
        session = self._session
        assignment = session.query(api.Assignment).filter_by(name=self._assignment).one()
        if session.get(api.Student, student_id) is None:
            session.add(api.Student(id=student_id))
            session.flush()
        wanted = {"assignment_id": assignment.id, "student_id": student_id}
        submission = session.query(api.SubmittedAssignment).filter_by(**wanted).one_or_none()
        if submission is None:
            submission = api.SubmittedAssignment(**wanted)
            session.add(submission)
            session.flush()
        submission.timestamp = timestamp
        there = {notebook.notebook_id for notebook in submission.notebooks}
        for notebook in assignment.notebooks:
            if notebook.id not in there:
                session.add(
                    api.SubmittedNotebook(assignment_id=submission.id, notebook_id=notebook.id)
                )
        session.flush()
        session.refresh(submission)
        return submission

    def _grade(self, submitted: Any, result: SubmissionResult, graded: NotebookNode) -> None:
        points = {cell.grade_id: cell.points for cell in result.cells}
        answers = {_grade_id(cell): cell for cell in graded.cells if _grade_id(cell)}
        # nbgrader keeps the handed-out text of a cell too, where the release folder is gone.
        stubs = {cell.name: cell.source for cell in submitted.notebook.source_cells}
        stubs |= self._released[submitted.notebook.name]
        grades = {grade.cell_id: grade for grade in submitted.grades}
        comments = {comment.cell_id: comment for comment in submitted.comments}
        for cell in _graded_cells(submitted.notebook):
            answer = answers.get(cell.name)
            # An answer that is empty, as in a notebook that was not handed in, is none either.
            untouched = answer is not None and answer.source in ("", stubs.get(cell.name))
            if isinstance(cell, (api.GradeCell, api.TaskCell)):
                grade = grades.get(cell.id)
                if grade is None:
                    grade = api.Grade(cell_id=cell.id, notebook_id=submitted.id)
                    self._session.add(grade)
                    grade.auto_score = None
                score: float | None = points.get(cell.name, 0.0)
                if answer is not None and not _is_automatic(answer):
                    score = 0.0 if untouched and not utils.is_task(answer) else None
                _set(grade, score)
            if isinstance(cell, (api.SolutionCell, api.TaskCell)):
                comment = comments.get(cell.id)
                if comment is None:
                    comment = api.Comment(cell_id=cell.id, notebook_id=submitted.id)
                    self._session.add(comment)
                silent = untouched and isinstance(cell, api.SolutionCell)
                comment.auto_comment = "No response." if silent else None


def _set(grade: Any, score: float | None) -> None:
    # A person's score stays; they should look again only where the grader changed its mind.
    changed = grade.auto_score != score
    if grade.manual_score is None:
        grade.needs_manual_grade = score is None
    elif changed:
        grade.needs_manual_grade = True
    elif grade.needs_manual_grade is None:
        grade.needs_manual_grade = False
    grade.auto_score = score


def timestamp_of(submitted: Path) -> datetime | None:
    """When a submission was handed in (UTC), if its folder says so in nbgrader's way."""
    try:
        text = (submitted / "timestamp.txt").read_text(encoding="utf-8").strip()
        # nbgrader itself takes the zone +0200 for 200 seconds.
        iso = re.sub(r" ([+-]\d\d:?\d\d)$", r"\1", text.removesuffix(" UTC"))
        return utils.parse_utc(datetime.fromisoformat(iso))
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def writer(layout: Layout, assignment: str) -> Iterator[Writer]:
    """Open the gradebook for recording, with the assignment's cells as the source has them."""
    with many_commits(layout), closing_engine(layout) as engine:
        make_tables(layout, engine)
        with Session(engine) as session:
            with session.begin():
                _sync(session, layout, assignment)
            yield Writer(layout, assignment, session)


def sync(layout: Layout, assignment: str) -> None:
    """Make the gradebook's cells of ``assignment`` those of its source."""
    with writer(layout, assignment):
        pass


def _sync(session: Session, layout: Layout, name: str) -> None:
    assignment = session.query(api.Assignment).filter_by(name=name).one_or_none()
    if assignment is None:
        assignment = api.Assignment(name=name, course_id=layout.course_id)
        session.add(assignment)
        session.flush()
    known = {notebook.name: notebook for notebook in assignment.notebooks}
    for gone in known.keys() - {path.stem for path in layout.notebooks(name)}:
        _remove(session, known[gone])
        session.execute(delete(RESULT).filter_by(assignment=name, notebook=gone))
    for path in layout.notebooks(name):
        notebook = known.get(path.stem)
        source = nbformat.read(path, as_version=4)
        if notebook is None:
            notebook = api.Notebook(name=path.stem, assignment_id=assignment.id)
            session.add(notebook)
            session.flush()
        _sync_cells(session, notebook, source)


def _sync_cells(session: Session, notebook: Any, source: NotebookNode) -> None:
    wanted: dict[tuple[str, type], NotebookNode] = {}
    for cell in source.cells:
        name = _grade_id(cell)
        kinds = {
            api.GradeCell: utils.is_grade(cell),
            api.SolutionCell: utils.is_solution(cell),
            api.TaskCell: utils.is_task(cell),
            api.SourceCell: any(
                (utils.is_grade(cell), utils.is_solution(cell), utils.is_locked(cell))
            )
            or utils.is_task(cell),
        }
        wanted |= {(name, kind): cell for kind, is_one in kinds.items() if is_one}
    there = {(cell.name, type(cell)): cell for cell in _graded_cells(notebook)}
    there |= {(cell.name, api.SourceCell): cell for cell in notebook.source_cells}
    for key, old in there.items():
        if key not in wanted:
            _remove_cell(session, old)
    for (name, kind), cell in wanted.items():
        row = there.get((name, kind))
        if row is None:
            row = kind(name=name, notebook_id=notebook.id)
            if kind is api.SourceCell:
                row.cell_type = cell.cell_type
                row.locked = utils.is_locked(cell)
                row.source = cell.source if row.locked else None
            session.add(row)
        if kind in (api.GradeCell, api.TaskCell):
            row.max_score = float(cell.metadata.nbgrader["points"])
            row.cell_type = cell.cell_type
    session.flush()
    session.expire(notebook)


def _remove(session: Session, notebook: Any) -> None:
    for cell in [*_graded_cells(notebook), *notebook.source_cells]:
        _remove_cell(session, cell)
    for submitted in notebook.submissions:
        session.delete(submitted)
    session.flush()
    session.delete(notebook)


def _remove_cell(session: Session, cell: Any) -> None:
    for entry in [*getattr(cell, "grades", []), *getattr(cell, "comments", [])]:
        session.delete(entry)
    session.flush()
    session.delete(cell)


def _graded_cells(notebook: Any) -> list[Any]:
    return [*notebook.grade_cells, *notebook.solution_cells, *notebook.task_cells]


def _is_automatic(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and not utils.is_solution(cell) and not utils.is_task(cell)


def _grade_id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _cells(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    return {_grade_id(cell): cell.source for cell in nbformat.read(path, as_version=4).cells}
