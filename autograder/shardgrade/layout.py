"""Where a course's folders and gradebook are, read from its settings without importing nbgrader.

[Note: two speeds] Importing nbgrader takes two seconds. Whatever only reads the gradebook (a rerun
with nothing new, a report, an export) goes through this module and `gradebook.scores`; what writes
grades imports nbgrader's models.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, Final

from shardbook.errors import InputError

_CONFIG: Final = "nbgrader_config.py"
_STEPS: Final = ("source", "release", "submitted", "autograded", "feedback")


@dataclass(frozen=True, slots=True)
class Layout:
    """A course in nbgrader's layout: ``structure`` and ``steps`` are its settings of that name."""

    root: Path
    db_url: str
    course_id: str
    structure: str
    steps: dict[str, str]
    exchange: Path

    def folder(self, step: str, student: str, assignment: str) -> Path:
        """The folder of one assignment; ``student`` is ``.`` for source and release."""
        return self.root / self.structure.format(
            nbgrader_step=self.steps[step], student_id=student, assignment_id=assignment
        )

    @property
    def backups(self) -> Path:
        """Where copies of the gradebook are kept."""
        return self.root / "backups"

    @property
    def state(self) -> Path:
        """Our own folder: the lock, and what is graded but not applied."""
        return self.root / ".shardgrade"

    @property
    def sqlite(self) -> Path | None:
        """The gradebook's file, if it is one."""
        kind, _, path = self.db_url.partition(":///")
        return Path(path) if kind.startswith("sqlite") else None

    def assignments(self) -> list[str]:
        """The assignments that have a source."""
        return sorted({path.parent.name for path in self._sources("*")})

    def notebooks(self, assignment: str) -> list[Path]:
        """The source notebooks of ``assignment``."""
        return sorted(self._sources(escape(assignment)))

    def _sources(self, assignment: str) -> Iterator[Path]:
        return self.root.glob(f"{self._pattern('source', '.', assignment)}/*.ipynb")

    def submissions(self, assignment: str) -> dict[str, Path]:
        """Student → what was handed in (a folder, or what stands in its place)."""
        before, _, after = str(self.folder("submitted", "\0", assignment)).partition("\0")
        found = {
            str(path)[len(before) : len(str(path)) - len(after)]: path
            for path in self.root.glob(self._pattern("submitted", "*", escape(assignment)))
        }
        return {name: path for name, path in sorted(found.items()) if not name.startswith(".")}

    def _pattern(self, step: str, student: str, assignment: str) -> str:
        return str(self.folder(step, student, assignment).relative_to(self.root))


def open_layout(root: Path, db_url: str | None = None) -> Layout:
    """Read the settings of the course folder ``root``; ``db_url`` takes the place of its own.

    Raises:
        InputError: the folder is no course.
    """
    root = root.resolve()
    settings: dict[str, Any] = {}
    exchange: dict[str, Any] = {}
    if (root / _CONFIG).is_file():
        from traitlets.config.loader import PyFileConfigLoader

        config = PyFileConfigLoader(_CONFIG, path=str(root)).load_config()
        settings, exchange = config.CourseDirectory, config.Exchange
    elif not (root / "source").is_dir():
        allowed = "no course there: release a lab first, or name a folder that has source/"
        raise InputError("course", str(root), allowed)
    return Layout(
        root,
        db_url or settings.get("db_url") or f"sqlite:///{root / 'gradebook.db'}",
        settings.get("course_id") or "default_course",
        settings.get("directory_structure", "{nbgrader_step}/{student_id}/{assignment_id}"),
        {step: settings.get(f"{step}_directory", step) for step in _STEPS},
        Path(exchange.get("root", "/usr/local/share/nbgrader/exchange")),
    )
