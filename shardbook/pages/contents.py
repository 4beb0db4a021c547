"""What stands in the book: its parts and pages, read from the table of contents and the pages."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import shardbook

#: where the course lies: the folder of `_toc.yml`, `chapters/`, `tests/`
ROOT: Final = Path(shardbook.__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path from the root without the ending, title, part and coverage tags."""

    path: str
    title: str
    part: str
    covers: tuple[str, ...]


def pages(root: Path = ROOT) -> tuple[Page, ...]:
    """Return the book's pages, in its order, the root page left out."""
    part, found = "", []
    for line in (root / "_toc.yml").read_text(encoding="utf-8").splitlines():
        if caption := re.fullmatch(r"\s*- caption: (.+)", line):
            part = caption[1].strip("\"'")
        elif file := re.fullmatch(r"\s*- file: (\S+)", line):
            found.append(_page(root, file[1], part))
    return tuple(found)


def _page(root: Path, path: str, part: str) -> Page:
    text = (root / f"{path}.md").read_text(encoding="utf-8")
    title = re.search(r"(?m)^# (.+)$", text)
    if title is None:
        raise ValueError(f"{path} has no title")
    covers = re.search(r"(?m)^% covers: (.+)$", text)
    return Page(path, title[1], part, tuple(covers[1].split()) if covers else ())
