"""What stands in the book: its parts and pages, read from the table of contents and the pages."""

import re
from dataclasses import dataclass
from os.path import relpath
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


def front_page(root: Path = ROOT) -> Page:
    """Return the book's root page."""
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    path = re.search(r"(?m)^root: (\S+)$", toc)
    if path is None:
        raise ValueError("the table of contents has no root")
    return _page(root, path[1], "")


def _page(root: Path, path: str, part: str) -> Page:
    text = (root / f"{path}.md").read_text(encoding="utf-8")
    title = re.search(r"(?m)^# (.+)$", text)
    if title is None:
        raise ValueError(f"{path} has no title")
    covers = re.search(r"(?m)^% covers: (.+)$", text)
    return Page(path, title[1], part, tuple(covers[1].split()) if covers else ())


#: chapter → what its pages are about
_COURSE: Final = {
    "N44": "One update, on one device: what comes to life, and when it may go.",
    "N45": "The ledger: what is stored, on which rank, and how large a model can be.",
    "N46": "Data replicas: the same update four times, and the collectives that keep it the same.",
    "N47": "Gather on demand: own a part, use the whole, hide the wait.",
    "N48": "The joint update: each owner updates its part; what it costs, and what fails silently.",
    "Beyond": "Splitting the computation, offloading, choosing a layout, and what it costs.",
}


def map_text(folder: str, root: Path = ROOT) -> str:
    """Return the course's map in MyST, for a page in ``folder``: chapters, and pages that stand."""
    rows = []
    for chapter, about in _COURSE.items():
        links = [
            f"{{doc}}`{relpath(page.path, folder)}`"
            for page in pages(root)
            if page.part.startswith(chapter)
        ]
        rows.append(f"| **{chapter}** | {about} | {' · '.join(links) or 'not written yet'} |")
    return "\n".join(["| chapter | what it is about | pages |", "|---|---|---|", *rows])
