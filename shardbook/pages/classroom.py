"""The course as a sequence of classes, N44 to N48: what each adds, and how long it takes."""

import re
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Final

from shardbook.labs.registry import lab_named
from shardbook.pages.contents import ROOT, Page, pages

#: chapter → (the step, what the ledger gains)
STEPS: Final = {
    "N44": ("one update", "its lines: what comes to life in a step, and when it may go"),
    "N45": ("the ledger", "sizes: bytes by line, on each rank, against the card"),
    "N46": ("data copies", "a second account: what the ranks send to stay the same"),
    "N47": ("gather on demand", "moments: who is there whole, and when"),
    "N48": ("the joint update", "owners: who updates which part, and what goes wrong unseen"),
}
_TIMES: Final = {
    "half an hour": 30,
    "thirty minutes": 30,
    "thirty-five minutes": 35,
    "forty minutes": 40,
    "forty-five minutes": 45,
}
_A_LITTLE: Final = 5


@dataclass(frozen=True, slots=True)
class Class:
    """A chapter as a step of the course: ``reading`` and ``lab`` are minutes."""

    chapter: str
    step: str
    gains: str
    pages: tuple[Page, ...]
    reading: int
    tasks: int
    lab: int


def reading_minutes(text: str) -> int:
    """Return the minutes a page says that it takes.

    Raises `ValueError` if it does not say so in one of the usual ways.
    """
    said = re.search(r"\*\*Time\*\* (about|a little over) ([\w -]+?)\.", text)
    if said is None or said[2] not in _TIMES:
        raise ValueError("a page says its time as '**Time** about half an hour.'")
    return _TIMES[said[2]] + (_A_LITTLE if said[1] != "about" else 0)


def sequence(root: Path = ROOT) -> tuple[Class, ...]:
    """Return the classes N44 to N48 in order, with the times of their pages and labs (S77)."""
    book = pages(root)
    found = []
    for chapter, (step, gains) in STEPS.items():
        own = tuple(page for page in book if page.part.startswith(chapter))
        texts = [(root / f"{page.path}.md").read_text(encoding="utf-8") for page in own]
        tasks = lab_named(chapter.lower()).tasks
        found.append(
            Class(
                chapter, step, gains, own, sum(map(reading_minutes, texts)), len(tasks),
                sum(task.minutes for task in tasks),
            )
        )  # fmt: skip
    return tuple(found)


def sequence_text(folder: str, root: Path = ROOT) -> str:
    """Return the classes as a MyST table for a page in ``folder``; times in hours (S77)."""
    head = "| class | step | what the ledger gains | begins with | reading | lab |\n|---|---|---|---|---|---|"
    rows = [
        f"| **{each.chapter}** | {each.step} | {each.gains} | "
        f"{{doc}}`{relpath(each.pages[0].path, folder)}` | {hours(each.reading)} | "
        f"{each.tasks} tasks, {hours(each.lab)} |"
        for each in sequence(root)
    ]
    return "\n".join([head, *rows])


def hours(minutes: int) -> str:
    """Minutes as hours to a quarter, as a timetable has them."""
    quarters = round(minutes / 15)
    return f"{quarters / 4:g} h"
