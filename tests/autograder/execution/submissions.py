"""Made-up submissions to lab n45, and to a small ordinary course, graded here and nowhere else."""

import copy
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from shardgrade import checkout
from shardgrade.compose import compose
from shardgrade.grading.result import GradeRequest, SubmissionResult, grade_many
from shardgrade.sandbox.limits import Limits

from shardbook.labs.registry import LABS

LAB = LABS["n45"]
LIMITS = Limits(cell_seconds=5.0, seconds=40.0, memory=512 * 1024**2, files=4_000_000)


def source_notebook() -> dict[str, Any]:
    """The lab's source notebook, solutions and hidden tests included."""
    text = checkout.root() / "labs" / f"{LAB.stem}.md"
    return json.loads(nbformat.writes(compose(LAB, text, checkout.solution_file(LAB))))


def text_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def handed_in(source: dict[str, Any], *, solved: bool = True) -> dict[str, Any]:
    """What a student hands in: everything right, or the blank notebook."""
    notebook = copy.deepcopy(source)
    for cell in notebook["cells"]:
        lines, kept, inside = text_of(cell).splitlines(), [], False
        for line in lines:
            mark = line.strip()
            if mark.startswith(("### BEGIN", "### END")):
                inside = mark.startswith("### BEGIN")
                solution = "SOLUTION" in mark
                if inside and solution and not solved:
                    indent = line[: len(line) - len(line.lstrip())]
                    kept.append(f"{indent}raise NotImplementedError('yours')")
            elif not inside or (solution and solved):
                kept.append(line)
        cell["source"] = "\n".join(kept)
    return notebook


def write_source(folder: Path, notebook: dict[str, Any], name: str, assignment: str) -> Path:
    path = folder / "source" / assignment / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))
    return path


def cell_of(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """The cell with this grade id."""
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name:
            return cell
    raise LookupError(name)


def code_cell(source: str, **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": metadata,
        "outputs": [],
        "source": source,
    }


def graded(name: str, source: str, points: float, **more: Any) -> dict[str, Any]:
    """A test cell of an ordinary nbgrader course."""
    settings = {"grade": True, "solution": False, "locked": True, "schema_version": 3}
    return code_cell(source, nbgrader={**settings, "grade_id": name, "points": points}, **more)


def answer(name: str, source: str) -> dict[str, Any]:
    """An answer cell of an ordinary nbgrader course."""
    settings = {"grade": False, "solution": True, "locked": False, "schema_version": 3}
    return code_cell(source, nbgrader={**settings, "grade_id": name})


def notebook_of(*cells: dict[str, Any]) -> dict[str, Any]:
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    numbered = [{**cell, "id": f"c{number}"} for number, cell in enumerate(cells)]
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel},
        "cells": numbered,
    }


def grade_all(requests: Iterable[GradeRequest], workers: int = 2) -> dict[str, SubmissionResult]:
    return {result.student: result for result in grade_many(requests, workers)}


def grade_one(
    folder: Path,
    source: dict[str, Any],
    submission: dict[str, Any],
    *,
    isolation: str = "auto",
    limits: Limits = LIMITS,
    assignment: str = "ps1",
) -> SubmissionResult:
    """Grade one submission of an ordinary course."""
    path = write_source(folder, source, "ps.ipynb", assignment)
    handed = folder / "submitted" / "ann" / assignment / "ps.ipynb"
    handed.parent.mkdir(parents=True, exist_ok=True)
    handed.write_text(json.dumps(submission))
    request = GradeRequest("ann", assignment, handed.parent, path, limits=limits)
    request = replace(request, isolation=isolation)
    return grade_all([request], 1)["ann"]
