"""Objects of another process: calls go there, values come back as plain data.

[Note: what a stand-in may do] The check holds `Handle`s of a student's functions and objects. A
comparison or an operator between such an object and plain data is refused: an object equal to
everything would be right everywhere. Only objects made by a class that the assignment asks for
(``lineage``) do their own arithmetic, since that is what is graded there. In the other direction a
student's process may call the functions that a check passed to it, and look at the public
attributes of objects whose class the test cell itself defines; nothing else of the check answers.
"""

from __future__ import annotations

import builtins
import contextlib
import operator
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from .channel import Channel, ChannelClosed
from .wire import WireError, decode, encode, pack, unpack

_GRACE: Final = 0.15
_LONGEST_TEXT: Final = 2_000
_MOST_ITERATED: Final = 100_000

_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_BINARY: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and_", "or_", "xor", "lshift", "rshift"),
)
_UNARY: Final = ("neg", "pos", "invert", "abs")


class Interrupted(BaseException):
    """Thrown into code that ran out of time."""


class PeerLost(BaseException):
    """The other process died, hung, or sent something unreadable."""


class TimeIsUp(BaseException):
    """The other process was still at work at the deadline."""


class Handle:
    """Stands for an object of the other process. See [Note: what a stand-in may do]."""

    __slots__ = ("_id", "_lineage", "_peer")

    def __init__(self, peer: Peer, number: int, lineage: bool = False) -> None:
        for name, value in (("_peer", peer), ("_id", number), ("_lineage", lineage)):
            object.__setattr__(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it over there."""
        return _ask(self, "call", *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Ways to pass for a number, an array or a picture are not asked for.
        if name.startswith(("__array", "_ipython_", "_repr_")):
            raise AttributeError(name)
        return _ask(self, "getattr", name)

    def __copy__(self) -> Handle:
        return self

    def __deepcopy__(self, memo: Any) -> Handle:
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", name, value)

    def __len__(self) -> int:
        return operator.index(_ask(self, "len"))

    def __bool__(self) -> bool:
        return _ask(self, "truth") is True

    def __iter__(self) -> Iterator[Any]:
        return iter(_ask(self, "list"))

    def __next__(self) -> Any:
        return _ask(self, "next")

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        _ask(self, "delitem", key)

    def __contains__(self, item: Any) -> bool:
        _allow(self, item)
        return _ask(self, "contains", item) is True

    def __enter__(self) -> Any:
        return _ask(self, "enter")

    def __exit__(self, *error: object) -> None:
        _ask(self, "exit")

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Handle) and _ask(self, "isinstance", instance) is True

    def __str__(self) -> str:
        return str(_ask(self, "str"))

    def __repr__(self) -> str:
        return str(_ask(self, "repr"))

    def __hash__(self) -> int:
        return hash((Handle, self._id))


def _ask(handle: Handle, operation: str, *args: Any, **kwargs: Any) -> Any:
    peer: Peer = object.__getattribute__(handle, "_peer")
    number = object.__getattribute__(handle, "_id")
    return peer.request(
        number, operation, args, kwargs, object.__getattribute__(handle, "_lineage")
    )


def _allow(handle: Handle, other: Any) -> None:
    if not (object.__getattribute__(handle, "_lineage") or isinstance(other, Handle)):
        raise TypeError("an object of the submission does not compute with plain data")


def _comparison(name: str) -> Callable[[Handle, Any], Any]:
    def compare(self: Handle, other: Any) -> Any:
        if name in ("eq", "ne") and not (self._lineage or isinstance(other, Handle)):
            return name == "ne"
        _allow(self, other)
        return _ask(self, name, other)

    return compare


def _binary(name: str, swapped: bool) -> Callable[[Handle, Any], Any]:
    def combine(self: Handle, other: Any) -> Any:
        _allow(self, other)
        return _ask(self, f"r{name}" if swapped else name, other)

    return combine


def _unary(name: str) -> Callable[[Handle], Any]:
    def apply(self: Handle) -> Any:
        _allow(self, None)
        return _ask(self, name)

    return apply


for _name in _COMPARISONS:
    setattr(Handle, f"__{_name}__", _comparison(_name))
for _name in _BINARY:
    setattr(Handle, f"__{_name.rstrip('_')}__", _binary(_name, swapped=False))
    setattr(Handle, f"__r{_name.rstrip('_')}__", _binary(_name, swapped=True))
for _name in _UNARY:
    setattr(Handle, f"__{_name}__", _unary(_name))


def _items(value: Any) -> list[Any]:
    found = []
    for item in value:
        found.append(item)
        if len(found) > _MOST_ITERATED:
            raise WireError("an iterator that goes on and on")
    return found


def _swapped(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda mine, other: apply(other, mine)


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "call": lambda thing, *args, **kwargs: thing(*args, **kwargs),
    "getattr": getattr,
    "setattr": setattr,
    "len": len,
    "truth": bool,
    "list": _items,
    "next": next,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "contains": lambda thing, item: bool(item in thing),
    "enter": lambda thing: thing.__enter__(),
    "exit": lambda thing: thing.__exit__(None, None, None),
    "isinstance": lambda kind, thing: isinstance(thing, kind),
    "str": lambda thing: str(thing)[:_LONGEST_TEXT],
    "repr": lambda thing: repr(thing)[:_LONGEST_TEXT],
    **{name: getattr(operator, name) for name in (*_COMPARISONS, *_BINARY, *_UNARY)},
    **{f"r{name}": _swapped(getattr(operator, name)) for name in _BINARY},
}
#: what a student's process may ask of what a check passed to it
_OPEN: Final = frozenset({"call", "len", "truth", "list", "next", "getitem"})


def _open_to_student(thing: Any, operation: str, args: list[Any], own: str) -> bool:
    if operation == "getattr":
        name = args[0] if args else ""
        public = isinstance(name, str) and not name.startswith("_")
        return public and type(thing).__module__ == own and not isinstance(thing, type)
    return operation in _OPEN


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
                if self._guarded and not _open_to_student(thing, operation, args, self._guarded):
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
                    value = _OPERATIONS[operation](thing, *args, **kwargs)
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
            described["t"] = str(error)[:_LONGEST_TEXT]
        except BaseException:
            described["t"] = ""
        try:
            described["b"] = _builtin_base(kind).__name__
            described["h"] = self._reference(kind)[1]
            args = [encode(item, _no_reference) for item in error.args]
            if len(pack(args)) < 10 * _LONGEST_TEXT:
                described["a"] = args
        except BaseException:
            described.pop("a", None)
        return described

    def _exception(self, described: dict[str, Any]) -> BaseException:
        name, module, text = (str(described.get(key, ""))[:_LONGEST_TEXT] for key in "cnt")
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
        except Exception:
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


class RemoteModule(Handle):
    """Stands for a module of the other process; ``name`` is what that process calls it."""

    __slots__ = ("name",)

    def __init__(self, peer: Peer, number: int, name: str) -> None:
        super().__init__(peer, number)
        object.__setattr__(self, "name", name)


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
