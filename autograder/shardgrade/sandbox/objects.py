"""The objects that one end of a conversation knows: its own by number, the other's by stand-in."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from .decoding import decode
from .errors import Exceptions, builtin_base
from .handles import Handle, RemoteModule
from .wire import WireError, encode

if TYPE_CHECKING:
    from .remote import Peer


class Objects:
    """What crosses as a reference, for the end ``peer`` of the conversation."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._own: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._kinds: dict[str, type] = {}
        self._lineage = False
        self.exceptions = Exceptions()
        #: the classes, by name, of the objects that stand-ins were made for; to be cleared at will
        self.met: set[str] = set()

    def __getitem__(self, number: int) -> Any:
        return self._own[number]

    def export(self, number: int, thing: Any) -> None:
        """Offer ``thing`` under a number that the other side knows."""
        self._own[number] = thing
        self._numbers[id(thing)] = number

    def encode(self, value: Any) -> Any:
        """Write a value down; what is no plain data becomes a reference."""
        return encode(value, self.reference)

    def decode(self, data: Any, *, lineage: bool = False) -> Any:
        """Read a value; a reference to the other side's object becomes a `Handle`."""
        self._lineage = lineage
        return decode(data, self._resolve)

    def reference(self, value: Any) -> list[Any]:
        """What stands for ``value`` on the way; its number is the second entry."""
        if isinstance(value, Handle) and object.__getattribute__(value, "_peer") is self._peer:
            return ["o", object.__getattribute__(value, "_id")]
        number = self._numbers.get(id(value))
        if number is None:
            number = len(self._own) + 1
            while number in self._own:
                number += 1
            self.export(number, value)
        if isinstance(value, types.ModuleType):
            return ["h", number, "module", str(value.__name__), ""]
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return ["h", number, "exception", value.__name__, builtin_base(value).__name__]
            return ["h", number, "class", value.__name__, ""]
        return ["h", number, "object", type(value).__name__, ""]

    def _resolve(self, data: list[Any]) -> Any:
        if data[0] == "o":
            return self._own[data[1]]
        _, number, kind, name, base = data
        if type(number) is not int or not isinstance(name, str):
            raise WireError("not readable")
        if kind == "exception":
            return self.exceptions.class_of(number, name, base, "__main__")
        if kind == "module":
            return RemoteModule(self._peer, number, name)
        if kind == "object":
            self.met.add(name[:60])
        made = self._kinds.get(name)
        if made is None:
            body = {"__slots__": (), "__module__": "__main__"}
            made = self._kinds[name] = type(name[:60], (Handle,), body)
        return made(self._peer, number, self._lineage)
