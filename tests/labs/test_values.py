"""Untrusted values are made plain, compared and shown without asking them anything."""

from collections import Counter, OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.labs.values import Fault, Foreign, compare, kind_of, plain, show

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=5)
    ),
    max_leaves=20,
)


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        raise SystemExit


class Sneaky(dict[str, int]):
    def __len__(self) -> int:
        return 0

    def items(self) -> Any:
        raise SystemExit


@settings(derandomize=True, deadline=None)
@given(plain_values)
def test_plain_data_stays_what_it_is(value: Any) -> None:
    copy = plain(value)
    assert copy == value or isinstance(copy, Foreign)
    assert plain(copy) == copy


@settings(derandomize=True, deadline=None)
@given(plain_values, plain_values)
def test_compare_finds_a_fault_exactly_where_plain_values_differ(one: Any, other: Any) -> None:
    assert compare(one, one) is None
    if compare(one, other) is None:
        assert str(one).replace("(", "[") and kind_of(one) in {kind_of(other), "a number", "a list"}


@settings(derandomize=True, deadline=None)
@given(plain_values)
def test_what_is_shown_is_one_short_line(value: Any) -> None:
    assert len(show(plain(value))) <= 72
    assert len(show(10**5000)) < 72


def test_what_is_not_plain_is_named_by_its_type() -> None:
    for value in (Liar(3), np.int64(3), np.array([3]), {3}, object(), len, float, iter([3])):
        stand_in = plain(value)
        assert isinstance(stand_in, Foreign) and "type" in stand_in.what
        assert compare(3, stand_in)
        assert stand_in.what == show(stand_in)


def test_subclasses_of_containers_count_as_what_they_hold() -> None:
    Point = namedtuple("Point", "x y")
    assert plain(Counter("aab")) == {"a": 2, "b": 1}
    assert plain(OrderedDict(a=1)) == {"a": 1}
    assert plain(Point(1, 2)) == (1, 2)
    assert plain(Sneaky(a=1)) == {"a": 1}


def test_endless_and_huge_values_end() -> None:
    value: list[Any] = []
    value.append(value)
    assert show(plain(value))
    assert isinstance(plain(range(3)), Foreign)
    assert isinstance(plain([0] * 200_000), Foreign)


def test_strange_keys_do_no_harm() -> None:
    assert compare({"a": 1}, plain({Liar(3): 1})) == Fault("result", "an entry 'a'", "none")
    assert plain({(1, 2): 3})


@pytest.mark.parametrize(
    ("expected", "value", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (True, 1, False),
        (1.0, 1, True),
        (1.0, 1 + 1e-12, True),
        (1.0, 1.001, False),
        (0.0, float("nan"), False),
        (None, 0, False),
        ([1, 2], (1, 2), True),
        ([1, 2], [1], False),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {}, False),
        ({"a": [1]}, {"a": [2]}, False),
    ],
)
def test_kinds_and_sizes_count(expected: Any, value: Any, same: bool) -> None:
    assert (compare(expected, plain(value)) is None) is same


def test_a_float_may_stand_for_an_int_where_that_is_allowed() -> None:
    assert compare({"a": 4}, {"a": 4.0}, exact=False) is None
    assert compare({"a": 4}, {"a": 4.5}, exact=False)
    assert compare({"a": 4}, {"a": float("inf")}, exact=False)


def test_a_fault_names_the_place_and_the_kind_but_not_the_value() -> None:
    fault = compare({"momentum": (12, 8)}, {"momentum": (12, 7)})
    assert str(fault) == "result['momentum'][1]: expected an int of another value, got 7"
