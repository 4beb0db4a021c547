"""Find and read a submitted notebook, whatever its name, format and encoding."""

import json
from pathlib import Path
from typing import Any, Final

Cell = dict[str, Any]

_LARGEST: Final = 64 * 1024**2
_SKIPPED_FOLDERS: Final = (".ipynb_checkpoints", "__pycache__", ".git")


class Unreadable(Exception):
    """A submission that is no notebook; the text says why."""


def settings_of(cell: Cell) -> dict[str, Any]:
    """The nbgrader settings of a cell; empty if it has none."""
    metadata = cell.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def read_source(path: Path) -> dict[str, Any]:
    """Read the instructor's notebook, with its cells' sources as text."""
    notebook, _ = _parse(path.read_bytes())
    return notebook


def find_notebook(path: Path, source: Path) -> tuple[Path, list[str]]:
    """The submitted notebook at ``path`` (a file, or a folder that holds it), and what was odd.

    Raises:
        Unreadable: there is none.
    """
    if path.is_file():
        odd = path.name != source.name
        return path, [f"the file was named {path.name}"] if odd else []
    if not path.is_dir():
        raise Unreadable("no notebook was handed in")
    expected = path / source.name
    if expected.is_file():
        return expected, []
    if expected.is_dir():
        expected_files = [file for file in expected.glob("*.ipynb") if file.is_file()]
        if len(expected_files) != 1:
            raise Unreadable(f"{source.name} is a folder")
        return expected_files[0], [f"{source.name} was a folder; its notebook was taken"]
    found = sorted(file for file in path.rglob("*.ipynb") if file.is_file())
    found = [file for file in found if ".ipynb_checkpoints" not in file.parts]
    if not found:
        raise Unreadable("no notebook was handed in")
    if len(found) > 1:
        known = {settings_of(cell).get("grade_id") for cell in read_source(source)["cells"]}
        found.sort(key=lambda file: -_overlap(file, known))
    return found[0], [f"the file was named {found[0].name}"]


def _overlap(file: Path, known: set[Any]) -> int:
    try:
        cells = _parse(file.read_bytes())[0]["cells"]
    except Unreadable:
        return -1
    return len(known & {settings_of(cell).get("grade_id") for cell in cells})


def read_submission(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Read a notebook of any format and encoding.

    Raises:
        Unreadable: it is none.
    """
    try:
        if path.is_symlink():
            raise Unreadable("the file is a link, which may lead to somebody else's")
        if path.stat().st_size > _LARGEST:
            raise Unreadable("the file is too large")
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"the file can't be read: {error.strerror}") from None
    return _parse(data)


def _parse(data: bytes) -> tuple[dict[str, Any], list[str]]:
    notices = []
    if not data.strip():
        raise Unreadable("the file is empty")
    encoding = "utf-8-sig"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
        notices.append("the file was UTF-16")
    try:
        notebook = json.loads(data.decode(encoding))
    except UnicodeDecodeError:
        raise Unreadable("the file is no text") from None
    except (ValueError, RecursionError):
        raise Unreadable("the file is no valid JSON") from None
    if not isinstance(notebook, dict):
        raise Unreadable("the file is not a Jupyter notebook")
    if notebook.get("nbformat", 4) != 4 or "cells" not in notebook:
        notebook = _upgrade(notebook)
        notices.append("the notebook had an old format")
    if not isinstance(notebook.get("cells"), list):
        raise Unreadable("the file is not a Jupyter notebook")
    cells = [_tidy(cell) for cell in notebook["cells"] if isinstance(cell, dict)]
    if any("\r" in cell["source"] for cell in cells):
        notices.append("the lines had the line ends of Windows")
    for cell in cells:
        cell["source"] = cell["source"].replace("\r\n", "\n").replace("\r", "\n")
    return {**notebook, "cells": cells}, notices


def _upgrade(notebook: dict[str, Any]) -> dict[str, Any]:
    import nbformat as library

    nbformat: Any = library
    try:
        version = notebook.get("nbformat")
        if type(version) is not int or not 1 <= version <= 4:
            raise Unreadable("the file is not a Jupyter notebook")
        made = nbformat.convert(nbformat.from_dict(notebook), 4)
        upgraded: dict[str, Any] = json.loads(json.dumps(made))
    except Unreadable:
        raise
    except Exception:  # nbformat meets junk with errors of any class
        raise Unreadable("the file is not a Jupyter notebook") from None
    return upgraded


def _tidy(cell: Cell) -> Cell:
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    metadata = cell.get("metadata")
    made = {
        "cell_type": cell.get("cell_type") if cell.get("cell_type") in _KINDS else "raw",
        "metadata": metadata if isinstance(metadata, dict) else {},
        "source": source if isinstance(source, str) else "",
    }
    if isinstance(cell.get("id"), str):
        made["id"] = cell["id"]
    if made["cell_type"] == "code":
        made |= {"execution_count": None, "outputs": []}
    elif isinstance(cell.get("attachments"), dict):
        made["attachments"] = cell["attachments"]
    return made


_KINDS: Final = ("code", "markdown", "raw")


def supporting_files(submission: Path, notebook: Path, source: Path, left: int) -> dict[str, bytes]:
    """The files beside the notebooks: the student's, and over them the assignment's.

    ``notebook`` was found at ``submission``; no more than ``left`` bytes are taken.
    """
    found: dict[str, bytes] = {}
    for folder in (notebook.parent, source.parent):
        if folder == notebook.parent and submission.is_file():
            continue  # what else lies there is not known to belong to it
        for file in sorted(folder.rglob("*")):
            inner = file.relative_to(folder)
            skipped = set(inner.parts) & set(_SKIPPED_FOLDERS) or file.suffix == ".ipynb"
            if skipped or file.is_symlink() or not file.is_file():
                continue
            left -= file.stat().st_size
            if left < 0 or len(found) > 1000:
                return found
            found[inner.as_posix()] = file.read_bytes()
    return found
