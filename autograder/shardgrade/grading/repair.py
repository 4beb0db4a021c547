"""Put a submission right: the source notebook decides which cells are graded, and in which order.

The spine is the source's cells in the source's order. Of the submission come the answers and the
cells that the student added; each of these stays behind the cell that it followed. What differs
from what was handed out is told.
"""

import ast
import copy
from dataclasses import dataclass, field
from typing import Any, Final

from shardgrade.grading.reading import Cell, settings_of

IN_PROCESS: Final = "in-process"
#: what an instructor may do about a test that needs the student's objects
TAG_IT: Final = f"if the test needs it, tag the test cell {IN_PROCESS}"
_HIDDEN: Final = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
_SOLUTION: Final = ("### BEGIN SOLUTION", "### END SOLUTION")


@dataclass(frozen=True, slots=True)
class Plan:
    """The notebook to run, and what was put right."""

    notebook: dict[str, Any]
    put_right: tuple[str, ...]


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
