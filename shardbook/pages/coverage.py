"""The coverage table: which page, engine function and test stand for each row of the sources.

Nothing is listed by hand. Docstrings of engine functions and of tests name their rows as ``(S4)``
or ``(S4, S5)``, a row in no other way; a page names them in the comment line that begins with
``% covers:``.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Final, TypeVar

from shardbook.pages.contents import ROOT, Page, front_page, pages
from shardbook.pages.coverage_rows import PARTS, ROWS

_TAG: Final = re.compile(r"\((S\d+(?:, S\d+)*)\)")
_ROW: Final = re.compile(r"\bS\d+\b")
_Place = TypeVar("_Place")


@dataclass(frozen=True, slots=True)
class Row:
    """A row with what stands for it: pages, engine functions and tests by name."""

    id: str
    title: str
    pages: tuple[Page, ...]
    functions: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """What the row still lacks: page, engine, test. A row that lacks something is open."""
        kinds = {"page": self.pages, "engine": self.functions, "test": self.tests}
        return tuple(kind for kind, found in kinds.items() if not found)


def coverage(root: Path = ROOT) -> tuple[Row, ...]:
    """Return every row, with its places below ``root``.

    Raises `ValueError` for a tag that names no row, and for a row named outside of a tag.
    """
    functions = _by_row(_functions(root))
    tests = _by_row(_tests(root))
    book = (front_page(root), *pages(root))
    on_pages = _by_row((page, page.covers) for page in book)
    return tuple(
        Row(id, title, on_pages[id], functions[id], tests[id]) for id, title in ROWS.items()
    )


def _by_row(tagged: Iterable[tuple[_Place, tuple[str, ...]]]) -> dict[str, tuple[_Place, ...]]:
    found: dict[str, tuple[_Place, ...]] = dict.fromkeys(ROWS, ())
    for place, ids in tagged:
        for id in ids:
            if id not in ROWS:
                raise ValueError(f"{place} names the row {id}, which does not exist")
            found[id] += (place,)
    return found


def _functions(root: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for path in sorted((root / "shardbook").rglob("*.py")):
        module = ".".join(path.relative_to(root / "shardbook").with_suffix("").parts)
        for name, ids in _tagged(path):
            if name:
                yield f"{module}.{name}", ids


def _tests(root: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Tagged tests; a tagged module stands for all of its tests."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name, ids in _tagged(path):
            if not name or name.startswith("test_"):
                yield name or path.name, ids


def _tagged(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names in a module with the rows that their docstrings name; the module itself is nameless."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            tags = _TAG.findall(text)
            if stray := _ROW.findall(_TAG.sub("", text)):
                place = f"{path.name}, line {node.body[0].lineno}"
                rows = ", ".join(stray)
                raise ValueError(
                    f"{place}: {rows} would count nowhere: write only rows, as ({rows})"
                )
            if tags:
                yield getattr(node, "name", ""), tuple(", ".join(tags).split(", "))


def coverage_text(rows: tuple[Row, ...], folder: str) -> str:
    """Return the table in MyST, one part after the other, for a page that lies in ``folder``."""
    by_id = {row.id: row for row in rows}
    head = ":widths: 6 26 18 26 24\n:class: sb-coverage\n\n| row | what it is about | page | engine"
    return "\n\n".join(
        f"## {part}\n\n:::{{table}}\n{head} | tests |\n|---|---|---|---|---|\n"
        + "\n".join(_line(by_id[id], folder) for id in ids)
        + "\n:::"
        for part, ids in PARTS.items()
    )


def _line(row: Row, folder: str) -> str:
    cells = (
        [f"{{doc}}`{relpath(page.path, folder)}`" for page in row.pages],
        [f"`{name}`" for name in row.functions],
        # A test is named after its claim, and reads as one.
        [name.removeprefix("test_").replace("_", " ") for name in row.tests],
    )
    said = " | ".join(" · ".join(cell) or "**open**" for cell in cells)
    return f"| {row.id} | {row.title} | {said} |"
