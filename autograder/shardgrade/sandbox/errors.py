"""How exceptions cross: built-in ones keep their class, others become one of the same name."""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable
from typing import Any, Final

from .handles import LONGEST_TEXT
from .wire import WireError, encode, pack

_FROM: Final = frozenset({"numpy", "shardbook", *sys.stdlib_module_names})
#: stands for `Interrupted`; no module has this name
_INTERRUPTED: Final = "@"


class Interrupted(BaseException):
    """Thrown into code that ran out of time."""


class PeerLost(BaseException):
    """The other process died, hung, or sent something unreadable."""


class TimeIsUp(BaseException):
    """The other process was still at work at the deadline; ``reply`` is what it said then."""

    reply: dict[str, Any] | None = None


class Exceptions:
    """The exception classes of the other process that were met so far, by their number there."""

    def __init__(self) -> None:
        self._classes: dict[int, type] = {}

    def class_of(self, number: int, name: str, base: str, module: str) -> type:
        """The stand-in of a class; always the same one for the same number."""
        made = self._classes.get(number)
        if made is None:
            parent = _known("builtins", base) or RuntimeError
            made = type(name[:60], (parent,), {"__module__": module})
            if number >= 0:
                self._classes[number] = made
        return made

    def rebuilt(self, described: dict[str, Any], decode: Callable[[Any], Any]) -> BaseException:
        """The exception that `describe` wrote down; `TimeIsUp` for `Interrupted`."""
        name, module, text = (str(described.get(key, ""))[:LONGEST_TEXT] for key in "cnt")
        if module == _INTERRUPTED:
            return TimeIsUp("no result in time")
        kind = _known(module, name)
        if kind is None:
            number = described.get("h")
            number = number if type(number) is int else -1
            kind = self.class_of(number, name, str(described.get("b")), module)
        try:
            return kind(*[decode(item) for item in described["a"]])
        except Exception:  # a class may refuse the arguments that crossed: then its text will do
            with contextlib.suppress(Exception):
                return kind(text)
        return RuntimeError(f"{name}: {text}")


def describe(error: BaseException, reference: Callable[[Any], list[Any]]) -> dict[str, Any]:
    """Write an exception down as plain data; ``reference`` names its class."""
    if isinstance(error, Interrupted):
        return {"c": "Interrupted", "n": _INTERRUPTED}
    kind = type(error)
    described: dict[str, Any] = {"c": kind.__name__, "n": str(kind.__module__)}
    try:
        described["t"] = str(error)[:LONGEST_TEXT]
    except BaseException:
        described["t"] = ""
    try:
        described["b"] = builtin_base(kind).__name__
        described["h"] = reference(kind)[1]
        args = [encode(item, no_reference) for item in error.args]
        if len(pack(args)) < 10 * LONGEST_TEXT:
            described["a"] = args
    except BaseException:
        described.pop("a", None)
    return described


def is_interrupted(described: Any) -> bool:
    """Whether this is what `describe` writes for `Interrupted`."""
    return isinstance(described, dict) and described.get("n") == _INTERRUPTED


def no_reference(value: Any) -> Any:
    """Refuse what is no plain data."""
    raise WireError("no plain data")


def builtin_base(kind: type) -> type:
    """The first built-in class among its bases."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


def _known(module: str, name: str) -> type[BaseException] | None:
    top = module.partition(".")[0]
    if top == "unittest" or top not in _FROM:
        return None
    found = getattr(builtins if module == "builtins" else sys.modules.get(module), name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
