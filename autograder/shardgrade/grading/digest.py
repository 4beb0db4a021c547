"""What decides a result, as one hash: a stored result is used again only if it is the same."""

import contextlib
import functools
import hashlib
import platform
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import shardbook
from shardbook.errors import InputError
from shardgrade import checkout
from shardgrade.grading.result import GradeRequest

#: the parts of this package that decide a result; reports and exports do not
_JUDGES: Final = ("checks", "grading", "sandbox")
_PACKAGES: Final = ("shardgrade", "shardbook", "numpy", "ipython", "nbformat")


def digest_of(request: GradeRequest) -> str:
    """Hash the submission, the source, the checks, solutions and engine, versions, limits, seed."""
    found = hashlib.sha256(code_hash().encode())
    for part in (request.assignment, str(request.seed), request.isolation):
        found.update(part.encode() + b"\0")
    found.update(repr(sorted(asdict(request.limits).items())).encode())
    for path in (request.submission_path, request.source_path.parent):
        try:
            for name, data in _contents(path):
                found.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape"))
                found.update(data)
        except OSError as error:  # who can't be read is graded so, and stops nobody else
            found.update(f"{error.strerror}\0".encode())
    return found.hexdigest()


def _contents(path: Path) -> Iterable[tuple[str, bytes]]:
    if path.is_file():
        yield path.name, path.read_bytes()
    elif path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(path).as_posix(), file.read_bytes()


@functools.cache
def code_hash() -> str:
    """The hash of what judges: checks, execution, engine, solutions, and the versions."""
    found = hashlib.sha256(platform.python_version().encode())
    for name in _PACKAGES:
        try:
            found.update(f"{name} {version(name)}\0".encode())
        except PackageNotFoundError:
            continue
    package = Path(__file__).parents[1]
    folders = [*(package / part for part in _JUDGES), Path(str(shardbook.__file__)).parent]
    # Outside a checkout there are no solutions to hash.
    with contextlib.suppress(InputError):
        folders.append(checkout.root() / "solutions")
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            found.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()
