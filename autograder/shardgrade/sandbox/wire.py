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
import json
import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from types import EllipsisType
from typing import Any, Final

DEEPEST: Final = 40
_MOST_ITEMS: Final = 2_000_000
MOST_DIGITS: Final = 100_000  # hexadecimal
_JSON_INT: Final = 2**63
_BASE64: Final = (bytes, bytearray)
ARRAY_KINDS: Final = "biufcSU"
#: frozen dataclasses and enums of this package cross as values
ENGINE: Final = "shardbook"
TYPES: Final = {
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


def encode(value: Any, reference: Callable[[Any], Any], depth: int = DEEPEST) -> Any:
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
    if value.bit_length() > 4 * MOST_DIGITS:
        raise WireError("an int with too many digits")
    return ["i", format(value, "x")]


def _encode_known(value: Any, kind: type, reference: Callable[[Any], Any], depth: int) -> Any:
    if isinstance(value, type):
        name = type.__dict__["__name__"].__get__(value)
        return ["y", name] if TYPES.get(name) is value else _numpy_type(value)
    if is_engine(kind):
        name = f"{kind.__module__}:{kind.__qualname__}"
        if isinstance(value, enum.Enum):
            return ["E", name, value.name]
        fields = [getattr(value, field.name) for field in dataclasses.fields(value) if field.init]
        return ["e", name, *(encode(item, reference, depth - 1) for item in fields)]
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.ndarray) and value.dtype.kind in ARRAY_KINDS:
        whole = numpy.ascontiguousarray(value)
        return ["a", whole.dtype.str, list(value.shape), _to_text(whole.tobytes())]
    if isinstance(value, numpy.generic) and value.dtype.kind in ARRAY_KINDS:
        return ["n", value.dtype.str, _to_text(value.tobytes())]
    if isinstance(value, numpy.dtype) and value.kind in ARRAY_KINDS:
        return ["Y", value.str]
    return None


def _numpy_type(value: type) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(value, numpy.generic) and value.__module__ == "numpy":
        return ["x", value.__name__]
    return None


def is_engine(kind: type) -> bool:
    """Whether values of this class cross as values."""
    module = kind.__dict__.get("__module__")
    if not isinstance(module, str) or not module.startswith(f"{ENGINE}."):
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
NATIVE: Final = frozenset({type(None), bool, int, float, str})

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
