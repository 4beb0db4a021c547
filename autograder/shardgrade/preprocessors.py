"""nbgrader preprocessors of ours: stubs that name their task, feedback without the checks."""

import re
from typing import Any

from nbformat.notebooknode import NotebookNode
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions
from nbgrader.utils import is_grade

from shardbook.labs.registry import TASKS


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


def _without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
