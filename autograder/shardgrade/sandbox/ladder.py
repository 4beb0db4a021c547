"""The isolation ladder: start the warm process as well shut in as this machine allows.

[Note: what each rung guarantees] On every rung a student's process runs without capabilities, can
make no other process, no socket and no signal to another process, has limits on memory, CPU time,
file sizes and open files, and is killed with all its threads at the end; its scratch folder is
watched and emptied; checks and solutions are never in its memory.

- ``bwrap``: bubblewrap. Namespaces of its own: only Python, its packages and the engine's copy are
  there to be read, nothing but the scratch folder (in memory, limited) to be written; no network,
  no processes of others.
- ``landlock``: the kernel refuses to open any other file and any TCP port. Names and sizes of other
  files can be seen, and which processes run.
- ``limits``: no wall around files but their permissions (as root the process becomes ``nobody`` if
  Python can be run by that user). Whoever grades on this rung trusts the class.
"""

import base64
import contextlib
import functools
import json
import os
import site
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from shardgrade.sandbox import bubble
from shardgrade.sandbox.box import PACKAGE, Box, Warmth
from shardgrade.sandbox.limits import Limits

RUNGS: Final = ("bwrap", "landlock", "limits")

_HEAD: Final = struct.Struct("!I")
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 2.0
_MAIN: Final = (
    f"import sys; sys.path[:0] = sys.argv[1].split(':'); from {PACKAGE}.zygote import main; main()"
)


class SandboxError(Exception):
    """A sandbox that can't be started, or whose warm process is gone."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a student's process ended: by which signal or code, why it was killed, CPU time (s)."""

    signal: int
    code: int
    reason: str
    cpu: float


class Sandbox:
    """A warm process on one rung; starts a student's process, one at a time."""

    def __init__(
        self,
        rung: str,
        warmth: Warmth,
        limits: Limits,
        secret: Iterable[Path] = (),
        box: Box | None = None,
    ) -> None:
        if rung not in RUNGS:
            raise SandboxError(f"isolation {rung}: there is only {', '.join(RUNGS)}")
        self.rung = rung
        self._files = contextlib.ExitStack()
        try:
            if box is None:
                box = self._files.enter_context(contextlib.closing(Box(warmth)))
            self._start(box.path, warmth, limits, [str(Path(path).resolve()) for path in secret])
        except BaseException:
            self.close()
            raise

    def _start(self, box: Path, warmth: Warmth, limits: Limits, secret: list[str]) -> None:
        self._home = self._files.enter_context(tempfile.TemporaryDirectory(prefix="shardbox-"))
        home = Path(self._home)
        home.chmod(0o755)
        scratch = home / "scratch"
        scratch.mkdir(mode=0o777)
        scratch.chmod(0o777 if self.rung == "limits" else 0o700)
        inner = "/scratch" if self.rung == "bwrap" else str(scratch)
        packages = _packages()
        readable = [str(box), *packages, *_system()]
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-S", "-c", _MAIN]
        command[0] = os.path.realpath(sys.executable)
        command += [":".join([str(box), *packages]), str(theirs.fileno())]
        if self.rung == "bwrap":
            around = bubble.command(readable, secret, limits.files)
            if around is None:
                raise SandboxError("isolation bwrap: bubblewrap is not installed")
            command = [*around, "--", *command]
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
        )
        self._files.callback(self._end_process)
        theirs.close()
        self._control = self._files.enter_context(ours)
        ours.settimeout(_START_SECONDS)
        answer = self._ask(
            {
                "environment": _environment(inner),
                "readable": readable,
                "scratch": inner,
                "secret": secret,
                "preload": list(warmth.preload),
                "landlock": self.rung == "landlock",
                "drop_root": self.rung == "limits",
            }
        )
        #: secret paths that can be read from inside
        self.seen: tuple[str, ...] = tuple(answer["seen"])

    def _end_process(self) -> str:
        # Its control socket is closed: it ends by itself, and its times are counted.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._process.kill()
        stderr = self._process.stderr
        said = "" if stderr is None or stderr.closed else stderr.read().decode(errors="replace")
        if stderr:
            stderr.close()
        self._process.wait()
        return said.strip()

    def start(
        self, files: Mapping[str, bytes], limits: Limits, seed: int
    ) -> tuple[socket.socket, socket.socket]:
        """Start a student's process; returns the sockets of the conversation and for interrupts."""
        talk, their_talk = socket.socketpair()
        interrupt, their_interrupt = socket.socketpair()
        content = {name: base64.b64encode(data).decode() for name, data in files.items()}
        message = {"op": "start", "limits": asdict(limits), "seed": seed, "files": content}
        with their_talk, their_interrupt:
            self._ask(message, [their_talk.fileno(), their_interrupt.fileno()])
        return talk, interrupt

    def end(self) -> Ending:
        """End the student's process, empty the scratch folder, and tell how it went."""
        answer = self._ask({"op": "end"})
        if not answer.pop("clean"):
            raise SandboxError("the scratch folder can't be emptied")
        return Ending(**answer)

    def _ask(self, message: dict[str, Any], files: list[int] | None = None) -> dict[str, Any]:
        data = json.dumps(message).encode()
        try:
            socket.send_fds(self._control, [_HEAD.pack(len(data))], files or [])
            self._control.sendall(data)
            (size,) = _HEAD.unpack(self._exactly(_HEAD.size))
            answer: dict[str, Any] = json.loads(self._exactly(size))
        except (OSError, struct.error):
            said = self._end_process()
            last = said.splitlines()[-1] if said else "it ended"
            raise SandboxError(f"isolation {self.rung}: {last}") from None
        return answer

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (part := self._control.recv(size - len(data))):
            data += part
        return data

    def close(self) -> None:
        """End the warm process and remove its files."""
        self._files.close()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _packages() -> list[str]:
    paths = sysconfig.get_paths()
    return list(dict.fromkeys([paths["purelib"], paths["platlib"], *site.getsitepackages()]))


