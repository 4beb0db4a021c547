"""The grading processes: one learns the assignment, and is forked for each that grades.

Starting Python, the checks' packages and the reference solutions takes longer than many submissions:
so it is done once. The first process listens at the socket that is its standard input; each message
there is a request, which names the assignment, with a socket for the fork that will grade it. On
that, requests and answers are JSON lines. Whoever closes a socket ends the process behind it.
"""

import contextlib
import gc
import json
import os
import socket
import sys
import tempfile
from typing import Any, Final, NoReturn

from shardgrade.grading.result import GradeRequest
from shardgrade.grading.worker import Impossible, Worker
from shardgrade.sandbox.ladder import SandboxError

#: the longest request (B)
LONGEST: Final = 1 << 17


def main() -> None:
    """Fork a grading process for each message, until the other end is closed."""
    control = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    worker = Worker()
    try:
        while True:
            message, files, _, _ = socket.recv_fds(control, LONGEST, 1)
            if not message:
                return
            (number,) = files
            with socket.socket(fileno=number) as connection:
                _tell(
                    control,
                    _fork(worker, GradeRequest.from_json(message.decode()), connection, control),
                )
            _bury()
    finally:
        worker.forget()
        _bury(wait=True)
        with contextlib.suppress(OSError):  # else whoever made it removes what is left in it
            os.rmdir(tempfile.gettempdir())


def _fork(
    worker: Worker, request: GradeRequest, connection: socket.socket, control: socket.socket
) -> dict[str, Any]:
    try:
        worker.learn(request)
    except Impossible as error:
        return {"impossible": str(error)}
    gc.collect()
    gc.freeze()
    process = os.fork()
    if process == 0:
        control.close()
        _serve(worker, connection)
    return {"pid": process}


def _serve(worker: Worker, connection: socket.socket) -> NoReturn:
    code = 1
    try:
        worker.caller = connection
        with connection.makefile("r", encoding="utf-8") as requests:
            for line in requests:
                _answer(worker, GradeRequest.from_json(line), connection)
        code = 0
    except (SystemExit, BrokenPipeError, ConnectionError):
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            worker.forget()
        os._exit(code)


def _answer(worker: Worker, request: GradeRequest, connection: socket.socket) -> None:
    try:
        worker.prepare(request)
        _tell(connection, {"ready": request.student})
        result, timed_out = worker.grade(request)
        _tell(connection, {"result": result.to_json(), "timed_out": timed_out})
    except (Impossible, SandboxError) as error:
        _tell(connection, {"impossible": str(error)})


def _tell(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def _bury(*, wait: bool = False) -> None:
    """Count the times of forks that have ended; ``wait`` for all."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0 if wait else os.WNOHANG)[0]:
            continue
