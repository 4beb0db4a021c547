"""Put a submission right: the source notebook decides which cells are graded, and in which order.

The spine is the source's cells in the source's order. Of the submission come the answers and the
cells that the student added; each of these stays behind the cell that it followed. What differs
from what was handed out is told.
"""

import ast
import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Cell = dict[str, Any]

IN_PROCESS: Final = "in-process"
_LARGEST: Final = 64 * 1024**2
_HIDDEN: Final = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
_SOLUTION: Final = ("### BEGIN SOLUTION", "### END SOLUTION")


class Unreadable(Exception):
    """A submission that is no notebook; the text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The notebook to run, and what was put right."""

    notebook: dict[str, Any]
    put_right: tuple[str, ...]


def settings_of(cell: Cell) -> dict[str, Any]:
    """The nbgrader settings of a cell; empty if it has none."""
    metadata = cell.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def is_test(cell: Cell) -> bool:
    """A cell whose result is graded by running it."""
    settings = settings_of(cell)
    return bool(settings.get("grade")) and not settings.get("solution")


def is_answer(cell: Cell) -> bool:
    """A cell that the student writes."""
    return bool(settings_of(cell).get("solution"))


def is_graded(cell: Cell) -> bool:
    """A cell with points."""
    return bool(settings_of(cell).get("grade"))


def is_in_process(cell: Cell) -> bool:
    """A test cell that needs the student's objects themselves."""
    tags = cell.get("metadata", {}).get("tags", ())
    return isinstance(tags, list) and IN_PROCESS in tags


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
    except Exception:
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


def released(source: str) -> str:
    """What a student saw of a cell: without the hidden part."""
    return _without(source, _HIDDEN)


def _without(source: str, marks: tuple[str, str]) -> str:
    kept, inside = [], False
    for line in source.splitlines():
        if line.strip() == marks[0]:
            inside = True
        elif line.strip() == marks[1]:
            inside = False
        elif not inside:
            kept.append(line.rstrip())
    return "\n".join(kept).strip()


def defined(source: str) -> frozenset[str]:
    """The functions and classes that a cell defines; empty if it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


@dataclass(slots=True)
class _Matched:
    """Which cell of the submission stands for which of the source."""

    of: dict[int, int] = field(default_factory=dict)  # submission's index → source's
    notices: list[str] = field(default_factory=list)


def repair(source: dict[str, Any], submission: dict[str, Any]) -> Plan:
    """Merge the submission's answers into the source notebook."""
    spine, given = source["cells"], submission["cells"]
    matched = _match(spine, given)
    notices = matched.notices
    first: dict[int, int] = {}
    followers: dict[int, list[Cell]] = {}
    duplicates: dict[int, list[Cell]] = {}
    place = -1
    for index, cell in enumerate(given):
        home = matched.of.get(index)
        if home is None:
            if not is_graded(cell) or is_answer(cell):
                followers.setdefault(place, []).append(_plain(cell))
        elif home not in first:
            first[home] = index
            place = home
        elif is_answer(spine[home]) and not _same(cell, given[first[home]]):
            duplicates.setdefault(home, []).append(_plain(cell))
            place = home
    cells = list(followers.get(-1, []))
    for home, original in enumerate(spine):
        cells.append(_put(original, given[first[home]] if home in first else None, notices))
        cells += duplicates.get(home, []) + followers.get(home, [])
    _tell_duplicates(spine, matched, notices)
    order = [home for home in first if settings_of(spine[home])]
    if order != sorted(order):
        notices.append("the cells were in another order")
    made = {**source, "cells": _with_ids(cells)}
    made["metadata"] = source.get("metadata", {})
    if not isinstance(submission.get("metadata"), dict) or not submission["metadata"].get(
        "kernelspec", {}
    ).get("name"):
        notices.append("the notebook did not name its kernel")
    return Plan(made, tuple(dict.fromkeys(notices)))