def _system() -> list[str]:
    python = [sys.base_prefix, sys.base_exec_prefix]
    shared = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"]
    settings = ["/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/etc/mime.types"]
    devices = ["/dev/urandom", "/dev/zero"]
    return list(dict.fromkeys([*python, *shared, *settings, *devices]))


def _environment(scratch: str) -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        **one,
        "PATH": "/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "IPYTHONDIR": f"{scratch}/.ipython",
        "MPLCONFIGDIR": f"{scratch}/.matplotlib",
        "MPLBACKEND": "agg",
        "LANG": "C.UTF-8",
    }


@dataclass(frozen=True, slots=True)
class Probed:
    """What a rung does here: ``trouble`` is empty if it works."""

    rung: str
    trouble: str


@functools.cache
def probe() -> tuple[Probed, ...]:
    """Try every rung: does it start, and does it hide the hidden checks?"""
    return tuple(Probed(rung, _try(rung)) for rung in RUNGS)


def _try(rung: str) -> str:
    secret = Path(__file__).parents[1] / "checks" / "__init__.py"
    try:
        with Sandbox(rung, Warmth(preload=()), Limits(), [secret]) as sandbox:
            return f"{secret} can be read from inside" if sandbox.seen else ""
    except SandboxError as error:
        return str(error)


def best_rung() -> str:
    """The highest rung that works here."""
    return next(one.rung for one in probe() if not one.trouble or one.rung == RUNGS[-1])


def open_sandbox(
    isolation: str, warmth: Warmth, limits: Limits, secret: Iterable[Path], box: Box | None = None
) -> Sandbox:
    """A sandbox on that rung; for ``auto`` on the highest that starts and hides ``secret``.

    Raises:
        SandboxError: the rung does not work here.
    """
    if isolation != "auto":
        return Sandbox(isolation, warmth, limits, secret, box)
    for rung in RUNGS[:-1]:
        with contextlib.suppress(SandboxError):
            sandbox = Sandbox(rung, warmth, limits, secret, box)
            if not sandbox.seen:
                return sandbox
            sandbox.close()
    return Sandbox(RUNGS[-1], warmth, limits, secret, box)


def warning(rung: str) -> str:
    """What the report must say about a rung; empty if all is well."""
    if rung == "limits":
        return "isolation limits: submissions can read files of this machine; trust the class"
    return ""


def each_rung() -> Iterator[str]:
    """The rungs that start here."""
    for probed in probe():
        if not probed.trouble or "can be read" in probed.trouble:
            yield probed.rung
