"""A course folder in nbgrader's layout, and its settings."""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import click

from shardbook.errors import InputError

_CONFIG: Final = "nbgrader_config.py"

_COURSE_CONFIG: Final = '''\
"""The course's nbgrader settings. Add your own below."""

from pathlib import Path

import shardgrade

load_subconfig("nbgrader_config.py", path=str(Path(shardgrade.__file__).parent))

c = get_config()
'''


class GraderError(click.ClickException):
    """nbgrader could not do its work; the text is what it said, in one line."""

    def __init__(self, said: str) -> None:
        super().__init__(" ".join(said.split()))


def prepare(course: Path) -> None:
    """Make the course folder with its settings; what is there stays."""
    course.mkdir(parents=True, exist_ok=True)
    if not (course / _CONFIG).exists():
        (course / _CONFIG).write_text(_COURSE_CONFIG, encoding="utf-8")


def nbgrader(course: Path, db_url: str | None = None) -> Any:
    """nbgrader's API on the course folder; ``db_url`` takes the place of the course's own.

    Raises:
        InputError: the folder is no course (release a lab first).
    """
    if not (course / _CONFIG).is_file() and not (course / "source").is_dir():
        raise InputError("course", str(course), "no course there: release a lab first")
    _find_alembic()
    from nbgrader.apps import NbGraderAPI
    from sqlalchemy.exc import SAWarning
    from traitlets.config.loader import Config, PyFileConfigLoader

    # nbgrader's own way of making a submission; the object is added a moment later.
    warnings.filterwarnings("ignore", "Object of type <Submitted", category=SAWarning)
    config = Config()
    if (course / _CONFIG).is_file():
        config = PyFileConfigLoader(_CONFIG, path=str(course.resolve())).load_config()
    config.CourseDirectory.root = str(course.resolve())
    if db_url:
        config.CourseDirectory.db_url = db_url
    api = NbGraderAPI(config=config)
    # What it logs is returned by each call; on the terminal it would drown the report.
    api.log.handlers = [logging.NullHandler()]
    api.log.propagate = False
    return api


def _find_alembic() -> None:
    # nbgrader starts `alembic` by its bare name, also when the environment is not activated.
    beside_python = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    if beside_python not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([beside_python, path])
