"""Values that anybody's code may have returned: made plain, compared, shown.

`plain` copies built-in data through the base classes' own methods and puts a `Foreign` in place of
all else. So an object that calls itself equal to everything, or whose `repr` fails, is never asked.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_LONGEST: Final = 72
_MOST_SHOWN: Final = 12
_MOST_ITEMS: Final = 100_000
_DEEPEST: Final = 8
_SCALARS: Final = frozenset({type(None), bool, int, float, str})


@dataclass(frozen=True, slots=True)
class Foreign:
    """Stands for an object that is not plain data."""

    what: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a value is not what it should be: the kind expected, and what came."""

    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, got {self.got}"


def plain(value: Any, _depth: int = _DEEPEST) -> Any:
    """Copy ``value`` as None, bool, int, float, str, list, tuple and dict; the rest is `Foreign`."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, dict):
        if _depth == 0 or dict.__len__(value) > _MOST_ITEMS:
            return Foreign("a dict too deep or too large")
        pairs = [(plain(key, 1), plain(item, _depth - 1)) for key, item in dict.items(value)]
        return {_key(key): item for key, item in pairs}
    if isinstance(value, list):
        if _depth == 0 or list.__len__(value) > _MOST_ITEMS:
            return Foreign("a list too deep or too large")
        return _plain_items(list.__iter__(value), _depth - 1)
    if isinstance(value, tuple):
        if _depth == 0 or tuple.__len__(value) > _MOST_ITEMS:
            return Foreign("a tuple too deep or too large")
        return tuple(_plain_items(tuple.__iter__(value), _depth - 1))
    return Foreign(f"an object of type {type_name(kind)}")


def _plain_items(items: Iterator[Any], depth: int) -> list[Any]:
    # Most are scalars: a call for each would take most of the time.
    return [item if type(item) in _SCALARS else plain(item, depth) for item in items]


def _key(key: Any) -> Any:
    # A tuple with a list in it has no hash.
    return key if isinstance(key, (str, int, float, type(None), Foreign)) else Foreign(show(key))


def type_name(kind: type) -> str:
    """The name of a type, with its module where it is not built in."""
    name, module = type.__dict__["__name__"].__get__(kind), kind.__dict__.get("__module__")
    known = module in ("builtins", "__main__") or not isinstance(module, str)
    return f"{'' if known else f'{module}.'}{name}"[:60]


def compare(
    expected: Any, value: Any, *, where: str = "result", exact: bool = True
) -> Fault | None:
    """Return the first difference between two plain values, or None.

    An int must be an int (a float of the same value will do if not ``exact``), floats agree to
    1 part in 10⁹, and lists and tuples are taken for each other.
    """
    if isinstance(expected, dict):
        return _compare_dicts(expected, value, where, exact)
    if isinstance(expected, (list, tuple)):
        return _compare_sequences(expected, value, where, exact)
    if not _same_kind(expected, value, exact):
        return Fault(where, kind_of(expected), show(value))
    same = expected == value
    if type(expected) is float or type(value) is float:
        same = math.isclose(expected, value, rel_tol=1e-9, abs_tol=1e-12)
    return None if same else Fault(where, f"{kind_of(expected)} of another value", show(value))


def _same_kind(expected: Any, value: Any, exact: bool) -> bool:
    if type(expected) is float:
        return type(value) in (int, float) and abs(value) < 1e300
    if type(expected) is int and not exact:
        return type(value) is int or (type(value) is float and math.isfinite(value))
    return type(value) is type(expected)


def _compare_dicts(expected: dict[Any, Any], value: Any, where: str, exact: bool) -> Fault | None:
    if not isinstance(value, dict):
        return Fault(where, kind_of(expected), show(value))
    for key, wanted in expected.items():
        if key not in value:
            return Fault(where, f"an entry {show(key)}", "none")
        if fault := compare(wanted, value[key], where=f"{where}[{show(key)}]", exact=exact):
            return fault
    extra = [key for key in value if key not in expected]
    return Fault(where, "no other entry", f"an entry {show(extra[0])} too") if extra else None


def _compare_sequences(expected: Any, value: Any, where: str, exact: bool) -> Fault | None:
    if not isinstance(value, (list, tuple)):
        return Fault(where, kind_of(expected), show(value))
    for index, (wanted, got) in enumerate(zip(expected, value, strict=False)):
        if fault := compare(wanted, got, where=f"{where}[{index}]", exact=exact):
            return fault
    if len(value) != len(expected):
        return Fault(where, "a list of another length", f"{len(value)} items")
    return None


def kind_of(value: Any) -> str:
    """Say what kind of thing a plain value is, without saying the value."""
    if value is None:
        return "None"
    kinds = {bool: "True or False", int: "an int", float: "a number", str: "a text", dict: "a dict"}
    return kinds.get(type(value), "a list")


def show(value: Any) -> str:
    """Write a plain value in at most some 70 characters."""
    text = _text(value, 3)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _text(value: Any, depth: int) -> str:
    kind = type(value)
    if kind is int and abs(value) >= 10**40:
        return f"an int of {value.bit_length():,} bits"
    if kind is float:
        return f"{value!r} (a float)"
    if kind is str:
        return repr(value[:_LONGEST])
    if kind in (list, tuple, dict) and depth:
        inside = ", ".join(_pieces(value, depth - 1))
        if kind is dict:
            return f"{{{inside}}}"
        return f"[{inside}]" if kind is list else f"({inside})"
    if value is None or kind in (bool, int):
        return repr(value)
    return value.what if isinstance(value, Foreign) else "…"


def _pieces(value: Any, depth: int) -> Iterator[str]:
    # More than a line can show is not written at all.
    few = itertools.islice(value.items() if isinstance(value, dict) else value, _MOST_SHOWN)
    for item in few:
        if isinstance(value, dict):
            yield f"{_text(item[0], 0)}: {_text(item[1], depth)}"
        else:
            yield _text(item, depth)
    if len(value) > _MOST_SHOWN:
        yield "…"
