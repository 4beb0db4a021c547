"""Call a student's function: on copies, within a time limit, with its output caught.

[Note: time limit] The function runs in a thread of its own and the caller waits. So a loop that
never ends, a sleep, and code that swallows every exception all end the wait; a signal would be
caught by the last, and exists neither on Windows nor outside the main thread.
"""

import contextlib
import copy
import ctypes
import io
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardbook.labs.values import Fault, compare, plain, show, type_name


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call did: ``value``, made plain, counts if ``fault`` is None.

    ``unanswered`` tells the stub's own exception, ``changed`` the first argument that the call
    changed.
    """

    value: Any
    fault: Fault | None = None
    unanswered: bool = False
    changed: Fault | None = None


class _Stop(BaseException):
    """Thrown into a thread that ran out of time."""


class _Nowhere(io.TextIOBase):
    """Takes a student's output and forgets it."""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


class Calls:
    """Calls with a limit on each (s) and on all together (s)."""

    def __init__(self, seconds_each: float, seconds_in_all: float) -> None:
        self._each = seconds_each
        self._left = seconds_in_all

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Outcome:
        """Call ``function`` on a copy of ``arguments``; never raises for what it does."""
        if not callable(function):
            return Outcome(None, Fault("the answer", "a function", show(plain(function))))
        given = copy.deepcopy(arguments)
        outcome = self.run(lambda: function(*given))
        return replace(outcome, changed=None if outcome.fault else _changed(arguments, given))

    def each(self, function: Any, cases: Sequence[tuple[Any, ...]]) -> Iterator[Outcome]:
        """Call ``function`` on one case after the other; no more than are asked for count."""
        for arguments in cases:
            yield self.call(function, arguments)

    def run(self, work: Callable[[], Any]) -> Outcome:
        """Run ``work`` within the limits; never raises for what it does."""
        limit = min(self._each, self._left)
        if limit <= 0:
            return Outcome(None, Fault("the call", "a result in time", "no time left"))
        began = time.monotonic()
        ended = _run(work, limit)
        self._left -= time.monotonic() - began
        if ended is None:
            return Outcome(None, Fault("the call", "a result in time", f"none in {limit:.1f} s"))
        value, error = ended
        if isinstance(error, NotImplementedError):
            return Outcome(None, Fault("the answer", "your code", "the stub"), unanswered=True)
        if error is not None:
            return Outcome(None, Fault("the call", "a result", describe_error(error)))
        return Outcome(plain(value))


def _changed(before: tuple[Any, ...], after: tuple[Any, ...]) -> Fault | None:
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if fault := compare(old, plain(new), where=f"argument {index + 1}"):
            return Fault(fault.where, "the argument as it was", "a changed one")
    return None


def describe_error(error: BaseException) -> str:
    """Say an exception in one line; its text may itself fail."""
    try:
        text = " ".join(str(error).split())[:200]
    except BaseException:
        text = ""
    return f"{type_name(type(error))}{': ' if text else ''}{text}"


def _run(work: Callable[[], Any], seconds: float) -> tuple[Any, BaseException | None] | None:
    results: list[tuple[Any, BaseException | None]] = []

    def body() -> None:
        try:
            try:
                results.append((work(), None))
            except BaseException as error:
                results.append((None, error))
        except BaseException:  # stopped while an exception was handled
            return

    thread = threading.Thread(target=body, daemon=True)
    with _quiet():
        try:
            thread.start()
        except RuntimeError:  # no threads, as in a browser: no time limit either
            body()
            return results[0]
        thread.join(seconds)
        if not thread.is_alive():
            return results[0] if results else None
        _stop(thread)
    return None


def _stop(thread: threading.Thread) -> None:
    # Some code swallows the exception: ask a few times, then leave the thread behind.
    for _ in range(10):
        if not thread.is_alive() or thread.ident is None:
            return
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(_Stop)
        )
        thread.join(0.02)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    nowhere = _Nowhere()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
