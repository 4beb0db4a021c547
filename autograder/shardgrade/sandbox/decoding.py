"""Build values from what `wire.encode` writes; see [Note: bounds] there."""

import base64
import dataclasses
import importlib
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from .wire import (
    ARRAY_KINDS,
    DEEPEST,
    ENGINE,
    MOST_DIGITS,
    NATIVE,
    TYPES,
    WireError,
    is_engine,
)


def decode(data: Any, resolve: Callable[[list[Any]], Any], depth: int = DEEPEST) -> Any:
    """Build the value; ``resolve`` gets the stand-ins that ``reference`` made.

    Raises:
        WireError: the data is not what `encode` writes.
    """
    if type(data) in NATIVE:
        return data
    if depth == 0 or type(data) is not list or not data or type(data[0]) is not str:
        raise WireError("not readable")
    kind, parts = data[0], data[1:]
    if kind in _NESTED:
        inner = depth - 1
        parts = [part if type(part) in NATIVE else decode(part, resolve, inner) for part in parts]
    elif kind in ("h", "o"):
        return resolve(data)
    elif kind == "e":
        parts = parts[:1] + [decode(part, resolve, depth - 1) for part in parts[1:]]
    if kind == "l":
        return parts
    if kind == "t":
        return tuple(parts)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise WireError("of an unknown kind")
    try:
        return decoder(parts)
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"not readable ({type(error).__name__})") from None


def _dict(parts: list[Any]) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _long(parts: list[Any]) -> int:
    (digits,) = parts
    if len(digits) > MOST_DIGITS + 1:
        raise WireError("an int with too many digits")
    return int(digits, 16)


def _array(parts: list[Any]) -> Any:
    import numpy

    name, shape, text = parts
    dtype = numpy.dtype(_text(name))
    data = base64.b64decode(_text(text), validate=True)
    if dtype.kind not in ARRAY_KINDS or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError("an array of an unknown kind")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise WireError("an array that lies about its shape")
    return numpy.frombuffer(data, dtype).reshape(shape).copy()


def _text(value: Any) -> str:
    if type(value) is not str:
        raise WireError("not readable")
    return value


def _scalar(parts: list[Any]) -> Any:
    name, text = parts
    return _array([name, [1], text])[0]


def _numpy(parts: list[Any]) -> Any:
    import numpy

    kind = getattr(numpy, _text(parts[0]))
    if not (isinstance(kind, type) and issubclass(kind, numpy.generic)):
        raise WireError("of an unknown kind")
    return kind


def _dtype(parts: list[Any]) -> Any:
    import numpy

    return numpy.dtype(_text(parts[0]))


def _engine(name: Any) -> type:
    module, _, path = _text(name).partition(":")
    if not module.startswith(f"{ENGINE}.") or not path.isidentifier():
        raise WireError("of an unknown kind")
    kind = importlib.import_module(module).__dict__[path]
    if not isinstance(kind, type) or not is_engine(kind):
        raise WireError("of an unknown kind")
    return kind


def _engine_value(parts: list[Any]) -> Any:
    kind = _engine(parts[0])
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    return kind(**dict(zip(names, parts[1:], strict=True)))


_NESTED: Final = frozenset("ltdszcrSq")
_DECODERS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "i": _long,
    "f": lambda parts: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[parts[0]],
    "d": _dict,
    "s": set,
    "z": frozenset,
    "b": lambda parts: base64.b64decode(_text(parts[0]), validate=True),
    "B": lambda parts: bytearray(base64.b64decode(_text(parts[0]), validate=True)),
    "c": lambda parts: complex(*parts),
    "r": lambda parts: range(*parts),
    "S": lambda parts: slice(*parts),
    "q": lambda parts: Fraction(*parts),
    "D": lambda parts: Decimal(_text(parts[0])),
    ".": lambda parts: ...,
    "a": _array,
    "n": _scalar,
    "x": _numpy,
    "Y": _dtype,
    "y": lambda parts: TYPES[parts[0]],
    "e": _engine_value,
    "E": lambda parts: _engine(parts[0])[parts[1]],  # type: ignore[index]
}
