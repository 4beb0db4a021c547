"""The student's process: runs cells, and answers for the functions and objects they made."""

import contextlib
import fcntl
import os
import random
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from .channel import Channel
from .confine import FILLED_CODE
from .errors import Interrupted
from .remote import Peer

_TRACEBACK_LINES: Final = 40
_LONGEST_LINE: Final = 500
_COMMANDS: Final = re.compile(r"\A\s|^\s*(?:[%!?]|>>>|\.\.\.|In \[)|\?\s*$|=\s*[!%]", re.MULTILINE)
_WAITS: Final = re.compile("await|async")
_MOST_DENIED: Final = 20
_REFUSED: Final = frozenset(
    {
        *("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system"),
        *("subprocess.Popen", "socket.__new__", "socket.connect", "os.killpg"),
    }
)
_BOUND: Final = 256 * 1024**2

_running = False


class Output:
    """What was written, up to a bound; the rest is counted and dropped."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._parts: list[str] = []
        self._held = 0
        self.dropped = 0

    def write(self, text: str) -> int:
        """Keep ``text`` as far as it fits."""
        if not isinstance(text, str):
            raise TypeError("write() argument must be str")
        kept = text[: max(0, self._bound - self._held)]
        if kept:
            self._parts.append(kept)
            self._held += len(kept)
        self.dropped += len(text) - len(kept)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Nothing is buffered."""

    def isatty(self) -> bool:
        """It is no terminal."""
        return False

    def writable(self) -> bool:
        """It can be written."""
        return True

    def take(self) -> str:
        """Return what was written since the last time."""
        text = "".join(self._parts)
        self._parts.clear()
        self._held = 0
        return text


def make_shell() -> Any:
    """IPython without its history, and with short tracebacks."""
    from IPython.core import displayhook, displaypub
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryAccessor.enabled = False
    config.InteractiveShell.xmode = "Plain"
    config.InteractiveShell.colors = "nocolor"
    shell: Any = InteractiveShell.instance(config=config)
    hooks: Any = displayhook
    publishers: Any = displaypub
    shell.display_pub = publishers.CapturingDisplayPublisher(parent=shell)
    shell.displayhook = hooks.CapturingDisplayHook(shell=shell, outputs=[])
    shell.display_trap.hook = shell.displayhook
    transform = shell.transform_cell
    # Most cells are plain Python; IPython would split them into tokens twice to find that out.
    shell.transform_cell = lambda raw: transform(raw) if _COMMANDS.search(raw) else f"{raw}\n"
    wait = shell.should_run_async
    # It would compile each cell once more to find out whether there is something to wait for.
    shell.should_run_async = lambda raw, **more: bool(_WAITS.search(raw)) and wait(raw, **more)
    shell.enable_gui = lambda gui=None: None
    # A line such as `!pip install` must not take the rest of its cell along.
    shell.system = lambda command: print(f"not run while grading: {command}")
    # It would keep all output a second time, without a bound.
    shell._tee = lambda channel: contextlib.nullcontext()
    return shell


