"""Pairs of submissions that are too similar, and submissions too similar to the engine.

By copydetect: winnowed fingerprints of the code without names, comments and layout (Schleimer,
Wilkerson, Aiken 2003). What the released notebook holds already is left out. A pair is a reason to
look, never a verdict.
"""

import functools
import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import shardbook
from shardgrade.layout import Layout

#: tokens that must agree in a row to count, and the window that is guaranteed to catch them
_NOISE: Final = 20
_GUARANTEE: Final = 25


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts and the share (0 to 1) of each that stands in the other; ``tokens`` in common."""

    one: str
    other: str
    share_of_one: float
    share_of_other: float
    tokens: int

    @property
    def share(self) -> float:
        """The larger share."""
        return max(self.share_of_one, self.share_of_other)


def similar(layout: Layout, assignment: str, threshold: float = 0.6) -> list[Pair]:
    """Pairs at or above ``threshold``, the most similar first; the engine is ``shardbook/…``."""
    texts = {
        student: "\n\n".join(code)
        for student, folder in layout.submissions(assignment).items()
        if (code := list(_answers(layout, assignment, folder)))
    }
    released = "\n\n".join(_answers(layout, assignment, layout.folder("release", ".", assignment)))
    mine = {name: _fingerprint(text, released) for name, text in texts.items()}
    pairs = [_pair(*both) for both in itertools.combinations(mine.items(), 2)]
    against = [_pair(a, b) for a in mine.items() for b in _engine()]
    found = [pair for pair in pairs if pair.share >= threshold]
    # A module of the engine is long: only the share of the student's own text says something.
    found += [pair for pair in against if pair.share_of_one >= threshold]
    return sorted(found, key=lambda pair: (-pair.share, pair.one, pair.other))


def _fingerprint(text: str, boilerplate: str) -> Any:
    from copydetect import CodeFingerprint

    window = _GUARANTEE - _NOISE + 1
    known = (
        list(CodeFingerprint("a.py", _NOISE, 1, fp=io.StringIO(boilerplate)).hashes)
        if boilerplate
        else []
    )
    return CodeFingerprint("a.py", _NOISE, window, boilerplate=known, fp=io.StringIO(text))


def _pair(one: tuple[str, Any], other: tuple[str, Any]) -> Pair:
    from copydetect import compare_files

    tokens, shares, _ = compare_files(one[1], other[1])
    return Pair(one[0], other[0], float(shares[0]), float(shares[1]), int(tokens))


@functools.cache
def _engine() -> tuple[tuple[str, Any], ...]:
    root = Path(shardbook.__file__).parent
    return tuple(
        (f"shardbook/{path.relative_to(root)}", _fingerprint(path.read_text(encoding="utf-8"), ""))
        for path in sorted(root.rglob("*.py"))
    )


def _answers(layout: Layout, assignment: str, folder: Path) -> Iterator[str]:
    """The code in the cells that are answers, or in all of them where no cell is marked."""
    for path in sorted(folder.glob("*.ipynb")) if folder.is_dir() else []:
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            code = [cell for cell in cells if cell.get("cell_type") == "code"]
            marked = [cell for cell in code if cell["metadata"].get("nbgrader", {}).get("solution")]
            for cell in marked or code:
                source = cell["source"]
                yield source if isinstance(source, str) else "".join(source)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # grading reports broken files
