"""Text such as ``preset,key=value,…`` cut into its pieces, and values that must be in range."""

from fractions import Fraction

from shardbook.errors import InputError, whole
from shardbook.numbers.units import parse_bytes, parse_count, parse_rate, parse_seconds


def preset_and_pairs(argument: str, text: str) -> tuple[str, list[tuple[str, str]]]:
    """Cut ``preset,key=value,…`` into the preset (or "") and the pairs.

    Raises:
        InputError: a piece that is no pair, or a key given twice.
    """
    pieces = [piece.strip() for piece in text.split(",")]
    first = "" if "=" in pieces[0] else pieces.pop(0)
    pairs: list[tuple[str, str]] = []
    for piece in pieces:
        key, equals, value = (word.strip() for word in piece.partition("="))
        if not (key and equals and value):
            raise InputError(argument, text, "give a preset, then pairs such as nodes=4,cards=8")
        if key in dict(pairs):
            raise InputError(argument, text, f"give {key} once")
        pairs.append((key, value))
    return first, pairs


def within(name: str, value: Fraction, low: Fraction | float, high: Fraction | float) -> float:
    """Return ``value`` if it is in range; raises InputError naming what is allowed."""
    if not low <= value <= high:
        raise InputError(name, value, f"give a number from {float(low):g} to {float(high):g}")
    return float(value)


def number_of(name: str, text: str) -> int:
    """Read a number of nodes or cards."""
    return whole(name, parse_count(name, text), 1, 10**5)


def bytes_of(name: str, text: str) -> int:
    """Read a memory of a node in B; 0 is none."""
    return whole(name, parse_bytes(name, text), 0, 10**18)


def rate_of(name: str, text: str) -> float:
    """Read a bandwidth in B/s."""
    return within(name, parse_rate(name, text), 1, 10**18)


def seconds_of(name: str, text: str) -> float:
    """Read a latency in s."""
    return within(name, parse_seconds(name, text), 0, 1000)


def fraction_of(name: str, text: str) -> float:
    """Read a part of a peak."""
    return within(name, parse_count(name, text), 0.001, 1)