class Notebook:
    """What the check's process may ask for: run a cell, look names up."""

    def __init__(self, shell: Any, out: Output, err: Output, overfull: Callable[[], bool]) -> None:
        self._shell = shell
        self._overfull = overfull
        self._denied: list[str] = []
        self._out, self._err = out, err
        self._failure: dict[str, Any] | None = None
        shell._showtraceback = self._record

    def _record(self, kind: Any, error: Any, lines: list[str]) -> None:
        text = [line[:_LONGEST_LINE] for entry in lines for line in str(entry).splitlines()]
        if len(text) > _TRACEBACK_LINES:
            half = _TRACEBACK_LINES // 2
            text = [*text[:half], "…", *text[-half:]]
        self._failure = {
            "output_type": "error",
            "ename": kind.__name__,
            "evalue": _text(error),
            "traceback": text,
        }

    def cell(self, code: str) -> dict[str, Any]:
        """Run a cell; its outputs as nbformat has them, and its error in one line."""
        self._failure = None
        self._out.dropped = self._err.dropped = 0
        result = self._shell.run_cell(code, store_history=False)
        if self._overfull():  # looked at here too, so that the cell that did it pays for it
            os._exit(FILLED_CODE)
        error = result.error_before_exec or result.error_in_exec
        outputs: list[dict[str, Any]] = [
            {"output_type": "stream", "name": name, "text": text}
            for name, stream in (("stdout", self._out), ("stderr", self._err))
            if (text := stream.take())
        ]
        for shown in self._shell.display_pub.outputs:
            outputs.append({"output_type": "display_data", **_shown(shown)})
        for shown in self._shell.displayhook.outputs:
            outputs.append({"output_type": "execute_result", **_shown(shown)})
        self._shell.display_pub.outputs.clear()
        self._shell.displayhook.outputs.clear()
        failed = None
        if error is not None:
            if isinstance(error, Interrupted):
                raise error
            failed = f"{type(error).__name__}: {_text(error)}"
            outputs.append(self._failure or _plain_failure(error))
        return {
            "outputs": outputs,
            "error": failed,
            "value": outputs[-1]["data"].get("text/plain") if _has_value(outputs) else None,
            "dropped": self._out.dropped + self._err.dropped,
        }

    def denied(self) -> list[str]:
        """What was tried and refused, as far as Python saw it."""
        return self._denied[:_MOST_DENIED]

    def names(self, wanted: list[str]) -> dict[str, Any]:
        """Those of the wanted names that exist, with what they stand for."""
        space = self._shell.user_ns
        return {name: space[name] for name in wanted if name in space}

    def note_denied(self, allowed: tuple[str, ...]) -> None:
        """Keep from now on which refused calls are made, and which files are tried."""

        def hook(event: str, args: tuple[Any, ...]) -> None:
            said = ""
            local = event == "socket.__new__" and args[1] == socket.AF_UNIX
            if event in _REFUSED and not local:
                said = f"{event} was refused"
            elif event == "open" and isinstance(args[0], str) and args[0].startswith("/"):
                path = os.path.normpath(args[0])
                said = "" if path.startswith(allowed) else f"{path[:200]} was refused"
            if said and said not in self._denied and len(self._denied) < _MOST_DENIED:
                self._denied.append(said)

        sys.addaudithook(hook)


def _has_value(outputs: list[dict[str, Any]]) -> bool:
    return bool(outputs) and outputs[-1]["output_type"] == "execute_result"


def _shown(shown: dict[str, Any]) -> dict[str, Any]:
    data = {str(k): v for k, v in shown.get("data", {}).items() if isinstance(v, str)}
    return {"data": data, "metadata": {}}


def _plain_failure(error: BaseException) -> dict[str, Any]:
    name, text = type(error).__name__, _text(error)
    line = f"{name}: {text}"
    return {"output_type": "error", "ename": name, "evalue": text, "traceback": [line]}


def _text(error: Any) -> str:
    try:
        return str(error)[:_LONGEST_LINE]
    except BaseException:
        return ""


def _set_running(state: bool) -> None:
    global _running
    _running = state


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _running:
        raise Interrupted


@contextlib.contextmanager
def _listening(interrupts: socket.socket) -> Iterator[None]:
    signal.signal(signal.SIGIO, _interrupt)
    number = interrupts.fileno()
    fcntl.fcntl(number, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_ASYNC)
    yield


def run(
    shell: Any,
    talk: socket.socket,
    interrupts: socket.socket,
    output: int,
    seed: int,
    lock: Callable[[], None],
    overfull: Callable[[], bool],
    allowed: tuple[str, ...],
) -> None:
    """Answer the check's process until it hangs up; ``lock`` takes the rights away."""
    out, err = Output(output), Output(output)
    sys.stdout, sys.stderr = out, err
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
    peer = Peer(
        Channel(talk, _BOUND),
        printed=lambda: (out.take(), err.take()),
        running=_set_running,
    )
    notebook = Notebook(shell, out, err, overfull)
    peer.export(0, notebook)
    with _listening(interrupts):
        lock()
        notebook.note_denied(allowed)
        peer.serve()
