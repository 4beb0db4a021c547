"""The files that the warm process reads: the inner part of this package, and the engine's copy."""

import importlib.util
import os
import py_compile
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shardgrade.sandbox.engine_copy import ENGINE, copy_engine

_INSIDE: Final = (
    *(
        "__init__",
        "answering",
        "channel",
        "child",
        "confine",
        "decoding",
        "errors",
        "handles",
        "objects",
    ),
    *("remote", "wire", "zygote"),
)
#: what this package is called inside
PACKAGE: Final = "shardbox"


@dataclass(frozen=True, slots=True)
class Warmth:
    """What a sandbox has ready: modules imported, engine functions missing (with their task)."""

    preload: tuple[str, ...] = ("numpy",)
    blocked: tuple[tuple[str, str], ...] = ()


class Box:
    """A folder with these files; several sandboxes may read it. Everybody on this machine may."""

    def __init__(self, warmth: Warmth) -> None:
        # No TemporaryDirectory: a fork would remove it when it forgets it.
        self._folder = Path(tempfile.mkdtemp(prefix="shardbox-"))
        self._maker = os.getpid()
        self.path = self._folder / "box"
        mask = os.umask(0o022)  # another user may have to read it
        try:
            self._folder.chmod(0o755)
            _fill(self.path, warmth)
        except BaseException:
            self.close()
            raise
        finally:
            os.umask(mask)

    def close(self) -> None:
        """Remove the files, unless another process made them."""
        if os.getpid() == self._maker:
            shutil.rmtree(self._folder, ignore_errors=True)


def _fill(box: Path, warmth: Warmth) -> None:
    inside = box / PACKAGE
    inside.mkdir(parents=True)
    for name in _INSIDE:
        file = inside / f"{name}.py"
        shutil.copyfile(Path(__file__).with_name(f"{name}.py"), file)
        # Nothing can be written there later, so that each warm process would compile it again.
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compiled = inside / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(str(file), str(compiled), doraise=True, invalidation_mode=unchecked)
    copy_engine(box, warmth.blocked)
    missing = {name.partition(":")[0] for name, _ in warmth.blocked}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == ENGINE and name not in missing:
            _copy_bytecode(box, getattr(module, "__file__", None))


def _copy_bytecode(box: Path, source: str | None) -> None:
    """Copy what Python has compiled already; it is believed only with the time of its source."""
    if source is None or not source.endswith(".py"):
        return
    top = Path(str(importlib.util.find_spec(ENGINE).origin)).parents[1]  # type: ignore[union-attr]
    target = box / Path(source).relative_to(top)
    compiled = Path(importlib.util.cache_from_source(source))
    if target.is_file() and compiled.is_file():
        shutil.copystat(source, target)
        made = target.parent / "__pycache__" / compiled.name
        made.parent.mkdir(exist_ok=True)
        shutil.copyfile(compiled, made)
