"""Which release a notebook was made from: written at release, read when it is graded."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any, Final

from shardbook import __version__

_KEY: Final = "shardbook"


def stamp(cells: list[dict[str, Any]], lab: str) -> dict[str, dict[str, str]]:
    """The notebook metadata that names this release: lab, hash of its cells, engine's version."""
    content = json.dumps([[cell["cell_type"], cell["source"]] for cell in cells])
    release = hashlib.sha256(content.encode()).hexdigest()[:12]
    return {_KEY: {"lab": lab, "release": release, "engine": __version__}}


def note(submission: Path, source: Path) -> str | None:
    """What to say if a submission was made with another version than it is graded with.

    ``submission`` is a notebook or a folder with one. Nothing is said of a course without stamps.
    """
    wanted = _stamp_of(source)
    if wanted is None:
        return None
    found = submission / source.name
    with contextlib.suppress(OSError):  # what can't be read says nothing
        if not found.is_file() and submission.is_dir():
            found = next(iter(sorted(submission.glob("*.ipynb"))), found)
    mine = _stamp_of(found)
    if mine is None:
        return "the notebook doesn't say which release it was made from"
    said = [
        f"{what} {mine.get(key)} instead of {wanted[key]}"
        for key, what in (("lab", "lab"), ("release", "release"), ("engine", "engine"))
        if mine.get(key) != wanted[key]
    ]
    return f"made with {', '.join(said)}; graded with the present one" if said else None


def _stamp_of(path: Path) -> dict[str, str] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["metadata"][_KEY]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
