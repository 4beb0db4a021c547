"""Objects of another process: calls go there, values come back as plain data.

[Note: what a stand-in may do] The check holds `Handle`s of a student's functions and objects. A
comparison or an operator between such an object and plain data is refused: an object equal to
everything would be right everywhere. Only objects made by a class that the assignment asks for
(``lineage``) do their own arithmetic, since that is what is graded there. In the other direction a
student's process may call the functions that a check passed to it, and look at the public
attributes of objects whose class the test cell itself defines; nothing else of the check answers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from .wire import WireError

if TYPE_CHECKING:
    from .remote import Peer

LONGEST_TEXT: Final = 2_000
NO_PLAIN_DATA: Final = "an object of the submission does not compute with plain data"
_MOST_ITERATED: Final = 100_000

_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_BINARY: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and_", "or_", "xor", "lshift", "rshift"),
)
_UNARY: Final = ("neg", "pos", "invert", "abs")


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
        raise TypeError(NO_PLAIN_DATA)


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


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
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
    "str": lambda thing: str(thing)[:LONGEST_TEXT],
    "repr": lambda thing: repr(thing)[:LONGEST_TEXT],
    **{name: getattr(operator, name) for name in (*_COMPARISONS, *_BINARY, *_UNARY)},
    **{f"r{name}": _swapped(getattr(operator, name)) for name in _BINARY},
}
#: what a student's process may ask of what a check passed to it
_OPEN: Final = frozenset({"call", "len", "truth", "list", "next", "getitem"})


def open_to_student(thing: Any, operation: str, args: list[Any], own: str) -> bool:
    """True if a submission may ask this; ``own`` is the module name of the check's own classes."""
    if operation == "getattr":
        name = args[0] if args else ""
        public = isinstance(name, str) and not name.startswith("_")
        return public and type(thing).__module__ == own and not isinstance(thing, type)
    return operation in _OPEN


class RemoteModule(Handle):
    """Stands for a module of the other process; ``name`` is what that process calls it."""

    __slots__ = ("name",)

    def __init__(self, peer: Peer, number: int, name: str) -> None:
        super().__init__(peer, number)
        object.__setattr__(self, "name", name)
