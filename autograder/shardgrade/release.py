"""Release a lab: nbgrader's source notebook, the student version, and the package to hand out."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nbformat

from shardbook.labs.tasks import Lab
from shardgrade import checkout, course, version
from shardgrade.compose import compose
from shardgrade.course import GraderError
from shardgrade.gradebook import scores
from shardgrade.gradebook.backup import backup
from shardgrade.gradebook.tables import reading
from shardgrade.layout import open_layout
from shardgrade.safely import alone

_README: Final = """\
# Lab {id}: {title}

About {minutes} minutes, {points:g} points. You need Python 3.11 or newer.

    python3 -m venv .venv
    .venv/bin/pip install "{wheel}[notebook]"
    .venv/bin/shardbook lab start {id}
    .venv/bin/jupyter lab {notebook}

On Windows write `.venv\\Scripts` for `.venv/bin`. Then, as often as you like:

    .venv/bin/shardbook lab check {id}

and at the end, to write the file to hand in:

    .venv/bin/shardbook lab pack {id}

If something doesn't start, `.venv/bin/shardbook lab doctor` tells what is missing.
"""


@dataclass(frozen=True, slots=True)
class Release:
    """Where a release's files lie."""

    source: Path
    student_notebook: Path
    package: Path


def release(lab: Lab, folder: Path) -> Release:
    """Write the lab's source, student version and package into the course ``folder``.

    Raises:
        GraderError: nbgrader refused the notebook.
    """
    root = checkout.root()
    text = root / "labs" / f"{lab.stem}.md"
    notebook = compose(lab, text, checkout.solution_file(lab))
    course.prepare(folder)
    source = folder / "source" / lab.id / lab.notebook
    source.parent.mkdir(parents=True, exist_ok=True)
    notebook.metadata |= version.stamp(notebook.cells, lab.id)
    nbformat.write(notebook, source)
    _sync_graded(folder, lab)
    result = course.nbgrader(folder).generate_assignment(lab.id)
    if not result["success"]:
        raise GraderError(result.get("log", result["error"]))
    student = folder / "release" / lab.id / lab.notebook
    package = folder / "packages" / f"{lab.id}-student.zip"
    package.parent.mkdir(parents=True, exist_ok=True)
    _write_package(lab, root, student, package)
    return Release(source, student, package)


def _sync_graded(folder: Path, lab: Lab) -> None:
    """Bring a gradebook with submissions to the new cells: nbgrader refuses to add or remove any."""
    layout = open_layout(folder)
    with alone(layout), reading(layout) as connection:
        graded = bool(scores.submissions(connection, lab.id))
    if graded:
        from shardgrade.gradebook.writer import sync

        with alone(layout):
            backup(layout, f"release-{lab.id}")
            sync(layout, lab.id)


def _write_package(lab: Lab, root: Path, student: Path, package: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        wheel = _build_wheel(root, Path(temporary))
        readme = _README.format(
            id=lab.id,
            title=lab.title,
            minutes=lab.minutes,
            points=lab.points,
            wheel=wheel.name,
            notebook=lab.notebook,
        )
        top = f"{lab.id}-student"
        partial = Path(temporary) / package.name
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{top}/README.md", readme)
            archive.write(root / "LICENSE", f"{top}/LICENSE")
            archive.write(wheel, f"{top}/{wheel.name}")
            archive.write(student, f"{top}/blank/{lab.notebook}")
        shutil.move(partial, package)


def _build_wheel(root: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GraderError(f"the engine's wheel can't be built: {done.stderr.strip()}")
    return next(folder.glob("*.whl"))