def blank(source: dict[str, Any]) -> dict[str, Any]:
    """The notebook of somebody who handed in nothing."""
    return repair(source, {"cells": [], "metadata": {}}).notebook


def _same(one: Cell, other: Cell) -> bool:
    return bool(one["source"].strip() == other["source"].strip())


def _tell_duplicates(spine: list[Cell], matched: _Matched, notices: list[str]) -> None:
    homes = list(matched.of.values())
    for home in dict.fromkeys(homes):
        name = settings_of(spine[home]).get("grade_id")
        if name and homes.count(home) > 1:
            notices.append(f"cell {name} was there {homes.count(home)} times")


def _put(original: Cell, answer: Cell | None, notices: list[str]) -> Cell:
    cell = copy.deepcopy(original)
    name = settings_of(original).get("grade_id")
    locked = is_test(original) or (settings_of(original) and not is_answer(original))
    if answer is None:
        what = f"cell {name}" if name else "a cell of the assignment"
        if is_answer(original):
            cell["source"] = ""
            notices.append(f"{what} was missing")
        elif original["cell_type"] == "code" or name:
            notices.append(f"{what} was missing; it was put back")
        return cell
    if locked:
        shown = {released(original["source"]), _without(original["source"], ("", ""))}
        if _normal(answer["source"]) not in shown:
            notices.append(f"cell {name} was edited; the released one was put back")
        return cell
    cell["source"] = answer["source"]
    return cell


def _normal(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def _plain(cell: Cell) -> Cell:
    """A student's own cell: nothing in its metadata is believed."""
    made = copy.deepcopy(cell)
    made["metadata"] = {}
    return made


def _with_ids(cells: list[Cell]) -> list[Cell]:
    used: set[str] = set()
    for number, cell in enumerate(cells):
        name = cell.get("id", "")
        if not name or name in used or len(name) > 64:
            cell["id"] = f"added-{number}"
        used.add(cell["id"])
    return cells


def _match(spine: list[Cell], given: list[Cell]) -> _Matched:
    """By grade id; else by cell id, by the same text, and by the names that a cell defines."""
    matched = _Matched()
    ids = {settings_of(cell).get("grade_id"): i for i, cell in enumerate(spine)}
    ids.pop(None, None)
    for index, cell in enumerate(given):
        name = settings_of(cell).get("grade_id")
        if isinstance(name, str) and name in ids:
            matched.of[index] = ids[name]
    for how, key in _WAYS:
        taken = set(matched.of.values())
        homes = {key(cell): i for i, cell in reversed(list(enumerate(spine))) if i not in taken}
        homes.pop(None, None)
        for index, cell in enumerate(given):
            found = None if index in matched.of else key(cell)
            if found in homes:
                _take(matched, index, homes.pop(found), spine, how)
    _match_by_names(spine, given, matched)
    return matched


def _match_by_names(spine: list[Cell], given: list[Cell], matched: _Matched) -> None:
    names = {i: defined(cell["source"]) for i, cell in enumerate(given) if i not in matched.of}
    for home, original in enumerate(spine):
        wanted = defined(original["source"]) if is_answer(original) else frozenset()
        if wanted and home not in matched.of.values():
            fitting = [i for i in names if i not in matched.of and wanted <= names[i]]
            for index in fitting:
                _take(matched, index, home, spine, "what it defines")


def _take(matched: _Matched, index: int, home: int, spine: list[Cell], how: str) -> None:
    matched.of[index] = home
    if name := settings_of(spine[home]).get("grade_id"):
        matched.notices.append(f"cell {name} had lost its name; it was known by {how}")


def _by_id(cell: Cell) -> Any:
    return cell.get("id")


def _by_text(cell: Cell) -> Any:
    return (cell["cell_type"], released(cell["source"])) if cell["source"].strip() else None


_WAYS: Final = (
    ("its id", _by_id),
    ("its text", _by_text),
)
