"""Values on their way between a student's process and the check's: plain data as JSON text.

[Note: bounds] What a student's process sends is hostile until proven otherwise. Its bytes and items
are counted before anything is decoded, JSON's own decoder refuses deep nesting, and each value is
built by the code here from its kind and its parts; nothing in a message names code to run. A
container of another class crosses as the built-in one, read through the built-in's own methods.

Every value but None, bool, int, float and str is a JSON list that begins with its kind.
"""

import base64
import dataclasses
import enum
import importlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from types import EllipsisType
from typing import Any, Final

_DEEPEST: Final = 40
_MOST_ITEMS: Final = 2_000_000
_MOST_DIGITS: Final = 100_000  # hexadecimal
_JSON_INT: Final = 2**63
_BASE64: Final = (bytes, bytearray)
_ARRAY_KINDS: Final = "biufcSU"
#: frozen dataclasses and enums of this package cross as values
_ENGINE: Final = "shardbook"
_TYPES: Final = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range),
        *(object, type, slice, bytearray, type(None), Fraction, Decimal),
    )
}


# Made once; `json.dumps` would make one for each message.
_write: Final = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, check_circular=False
).encode


class WireError(ValueError):
    """A value that can't cross: too deep, too large, or not what it says it is."""


def pack(message: Any) -> bytes:
    """Write a message: JSON data whose values went through `encode`."""
    return _write(message).encode()


def unpack(data: bytes) -> Any:
    """Read a message from bytes that were counted already; `WireError` if it is none."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MOST_ITEMS:
        raise WireError("too many items")
    try:
        return json.loads(data.decode())
    except RecursionError:
        raise WireError("nested too deep") from None
    except ValueError:
        raise WireError("not readable") from None


def encode(value: Any, reference: Callable[[Any], Any], depth: int = _DEEPEST) -> Any:
    """Return ``value`` as JSON data; ``reference`` stands in for what is no plain data.

    Raises:
        WireError: it is nested too deep (it may contain itself) or too large.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return _encode_int(value)
    if kind is float:
        return value if math.isfinite(value) else ["f", repr(value)]
    if depth == 0:
        raise WireError("nested too deep")
    # What is sent most, without a detour.
    deeper = depth - 1
    if kind is list or kind is tuple or kind is dict:
        return [
            _OFTEN[kind],
            *[
                item
                if type(item) is str or (type(item) is int and -_JSON_INT < item < _JSON_INT)
                else encode(item, reference, deeper)
                for item in (_pairs(value) if kind is dict else value)
            ],
        ]
    encoder = _ENCODERS.get(kind) or next(
        (_ENCODERS[base] for base in kind.__mro__ if base in _ENCODERS and base not in _EXACT), None
    )
    if encoder is not None:
        return encoder(value, lambda item: encode(item, reference, depth - 1))
    if (known := _encode_known(value, kind, reference, depth)) is not None:
        return known
    return reference(value)


def _encode_int(value: int) -> Any:
    if -_JSON_INT < value < _JSON_INT:
        return value
    if value.bit_length() > 4 * _MOST_DIGITS:
        raise WireError("an int with too many digits")
    return ["i", format(value, "x")]


def _encode_known(value: Any, kind: type, reference: Callable[[Any], Any], depth: int) -> Any:
    if isinstance(value, type):
        name = type.__dict__["__name__"].__get__(value)
        return ["y", name] if _TYPES.get(name) is value else _numpy_type(value)
    if _is_engine(kind):
        name = f"{kind.__module__}:{kind.__qualname__}"
        if isinstance(value, enum.Enum):
            return ["E", name, value.name]
        fields = [getattr(value, field.name) for field in dataclasses.fields(value) if field.init]
        return ["e", name, *(encode(item, reference, depth - 1) for item in fields)]
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.ndarray) and value.dtype.kind in _ARRAY_KINDS:
        whole = numpy.ascontiguousarray(value)
        return ["a", whole.dtype.str, list(value.shape), _to_text(whole.tobytes())]
    if isinstance(value, numpy.generic) and value.dtype.kind in _ARRAY_KINDS:
        return ["n", value.dtype.str, _to_text(value.tobytes())]
    if isinstance(value, numpy.dtype) and value.kind in _ARRAY_KINDS:
        return ["Y", value.str]
    return None


