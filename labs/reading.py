"""Reads an experiment's configuration: fields checked, errors name field, value and choices."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shardbook.errors import InputError, one_of, real, whole
from shardbook.numbers.units import parse_bytes, parse_rate, parse_seconds


def load(path: Path, known: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the fields of a JSON file: all that are ``known``, and no others.

    Raises:
        InputError: the file can't be read, a field is missing or unknown.
    """
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("--config", str(path), f"can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError("--config", str(path), f"is not JSON: {error}") from None
    return fields("config", given, known)


def fields(name: str, given: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    """Return an object that has all ``known`` fields and no others."""
    given = mapping(name, given)
    for key in given:
        one_of(f"{name} field", key, known)
    for key in known:
        if key not in given:
            raise InputError(f"{name} field", key, "is missing: give it")
    return given


def mapping(name: str, given: Any) -> Mapping[str, Any]:
    """Return an object."""
    if not isinstance(given, dict):
        raise InputError(name, given, "give an object in { }")
    return given


def text(name: str, value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise InputError(name, value, "give text")
    return value


def many(name: str, given: Any, read: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    """Return a list of at least one, each of which ``read`` accepts."""
    if not isinstance(given, list) or not given:
        raise InputError(name, given, "give a list of at least one")
    return tuple(read(name, value) for value in given)


def each_once(name: str, given: Any, read: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    """Return a list as `many` does, that names nothing twice."""
    values = many(name, given, read)
    if len(set(values)) < len(values):
        raise InputError(name, given, "name each once")
    return values


def rate(name: str, value: Any) -> float:
    """Return B/s of a text such as ``50GB/s``."""
    return real(name, parse_rate(name, text(name, value)), 1, 1e18, "B/s")


def size(name: str, value: Any) -> int:
    """Return B of a text such as ``4MiB``."""
    return whole(name, parse_bytes(name, text(name, value)), 1, 10**15)


def seconds(name: str, value: Any) -> float:
    """Return s of a text such as ``5us``."""
    return real(name, parse_seconds(name, text(name, value)), 0, 1e6, "s")
