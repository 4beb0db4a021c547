"""What crosses between the processes arrives as it was, or is refused before it is decoded."""

import math
from collections import Counter, OrderedDict, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardgrade.sandbox.decoding import decode
from shardgrade.sandbox.wire import WireError, encode, pack, unpack

from shardbook.ledger.recipes import RECIPES


def _none(value: Any) -> Any:
    raise WireError("no plain data")


def across(value: Any) -> Any:
    return decode(unpack(pack(encode(value, _none))), _none)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same type, all the way down; nan is nan."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        equal = np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
        return one.dtype == other.dtype and one.shape == other.shape and equal
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return repr(one) == repr(other) if one != one else one == other


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**400), 2**400)
    | st.floats()
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary()
    | st.fractions()
    | st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9))
)
keys = st.integers() | st.text() | st.booleans() | st.tuples(st.integers(), st.text())
values = st.recursive(
    scalars | st.frozensets(keys, max_size=4) | st.sets(keys, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(values)
def test_a_value_arrives_as_it_was(value: Any) -> None:
    assert same(value, across(value))


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", ">f8", "c16", "U3", "S2"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 2)])
def test_an_array_keeps_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    assert same(array, across(array))
    assert across(array).flags.writeable
    if array.ndim:
        assert same(array[::-1].copy(), across(array[::-1]))


@pytest.mark.parametrize("value", [np.float32(0.1), np.int8(3), np.bool_(True), np.float64("nan")])
def test_a_numpy_scalar_keeps_its_type(value: Any) -> None:
    assert type(across(value)) is type(value) and repr(across(value)) == repr(value)


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (namedtuple("P", "x y")(1, 2), (1, 2)),
        (Decimal("1.10"), Decimal("1.10")),
        ([int, np.float32, np.dtype("f4"), ...], [int, np.float32, np.dtype("f4"), ...]),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_containers_cross_as_the_built_in_ones(value: Any, arrives: Any) -> None:
    assert across(value) == arrives and type(across(value)) is type(arrives)


def test_engine_values_cross() -> None:
    for recipe in RECIPES.values():
        assert across(recipe) == recipe and type(across(recipe)) is type(recipe)


class Lies(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise SystemExit

    def __iter__(self) -> Any:
        raise SystemExit


def test_a_container_is_read_through_the_built_in_methods() -> None:
    assert across(Lies(a=1)) == {"a": 1}


def test_what_contains_itself_or_is_too_deep_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = 0
    for _ in range(100):
        deep = (deep,)
    for value in (loop, deep, 1 << 10**7):
        with pytest.raises(WireError):
            across(value)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 10**6,
        b"[" + b"[]," * 3_000_000 + b"1]",
        b"{",
        b"\xff\xfe",
        b"9" * 10_000,
    ],
)
def test_a_hostile_message_is_refused_unread(data: bytes) -> None:
    with pytest.raises(WireError):
        unpack(data)


@pytest.mark.parametrize(
    "data",
    [
        [],
        ["?"],
        [[]],
        {"a": 1},
        ["i", "f" * 200_000],
        ["i", 3],
        ["i", "xyz"],
        ["f", "1e5"],
        ["d", 1],
        ["d", ["l"], 1],
        ["s", ["l"]],
        ["b", "***"],
        ["a", "f8", [10**9, 10**9], ""],
        ["a", "f8", [2], "AAAA"],
        ["a", "f8", [-1], ""],
        ["a", "O", [1], "AAAAAAAAAAA="],
        ["a", "V8", [1], "AAAAAAAAAAA="],
        ["a", {"x": 1}, [1], ""],
        ["x", "load"],
        ["x", "ndarray"],
        ["y", "eval"],
        ["e", "os:system", "ls"],
        ["e", "shardbook.errors:InputError", 1, 2, 3],
        ["e", "shardbook.cli:main"],
        ["e", "shardbook.ledger.recipes:RECIPES", 1],
        ["E", "shardbook.ledger.recipes:Recipe", "mro"],
        ["q", 1, 0],
        ["r", 1, 2, 0],
        ["h", "x", "object", "f", ""],
    ],
)
def test_data_that_no_value_gives_is_refused(data: Any) -> None:
    with pytest.raises(WireError):
        decode(data, _none)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.sampled_from("ilftdszbBcraneExyYqDS."),
        lambda inner: st.lists(inner, max_size=5),
        max_leaves=15,
    )
)
def test_any_data_gives_a_value_or_is_refused(data: Any) -> None:
    try:
        value = decode(data, _none)
    except WireError:
        return
    encode(value, _none)
