"""nbgrader preprocessors of ours: stubs and feedback that name their tasks, without the checks."""

import re
from pathlib import Path
from typing import Any, Final

import nbgrader
from nbconvert.exporters import HTMLExporter
from nbformat.notebooknode import NotebookNode
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade

from shardbook.labs.registry import TASKS

_FORMGRADER: Final = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader"
#: folders of the templates of a feedback page: ours, and nbgrader's, which ours extends
TEMPLATES: Final = [str(Path(__file__).parent / "templates"), str(_FORMGRADER / "templates")]
#: where those look for what they include
INCLUDED: Final = [
    str(_FORMGRADER / "templates"),
    str(_FORMGRADER / "static" / "node_modules" / "bootstrap" / "dist" / "css"),
]


def stub_line(task_id: str) -> str:
    """The statement that stands in a stub instead of the answer."""
    return f'raise NotImplementedError("{task_id}: replace this line with your code")'


class WriteStubs(ClearSolutions):
    """`ClearSolutions`, whose stub raises an error that names the task.

    nbgrader knows one stub text for each language; here each cell has its own.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> Any:
        """Put this cell's own stub in place of its solution."""
        answer_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        task = next((task.id for task in TASKS.values() if task.answer_id == answer_id), answer_id)
        self.code_stub = {**self.code_stub, "python": stub_line(task)}
        return super().preprocess_cell(cell, resources, cell_index)


class HideChecks(ClearHiddenTests):
    """Takes the hidden part out of feedback: grading put it back into the student's notebook.

    The traceback of a grade cell would show it again, so only its last line stays.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> Any:
        """Take the hidden part and the traceback out of a grade cell."""
        if is_grade(cell) and cell.cell_type == "code":
            for output in cell.outputs:
                if output.output_type == "error":
                    output.traceback = [f"{output.ename}: {_without_colour(output.evalue)}"]
        return super().preprocess_cell(cell, resources, cell_index)


class FeedbackPage(HTMLExporter):
    """`HTMLExporter` under a name of its own: nbgrader sets the template of the other one."""


class NameTasks(NbGraderPreprocessor):
    """Gives each cell the title that the links at the top of a feedback page show."""

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> Any:
        """Name the task of a cell of ours; another course's cell has its id only."""
        about = cell.metadata.get("nbgrader")
        if about:
            id = about.get("grade_id", "")
            about.title = next(
                (f"{t.id} {t.title}" for t in TASKS.values() if id in (t.grade_id, t.answer_id)),
                id,
            )
        return cell, resources


def _without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