def _numpy_type(value: type) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(value, numpy.generic) and value.__module__ == "numpy":
        return ["x", value.__name__]
    return None


def _is_engine(kind: type) -> bool:
    module = kind.__dict__.get("__module__")
    if not isinstance(module, str) or not module.startswith(f"{_ENGINE}."):
        return False
    parameters = kind.__dict__.get("__dataclass_params__")
    return issubclass(kind, enum.Enum) or bool(parameters and parameters.frozen)


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pairs(value: dict[Any, Any]) -> Iterator[Any]:
    for key, item in dict.items(value):
        yield key
        yield item


_OFTEN: Final[dict[type, str]] = {list: "l", tuple: "t", dict: "d"}

#: what JSON has itself
_NATIVE: Final = frozenset({type(None), bool, int, float, str})

_Inner = Callable[[Any], Any]

#: a subclass crosses as the base, but for those in `_EXACT`
_ENCODERS: Final[dict[type, Callable[[Any, _Inner], Any]]] = {
    list: lambda v, inner: ["l", *map(inner, list.__iter__(v))],
    tuple: lambda v, inner: ["t", *map(inner, tuple.__iter__(v))],
    dict: lambda v, inner: ["d", *map(inner, _pairs(v))],
    set: lambda v, inner: ["s", *map(inner, set.__iter__(v))],
    frozenset: lambda v, inner: ["z", *map(inner, frozenset.__iter__(v))],
    bytes: lambda v, inner: ["b", _to_text(bytes.__getitem__(v, slice(None)))],
    bytearray: lambda v, inner: ["B", _to_text(bytes(memoryview(v)))],
    complex: lambda v, inner: ["c", inner(v.real), inner(v.imag)],
    range: lambda v, inner: ["r", inner(v.start), inner(v.stop), inner(v.step)],
    slice: lambda v, inner: ["S", inner(v.start), inner(v.stop), inner(v.step)],
    Fraction: lambda v, inner: ["q", inner(v.numerator), inner(v.denominator)],
    Decimal: lambda v, inner: ["D", str(v)],
    EllipsisType: lambda v, inner: ["."],
}
# The parts of these are read through attributes, which a subclass could have changed. A scalar's
# subclass is not plain: an IntEnum or a str of one's own stays an object with its own class.
_EXACT: Final = frozenset({complex, range, slice, Fraction, Decimal})


def decode(data: Any, resolve: Callable[[list[Any]], Any], depth: int = _DEEPEST) -> Any:
    """Build the value; ``resolve`` gets the stand-ins that ``reference`` made.

    Raises:
        WireError: the data is not what `encode` writes.
    """
    if type(data) in _NATIVE:
        return data
    if depth == 0 or type(data) is not list or not data or type(data[0]) is not str:
        raise WireError("not readable")
    kind, parts = data[0], data[1:]
    if kind in _NESTED:
        inner = depth - 1
        parts = [part if type(part) in _NATIVE else decode(part, resolve, inner) for part in parts]
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
    if len(digits) > _MOST_DIGITS + 1:
        raise WireError("an int with too many digits")
    return int(digits, 16)


def _array(parts: list[Any]) -> Any:
    import numpy

    name, shape, text = parts
    dtype = numpy.dtype(_text(name))
    data = base64.b64decode(_text(text), validate=True)
    if dtype.kind not in _ARRAY_KINDS or not all(type(n) is int and n >= 0 for n in shape):
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
    if not module.startswith(f"{_ENGINE}.") or not path.isidentifier():
        raise WireError("of an unknown kind")
    kind = importlib.import_module(module).__dict__[path]
    if not isinstance(kind, type) or not _is_engine(kind):
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
    "y": lambda parts: _TYPES[parts[0]],
    "e": _engine_value,
    "E": lambda parts: _engine(parts[0])[parts[1]],  # type: ignore[index]
}
