"""Sizes, rates and times as a person writes and reads them.

GB = 10⁹ B and GiB = 2³⁰ B are never mixed: decimal prefixes are powers of 1000, binary ones
(Ki to Ei) powers of 1024. A small ``b`` is a bit: 400Gb/s = 50 GB/s. Bandwidth is one-way.
"""

import re
from fractions import Fraction
from typing import Final

from shardbook.errors import InputError

GB: Final = 10**9
GIB: Final = 2**30

_DECIMAL: Final = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_PREFIXES: Final = _DECIMAL | _BINARY
_COUNTS: Final = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_SECONDS: Final[dict[str, Fraction]] = {
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "min": Fraction(60),
    "h": Fraction(3600),
}
_NUMBER: Final = re.compile(
    r"\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([^\d\s]*)\s*", re.ASCII
)


def _split(argument: str, text: str, allowed: str) -> tuple[Fraction, str]:
    match = _NUMBER.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise InputError(argument, text, allowed)
    return Fraction(match[1].replace(",", "").replace("_", "")), match[2]


def parse_count(argument: str, text: str) -> Fraction:
    """Read a plain count such as ``7.5e9``, ``7.5B`` (billion), ``8_000`` or ``1T``."""
    allowed = "give a number such as 7.5e9, 7.5B or 8000000000"
    number, suffix = _split(argument, text, allowed)
    scale = _COUNTS.get(suffix.upper())
    if scale is None:
        raise InputError(argument, text, allowed)
    return number * scale


def parse_bytes(argument: str, text: str) -> Fraction:
    """Read a size in bytes: ``1GiB``, ``25MB`` or a bare number of bytes."""
    allowed = "give bytes, such as 1GiB, 80GB or 1073741824"
    number, unit = _split(argument, text, allowed)
    scale = _PREFIXES.get(unit.removesuffix("B"))
    if scale is None or (unit and not unit.endswith("B")):
        raise InputError(argument, text, allowed)
    return number * scale


def parse_rate(argument: str, text: str) -> Fraction:
    """Read a bandwidth in B/s: ``50GB/s``, ``400Gb/s`` (bits) or a bare number of B/s."""
    allowed = "give a one-way bandwidth, such as 50GB/s, 400Gb/s or 5e10 (B/s)"
    number, unit = _split(argument, text, allowed)
    if not unit:
        return number
    stem = unit.removesuffix("/s")
    scale = _PREFIXES.get(stem[:-1])
    if stem == unit or scale is None or stem[-1:] not in ("B", "b"):
        raise InputError(argument, text, allowed)
    return number * scale / (8 if stem.endswith("b") else 1)


def parse_seconds(argument: str, text: str) -> Fraction:
    """Read a time in seconds: ``5us``, ``1.5ms`` or a bare number of seconds."""
    allowed = "give a time, such as 5us, 1.5ms or 0.02 (seconds)"
    number, unit = _split(argument, text, allowed)
    scale = _SECONDS.get(unit or "s")
    if scale is None:
        raise InputError(argument, text, allowed)
    return number * scale


def parse_flops(argument: str, text: str) -> Fraction:
    """Read a compute rate in FLOP/s: ``312TFLOP/s``, ``989.4T`` or a bare number of FLOP/s."""
    allowed = "give a compute rate, such as 312TFLOP/s or 3.12e14 (FLOP/s)"
    number, unit = _split(argument, text, allowed)
    stem = unit
    for ending in ("FLOP/s", "FLOPS", "FLOPs"):
        stem = stem.removesuffix(ending)
    if stem not in _DECIMAL:
        raise InputError(argument, text, allowed)
    return number * _DECIMAL[stem]


def _significant(value: float, digits: int) -> str:
    """Write ``value`` with ``digits`` significant digits, without an exponent or needless zeros."""
    text = f"{value:,.{digits}g}"
    if "e" in text:
        text = f"{float(text.replace(',', '')):,.0f}"
    return text


def format_bytes(size: float, digits: int = 4, *, binary: bool = False) -> str:
    """Say a size in bytes: ``31.41 GB``, or with ``binary`` ``29.25 GiB``."""
    step, names = (1024, "B KiB MiB GiB TiB PiB") if binary else (1000, "B kB MB GB TB PB")
    return _scaled(size, step, names.split(), digits)


def format_count(number: float, digits: int = 4) -> str:
    """Say a count: ``7.5 billion`` is written ``7.5B``, 32,656 stays ``32,656``."""
    if abs(number) < 10**6:
        return f"{number:,.0f}" if float(number).is_integer() else _significant(number, digits)
    return _scaled(number, 1000, ["", "K", "M", "B", "T", "P"], digits).replace(" ", "")


def format_seconds(seconds: float, digits: int = 3) -> str:
    """Say a time: ``32.2 ms``; below a picosecond ``0 s``, which is what a sum of floats leaves."""
    if abs(seconds) < 1e-12:
        return "0 s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size or unit == "µs":
            break
    return f"{_significant(seconds / size, digits)} {unit}"


def _scaled(value: float, step: int, names: list[str], digits: int) -> str:
    scaled, index = float(value), 0
    while abs(float(f"{scaled:.{digits}g}")) >= step and index < len(names) - 1:
        scaled, index = scaled / step, index + 1
    return f"{_significant(scaled, digits)} {names[index]}".rstrip()
