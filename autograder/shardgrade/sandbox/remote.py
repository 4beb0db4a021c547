"""The conversation of two processes about objects: requests go there, values come back.

See [Note: what a stand-in may do] in `handles`.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any, Final

from .channel import Channel, ChannelClosed
from .handles import LONGEST_TEXT, OPERATIONS, Handle, RemoteModule, open_to_student
from .wire import WireError, decode, encode, pack, unpack

_GRACE: Final = 0.15


class Interrupted(BaseException):
    """Thrown into code that ran out of time."""


class PeerLost(BaseException):
    """The other process died, hung, or sent something unreadable."""


class TimeIsUp(BaseException):
    """The other process was still at work at the deadline."""


class Peer:
    """One end of the conversation; both ends may ask, strictly nested.

    ``guarded`` is the name of the check's namespace; without it (the student's side) every request
    is answered. ``printed`` returns what was written since it was last asked.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        guarded: str | None = None,
        printed: Callable[[], tuple[str, str]] = lambda: ("", ""),
        interrupt: Callable[[], None] = lambda: None,
        running: Callable[[bool], None] = lambda state: None,
    ) -> None:
        self._channel = channel
        self._guarded = guarded
        self._printed = printed
        self._interrupt = interrupt
        self._running = running
        self._lock = threading.RLock()
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._exceptions: dict[int, type] = {}
        self._kinds: dict[str, type] = {}
        self._lineage = False
        #: when requests end (`time.monotonic`)
        self.deadline: float | None = None
        #: why the other side can't be asked any more
        self.lost: str | None = None
        self.timed_out = False
        self.slow = False

    def export(self, number: int, thing: Any) -> None:
        """Offer ``thing`` under a number that the other side knows."""
        self._objects[number] = thing
        self._numbers[id(thing)] = number

    def handle(self, number: int, *, lineage: bool = False) -> Handle:
        """A stand-in for the other side's object of that number."""
        return Handle(self, number, lineage)

    # Asking.

    def request(
        self, number: int, operation: str, args: Any, kwargs: Any, lineage: bool = False
    ) -> Any:
        """Have the other side do something; returns its value or raises its exception.

        Arguments that it changed are changed here too; what it printed is printed here.
        """
        with self._lock:
            reply = self._exchange(number, operation, args, kwargs)
            for text, stream in ((reply.get("p"), sys.stdout), (reply.get("e"), sys.stderr)):
                if isinstance(text, str) and text:
                    stream.write(text)
            for place, changed in self._changes(reply).items():
                _write_back(args[int(place)] if place.isdigit() else kwargs[place], changed)
            return self._result(reply, lineage)

    def call_within(
        self, seconds: float, number: int, args: tuple[Any, ...]
    ) -> tuple[Any, tuple[Any, ...]]:
        """Call a function for at most so long; returns its value, and the arguments afterwards.

        The arguments here stay as they are, and what it printed is dropped. Running out of time
        counts as `slow` and not as `timed_out`.
        """
        with self._lock:
            kept = self.deadline, self.timed_out
            mine = time.monotonic() + seconds
            self.deadline = mine if self.deadline is None else min(mine, self.deadline)
            try:
                reply = self._exchange(number, "call", args, {})
                after = list(args)
                for place, changed in self._changes(reply).items():
                    after[int(place)] = changed
                return self._result(reply, lineage=False), tuple(after)
            finally:
                self.slow |= self.timed_out
                self.deadline, self.timed_out = kept

    def _changes(self, reply: dict[str, Any]) -> dict[str, Any]:
        changes = reply.get("m") or {}
        if not isinstance(changes, dict):
            raise WireError("not readable")
        return {place: self._decode(data) for place, data in changes.items()}

    def _result(self, reply: dict[str, Any], lineage: bool) -> Any:
        error = reply.get("x")
        if error is not None:
            raise self._exception(error if isinstance(error, dict) else {})
        self._lineage = lineage
        return self._decode(reply.get("r"))

    def _exchange(self, number: int, operation: str, args: Any, kwargs: Any) -> dict[str, Any]:
        if self.lost:
            raise PeerLost(self.lost)
        message = {
            "on": number,
            "op": operation,
            "a": [self._encode(item) for item in args],
            "k": {name: self._encode(item) for name, item in kwargs.items()},
        }
        data = pack(message)
        try:
            self._channel.send(data)
            return self._await_reply()
        except TimeoutError:
            self.timed_out = True
            self._stop_other()
            raise TimeIsUp("no result in time") from None
        except ChannelClosed:
            self.lost = self.lost or "the process died"
            raise PeerLost(self.lost) from None
        except (PeerLost, WireError):
            raise
        except BaseException:  # thrown into this thread by whoever waits for it
            self._stop_other()
            raise

    def _await_reply(self, seconds: float | None = None) -> dict[str, Any]:
        while True:
            if seconds is None and self.deadline is not None:
                left: float | None = max(0.0, self.deadline - time.monotonic())
            else:
                left = seconds
            message = unpack(self._channel.receive(left))
            if not isinstance(message, dict):
                raise WireError("not readable")
            if "op" not in message:
                return message
            self._channel.send(self._answer(message))

    def _stop_other(self) -> None:
        until = time.monotonic() + _GRACE
        self._interrupt()
        while time.monotonic() < until:
            try:
                self._await_reply(max(0.0, until - time.monotonic()))
                return
            except ChannelClosed:
                self.lost = "the process died"
                return
            except BaseException:  # thrown in again
                continue
        self.lost = "the process hung"

    # Answering.

    def serve(self) -> None:
        """Answer until the other side is gone."""
        while True:
            try:
                message = unpack(self._channel.receive())
                self._channel.send(self._answer(message))
            except ChannelClosed:
                return
            except Interrupted:  # came a moment too late
                continue

    def _answer(self, message: dict[str, Any]) -> bytes:
        reply: dict[str, Any] = {}
        given: list[tuple[str, Any, Any]] = []
        try:
            try:
                args = [self._decode(item) for item in message["a"]]
                kwargs = {name: self._decode(item) for name, item in message["k"].items()}
                thing, operation = self._objects[message["on"]], message["op"]
                if self._guarded and not open_to_student(thing, operation, args, self._guarded):
                    raise PermissionError("that is not open to a submission")
                given = [
                    (place, value, sent)
                    for place, value, sent in (
                        *((str(i), v, message["a"][i]) for i, v in enumerate(args)),
                        *((name, v, message["k"][name]) for name, v in kwargs.items()),
                    )
                    if isinstance(value, (list, dict, set, bytearray, tuple)) or _is_array(value)
                ]
                self._running(True)
                try:
                    value = OPERATIONS[operation](thing, *args, **kwargs)
                finally:
                    self._running(False)
                reply["r"] = self._encode(value)
            finally:
                self._running(False)
        except BaseException as error:
            reply = {"x": self._describe(error)}
        changes = {}
        for place, value, sent in given:
            try:
                now = self._encode(value)
                if pack(now) != pack(sent):
                    changes[place] = now
            except Exception:  # it can't cross any more
                continue
        if changes:
            reply["m"] = changes
        out, err = self._printed()
        if out or err:
            reply |= {"p": out, "e": err}
        try:
            return pack(reply)
        except Exception as error:
            return pack({"x": self._describe(WireError(str(error)[:200]))})

    # Values.

    def _encode(self, value: Any) -> Any:
        return encode(value, self._reference)

    def _decode(self, data: Any) -> Any:
        return decode(data, self._resolve)

    def _reference(self, value: Any) -> list[Any]:
        if isinstance(value, Handle) and object.__getattribute__(value, "_peer") is self:
            return ["o", object.__getattribute__(value, "_id")]
        number = self._numbers.get(id(value))
        if number is None:
            number = len(self._objects) + 1
            while number in self._objects:
                number += 1
            self.export(number, value)
        if isinstance(value, types.ModuleType):
            return ["h", number, "module", str(value.__name__), ""]
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return ["h", number, "exception", value.__name__, _builtin_base(value).__name__]
            return ["h", number, "class", value.__name__, ""]
        return ["h", number, "object", type(value).__name__, ""]

    def _resolve(self, data: list[Any]) -> Any:
        if data[0] == "o":
            return self._objects[data[1]]
        _, number, kind, name, base = data
        if type(number) is not int or not isinstance(name, str):
            raise WireError("not readable")
        if kind == "exception":
            return self._exception_class(number, name, base, "__main__")
        if kind == "module":
            return RemoteModule(self, number, name)
        made = self._kinds.get(name)
        if made is None:
            body = {"__slots__": (), "__module__": "__main__"}
            made = self._kinds[name] = type(name[:60], (Handle,), body)
        return made(self, number, self._lineage)

    # Exceptions.

    def _describe(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, Interrupted):
            return {"c": "Interrupted", "n": "@"}
        kind = type(error)
        described: dict[str, Any] = {"c": kind.__name__, "n": str(kind.__module__)}
        try:
            described["t"] = str(error)[:LONGEST_TEXT]
        except BaseException:
            described["t"] = ""
        try:
            described["b"] = _builtin_base(kind).__name__
            described["h"] = self._reference(kind)[1]
            args = [encode(item, _no_reference) for item in error.args]
            if len(pack(args)) < 10 * LONGEST_TEXT:
                described["a"] = args
        except BaseException:
            described.pop("a", None)
        return described

    def _exception(self, described: dict[str, Any]) -> BaseException:
        name, module, text = (str(described.get(key, ""))[:LONGEST_TEXT] for key in "cnt")
        if module == "@":
            self.timed_out = True
            return TimeIsUp("no result in time")
        kind = _known_exception(module, name)
        if kind is None:
            number = described.get("h")
            number = number if type(number) is int else -1
            kind = self._exception_class(number, name, str(described.get("b")), module)
        try:
            return kind(*[self._decode(item) for item in described["a"]])
        except Exception:  # a class may refuse the arguments that crossed: then its text will do
            with contextlib.suppress(Exception):
                return kind(text)
        return RuntimeError(f"{name}: {text}")

    def _exception_class(self, number: int, name: str, base: str, module: str) -> type:
        made = self._exceptions.get(number)
        if made is None:
            parent = _known_exception("builtins", base) or RuntimeError
            made = type(name[:60], (parent,), {"__module__": module})
            if number >= 0:
                self._exceptions[number] = made
        return made


def _no_reference(value: Any) -> Any:
    raise WireError("no plain data")


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _builtin_base(kind: type) -> type:
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


_EXCEPTIONS_FROM: Final = frozenset({"numpy", "shardbook", *sys.stdlib_module_names})


def _known_exception(module: str, name: str) -> type[BaseException] | None:
    top = module.partition(".")[0]
    if top == "unittest" or top not in _EXCEPTIONS_FROM:
        return None
    found = getattr(builtins if module == "builtins" else sys.modules.get(module), name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _write_back(old: Any, new: Any) -> None:
    if (isinstance(old, list) and isinstance(new, list)) or (
        isinstance(old, bytearray) and isinstance(new, bytearray)
    ):
        old[:] = new
    elif isinstance(old, (dict, set)) and type(new) in (dict, set):
        old.clear()
        old.update(new)
    elif isinstance(old, tuple) and isinstance(new, tuple):
        for before, after in zip(old, new, strict=False):
            _write_back(before, after)
    elif _is_array(old) and _is_array(new) and old.shape == new.shape:
        old[...] = new
