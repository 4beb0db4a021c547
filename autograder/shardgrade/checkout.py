"""Where the course's files are: the checkout that holds labs, solutions and this package."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from shardbook.errors import InputError
from shardbook.labs.registry import lab_of
from shardbook.labs.tasks import Lab, Task


def root() -> Path:
    """The checkout above this package, or above the current folder.

    Raises:
        InputError: neither lies in a checkout.
    """
    for folder in _candidates():
        if (folder / "labs").is_dir() and (folder / "solutions").is_dir():
            return folder
    raise InputError("folder", str(Path.cwd()), "run this inside the course's checkout")


def _candidates() -> Iterator[Path]:
    yield from Path(__file__).resolve().parents
    yield from [Path.cwd(), *Path.cwd().parents]


def solution_file(lab: Lab) -> Path:
    """The module with the reference solutions of ``lab``."""
    return root() / "solutions" / f"{lab.stem}.py"


def reference(task: Task) -> Callable[..., Any]:
    """The reference solution of ``task``, loaded anew and not left in `sys.modules`."""
    path = solution_file(lab_of(task))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, task.function)
    return function
