"""Who handed a file in, read from the names that learning platforms and nbgrader give.

Canvas:   ``doejane_LATE_1234_567890_n45_ledger-1.ipynb`` (name, user, attachment, file)
Moodle:   ``Jane Doe_1234_assignsubmission_file_/n45_ledger.ipynb``, older without the folder
exchange: ``jane+n45+2026-10-01 12:00:00.123456 UTC`` (nbgrader's inbound folder)
folder:   ``jane/…``, ``jane.ipynb``, ``jane.zip``
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shardgrade.gradebook.scores import Student

FORMATS: Final = ("exchange", "moodle", "canvas", "folder")

_PATTERNS: Final = {
    "exchange": re.compile(
        r"(?P<student>[^+]+)\+(?P<lab>[^+]+)"
        r"\+(?P<order>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [^+]+|\d{4}-[^+]+)(?:\+.*)?"
    ),
    "moodle": re.compile(
        r"(?P<name>.+?)_(?P<participant>\d+)_assignsubmission_\w+?(?:_(?P<file>.*))?"
    ),
    "canvas": re.compile(
        r"(?P<name>[^\W\d_][^_]*)_(?:LATE_)?(?P<user>\d+)_(?P<order>\d+)_(?P<file>.+)"
    ),
    "folder": re.compile(r"(?P<student>[^.].*?)(?:\.ipynb|\.zip)?"),
}


@dataclass(frozen=True, slots=True)
class Named:
    """What a name tells; ``order`` grows with time, ``file`` is the student's own file name."""

    label: str
    student: str = ""
    name: str = ""
    user: str = ""
    lab: str = ""
    order: str = ""
    file: str = ""


def read_name(label: str, form: str) -> Named | None:
    """Read ``label`` as a name of the format ``form``; None if it is not one."""
    found = _PATTERNS[form].fullmatch(label)
    if found is None:
        return None
    parts = {key: value or "" for key, value in found.groupdict().items()}
    if form == "canvas":
        parts["order"] = parts["order"].zfill(20)  # numbers compare as text
    # Moodle counts participants anew in each assignment: that number says nothing about who it is.
    parts.pop("participant", None)
    return Named(label, **parts)


def detect(labels: Iterable[str]) -> str:
    """The format that fits the most names; ``folder`` fits all and so comes last."""
    names = list(labels)
    counts = {form: sum(read_name(n, form) is not None for n in names) for form in FORMATS[:-1]}
    best = max(counts, key=lambda form: counts[form])
    return best if counts[best] * 2 > len(names) else "folder"


@dataclass(frozen=True, slots=True)
class Match:
    """The student a name belongs to, and how that was found; ``student`` is empty if it was not."""

    student: str
    how: str


def match(named: Named, roster: dict[str, Student], by_hand: dict[str, str]) -> Match:
    """Find the student: from the list made by hand, by id, or by a name that only one has."""
    if named.label in by_hand:
        return Match(by_hand[named.label], "listed by hand")
    if named.student:
        if named.student in roster or not roster:
            return Match(named.student, "by id")
        found = _by_name(named.student, roster)
        if len(found) == 1:
            return Match(found[0], "by name")
        return Match(named.student, "by id; not in the roster")
    if not roster:
        made = "-".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", named.name).lower()))
        return Match(made, "no roster: the id is made from the name")
    by_user = [one.id for one in roster.values() if named.user and one.lms_user_id == named.user]
    if len(by_user) == 1:
        return Match(by_user[0], "by the platform's user number")
    found = _by_name(named.name, roster)
    if len(found) == 1:
        return Match(found[0], "by name")
    return Match("", f"{len(found)} students of this name" if found else "not in the roster")


def _by_name(name: str, roster: dict[str, Student]) -> list[str]:
    wanted = _letters(name)
    return [
        one.id
        for one in roster.values()
        if wanted
        in {
            _letters(one.first_name + one.last_name),
            _letters(one.last_name + one.first_name),
            _letters(one.email),
            _letters(one.id),
        }
    ]


def _letters(name: str) -> str:
    # é and e + accent are the same letter; Canvas leaves out all but letters and digits.
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join(character for character in plain if character.isalnum())
