"""A student's folder: start a lab, run the answers outside Jupyter, pack what is handed in.

Notebooks are read as the JSON they are, so that this needs nothing that the engine does not.
"""

import ast
import functools
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shardbook import __version__
from shardbook.errors import InputError
from shardbook.labs.calls import Calls, describe_error
from shardbook.labs.checking import Report, examine
from shardbook.labs.tasks import Lab

_SECONDS_EACH: Final = 30.0


def start(lab: Lab, folder: Path, source: Path | None = None, *, force: bool = False) -> Path:
    """Write the lab's blank notebook into ``folder``; never over a student's work without ``force``.

    ``source`` is a student package (zip or folder) or a notebook; without it a package in the
    folder is taken, else the text of the lab in a checkout above it.

    Raises:
        InputError: the notebook is there already, or no blank one is found.
    """
    target = folder / lab.notebook
    if target.exists() and not force:
        raise InputError("notebook", str(target), "it holds your work; add --force to overwrite it")
    blank = _blank(lab, folder, source)
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".part")
    partial.write_text(blank, encoding="utf-8")
    partial.replace(target)
    return target


def _blank(lab: Lab, folder: Path, source: Path | None) -> str:
    inside = f"blank/{lab.notebook}"
    for place in [source] if source else [folder, folder / f"{lab.id}-student.zip"]:
        if place.is_dir() and (place / inside).is_file():
            return (place / inside).read_text(encoding="utf-8")
        if place.is_file() and zipfile.is_zipfile(place):
            with zipfile.ZipFile(place) as package:
                names = [name for name in package.namelist() if name.endswith(inside)]
                if names:
                    return package.read(names[0]).decode("utf-8")
    if source is None:
        for above in [folder.resolve(), *folder.resolve().parents]:
            text = above / "labs" / f"{lab.stem}.md"
            if text.is_file():
                return _from_text(text)
    allowed = (
        f"there is no blank {lab.notebook}: run this in the course's checkout or in an unpacked "
        f"student package, or name the package, --from {lab.id}-student.zip"
    )
    raise InputError("folder", str(source or folder), allowed)


def _from_text(text: Path) -> str:
    try:
        import jupytext  # type: ignore[import-untyped]
    except ImportError:
        allowed = "a lab's text needs jupytext: pip install jupytext, or use the student package"
        raise InputError("lab", str(text), allowed) from None
    notebook: str = jupytext.writes(jupytext.read(text), fmt="ipynb")
    return notebook


@dataclass(frozen=True, slots=True)
class Answers:
    """The names that a notebook's cells define, and the cells that failed (cell's id: error)."""

    names: dict[str, Any]
    failed: tuple[str, ...]


def run_answers(notebook: Path) -> Answers:
    """Run the notebook's code cells, the checks left out, each for at most 30 s."""
    names: dict[str, Any] = {"__name__": "__main__"}
    failed = []
    for label, code in _code_cells(notebook):
        try:
            program = compile(code, label, "exec")
        except (SyntaxError, ValueError) as error:
            failed.append(f"{label}: {describe_error(error)}")
            continue
        run = functools.partial(exec, program, names)
        outcome = Calls(_SECONDS_EACH, _SECONDS_EACH).run(run)
        if outcome.fault:
            failed.append(f"{label}: {outcome.fault.got}")
    return Answers(names, tuple(failed))


def _code_cells(notebook: Path) -> Iterator[tuple[str, str]]:
    for number, cell in enumerate(read_notebook(notebook)["cells"], start=1):
        metadata = cell.get("metadata", {}).get("nbgrader", {})
        if cell.get("cell_type") != "code" or metadata.get("grade"):
            continue
        source = cell.get("source", "")
        lines = (source if isinstance(source, str) else "".join(source)).splitlines()
        # IPython's commands mean nothing here.
        kept = ["" if line.startswith(("%", "!")) else line for line in lines]
        yield metadata.get("grade_id") or f"cell {number}", "\n".join(kept)


def read_notebook(path: Path) -> dict[str, Any]:
    """Read a notebook of format 4; `InputError` if it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content["cells"], list):
            raise TypeError
    except FileNotFoundError:
        allowed = "there is no such file; `shardbook lab start LAB` makes a working copy"
        raise InputError("notebook", str(path), allowed) from None
    except OSError as error:
        raise InputError("notebook", str(path), error.strerror or "it can't be read") from None
    except (ValueError, KeyError, TypeError):
        raise InputError("notebook", str(path), "it is not a Jupyter notebook") from None
    return dict(content)


def check_notebook(lab: Lab, notebook: Path) -> tuple[list[Report], tuple[str, ...]]:
    """Check every task's function of ``notebook``; also returns the cells that failed."""
    answers = run_answers(notebook)
    reports = [examine(task.id, answers.names.get(task.function)) for task in lab.tasks]
    return reports, answers.failed


def unanswered(lab: Lab, notebook: Path) -> list[str]:
    """The ids of the tasks whose cell is missing, is still the stub, or defines no such function."""
    cells = dict(_code_cells(notebook))
    return [task.id for task in lab.tasks if not _answers(cells, task.answer_id, task.function)]


def _answers(cells: dict[str, str], cell: str, function: str) -> bool:
    try:
        tree = ast.parse(cells.get(cell, ""))
    except SyntaxError:
        return True  # wrong, but an attempt
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return not isinstance(node.body[-1], ast.Raise)
    return False


def pack(lab: Lab, notebook: Path, target: Path) -> list[str]:
    """Write the file to hand in (a zip) and return the ids of the unanswered tasks."""
    missing = unanswered(lab, notebook)
    about = {"lab": lab.id, "shardbook": __version__, "unanswered": missing}
    partial = target.with_suffix(".part")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as package:
        package.write(notebook, lab.notebook)
        package.writestr("pack.json", json.dumps(about))
    shutil.move(partial, target)
    return missing
