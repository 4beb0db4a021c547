"""The warm process inside the sandbox: imports everything once and is forked for each submission.

Control messages are JSON with a length before them, one answer each. ``start`` comes with two
sockets: the conversation with the check's process, and the one by which that interrupts.
"""

import base64
import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Any, Final, TextIO

from . import child, confine

_HEAD: Final = struct.Struct("!I")
_LOOK_EVERY: Final = 100  # ms


def main() -> None:
    """Take the settings from the control socket (file descriptor in argv), then serve."""
    control = socket.socket(fileno=int(sys.argv[-1]))
    confine.die_with_parent()
    settings = _receive(control)[0]
    os.environ.clear()
    os.environ.update(settings["environment"])
    import pyseccomp  # type: ignore # noqa: F401 - loaded here, where its library may still be found

    size = open("/proc/self/statm", encoding="ascii")  # noqa: SIM115 - read again for each child
    dropped = settings["drop_root"] and confine.drop_root(settings["readable"])
    confine.drop_capabilities()
    confine.die_with_parent()  # forgotten when the user changes
    confine.hide_memory()
    if settings["landlock"]:
        confine.only_these_files(settings["readable"], settings["scratch"])
    os.chdir(settings["scratch"])
    for module in settings["preload"]:
        with contextlib.suppress(Exception):  # then the cell that needs it tells why
            importlib.import_module(module)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)  # numpy loads its random numbers when they are used first
    shell = child.make_shell()
    shell.run_cell("None", store_history=False)
    seen = [path for path in settings["secret"] if _can_read(path)]
    gc.collect()
    gc.freeze()
    _send(control, {"seen": seen, "dropped": dropped})
    _wipe(Path(settings["scratch"]))
    _Zygote(control, shell, settings, size).serve()


def _can_read(path: str) -> bool:
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


class _Zygote:
    def __init__(
        self, control: socket.socket, shell: Any, settings: dict[str, Any], size: TextIO
    ) -> None:
        self._control = control
        self._shell = shell
        self._size = size
        self._scratch = Path(settings["scratch"])
        self._allowed = (settings["scratch"], "/proc/", "/dev/", *settings["readable"])
        self._child = 0
        self._ended: dict[str, Any] | None = None
        self._reason = ""

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            if not poll.poll(_LOOK_EVERY if self._child else None):
                self._look_after()
                continue
            message, files = _receive(self._control)
            if message["op"] == "start":
                self._start(message, files)
                _send(self._control, {"pid": self._child})
            else:
                _send(self._control, self._end())

    def _start(self, message: dict[str, Any], files: list[int]) -> None:
        self._ended, self._reason = None, ""
        limits = message["limits"]
        self._bound = limits["files"]
        for name, content in message["files"].items():
            target = self._scratch / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base64.b64decode(content))
        self._child = os.fork()
        if self._child == 0:
            try:
                self._become_child(limits, message["seed"], files)
            finally:
                os._exit(0)
        for number in files:
            os.close(number)

    def _become_child(self, limits: dict[str, Any], seed: int, files: list[int]) -> None:
        talk, interrupts = (socket.socket(fileno=number) for number in files)
        self._control.close()
        self._size.seek(0)
        present = int(self._size.read().split()[0]) * os.sysconf("SC_PAGESIZE")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)

        def lock() -> None:
            confine.die_with_parent()
            confine.limit(present, limits["memory"], limits["files"], limits["seconds"])
            confine.forbid_calls()

        def overfull() -> bool:
            return confine.overfull(self._scratch, limits["files"])

        child.run(
            self._shell, talk, interrupts, limits["output"], seed, lock, overfull, self._allowed
        )

    def _look_after(self) -> None:
        """Kill the child when its files are too many or too large."""
        if not self._reason and confine.overfull(self._scratch, self._bound):
            self._reason = confine.FILLED
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)

    def _end(self) -> dict[str, Any]:
        if self._child:
            found, status, used = os.wait4(self._child, os.WNOHANG)
            if not found:
                os.kill(self._child, signal.SIGKILL)
                _, status, used = os.wait4(self._child, 0)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == confine.FILLED_CODE:
                self._reason = confine.FILLED
            self._ended = {
                "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
                "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
                "reason": self._reason,
                "cpu": used.ru_utime + used.ru_stime,
            }
            self._child = 0
        return {**(self._ended or {}), "clean": _wipe(self._scratch)}


def _wipe(folder: Path) -> bool:
    """Empty the scratch folder; False if something stays (then the sandbox is made anew)."""

    def again(remove: Any, path: str, error: Any) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            os.chmod(path, stat.S_IRWXU)
            remove(path)

    try:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, onerror=again)
            else:
                os.unlink(entry.path)
        return not os.listdir(folder)
    except (OSError, RecursionError):
        return False


def _send(control: socket.socket, message: Any) -> None:
    data = json.dumps(message).encode()
    control.sendall(_HEAD.pack(len(data)) + data)


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, files, _, _ = socket.recv_fds(control, _HEAD.size, 2)
    if len(head) < _HEAD.size:
        sys.exit(0)
    (size,) = _HEAD.unpack(head)
    data = b""
    while len(data) < size:
        part = control.recv(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    message: dict[str, Any] = json.loads(data)
    return message, list(files)
