"""Sizes, rates and times as typed, and the one error for input that can't be used."""

import pickle
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError, one_of, real, whole
from shardbook.numbers import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_count, "7.5e9", 7_500_000_000),
        (units.parse_count, "7.5B", 7_500_000_000),
        (units.parse_count, "1T", 10**12),
        (units.parse_count, "8_000", 8000),
        (units.parse_count, "32,656", 32656),
        (units.parse_bytes, "1GiB", 2**30),
        (units.parse_bytes, "1GB", 10**9),
        (units.parse_bytes, "25 MB", 25 * 10**6),
        (units.parse_bytes, "12", 12),
        (units.parse_rate, "50GB/s", 50 * 10**9),
        (units.parse_rate, "400Gb/s", 50 * 10**9),
        (units.parse_rate, "5e10", 5 * 10**10),
        (units.parse_rate, "1GiB/s", 2**30),
        (units.parse_seconds, "5us", Fraction(5, 10**6)),
        (units.parse_seconds, "5µs", Fraction(5, 10**6)),
        (units.parse_seconds, "0.02", Fraction(1, 50)),
        (units.parse_flops, "312TFLOP/s", 312 * 10**12),
        (units.parse_flops, "989.4T", Fraction(9894, 10) * 10**12),
        (units.parse_flops, "1EFLOP/s", 10**18),
        (units.parse_flops, "2P", 2 * 10**15),
        (units.parse_flops, "1E3", 1000),
        (units.parse_bytes, "1.5EB", Fraction(3, 2) * 10**18),
        (units.parse_bytes, "1EiB", 2**60),
    ],
)
def test_a_quantity_is_read_exactly(parse, text: str, value: Fraction) -> None:
    assert parse("x", text) == value


@pytest.mark.parametrize(
    "parse",
    [
        units.parse_count,
        units.parse_bytes,
        units.parse_rate,
        units.parse_seconds,
        units.parse_flops,
    ],
)
@pytest.mark.parametrize(
    "text",
    ["", "GB", "1 2", "nan", "inf", "0x10", "1e9999", "--1", "1QB", "5 parsecs", "9" * 99, "٣"],
)
def test_a_quantity_that_is_none_is_refused_by_name(parse, text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse("--size", text)
    assert caught.value.argument == "--size"
    assert "\n" not in str(caught.value)


def test_bits_and_bytes_and_binary_prefixes_are_never_mixed() -> None:
    with pytest.raises(InputError):
        units.parse_bytes("x", "1Gb")
    with pytest.raises(InputError):
        units.parse_rate("x", "50GB")
    assert units.parse_bytes("x", "1GiB") != units.parse_bytes("x", "1GB")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (units.format_bytes(31_406_250_000), "31.41 GB"),
        (units.format_bytes(128 * 10**9), "128 GB"),
        (units.format_bytes(2**30, binary=True), "1 GiB"),
        (units.format_bytes(0), "0 B"),
        (units.format_bytes(999_999), "1 MB"),
        (units.format_bytes(1500), "1.5 kB"),
        (units.format_count(32_656), "32,656"),
        (units.format_count(7.5e9), "7.5B"),
        (units.format_count(10**12), "1T"),
        (units.format_seconds(0.0322122), "32.2 ms"),
        (units.format_seconds(2.5e-6), "2.5 µs"),
        (units.format_seconds(0.3 - 0.1 - 0.2), "0 s"),
    ],
)
def test_a_quantity_is_said_as_it_is_spoken(said: str, text: str) -> None:
    assert said == text


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 10**18), st.integers(3, 9))
def test_what_is_said_reads_back_within_its_digits(size: int, digits: int) -> None:
    back = units.parse_bytes("x", units.format_bytes(size, digits))
    assert abs(back - size) <= Fraction(size, 10 ** (digits - 1))


@pytest.mark.parametrize(
    "value", [1.5, float("nan"), float("inf"), True, "3", None, 0, 11, Fraction(1, 3)]
)
def test_what_is_not_a_whole_number_in_range_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^ranks is .*: give a whole number from 1 to 10$"):
        whole("ranks", value, 1, 10)


@pytest.mark.parametrize("value", [3, 3.0, Fraction(3)])
def test_a_whole_number_may_come_in_any_type(value: object) -> None:
    assert whole("ranks", value, 1, 10) == 3
    assert type(whole("ranks", value, 1, 10)) is int


@pytest.mark.parametrize("value", [float("nan"), "1", None, True, -1, 10**400, [1]])
def test_what_is_not_a_number_in_range_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^time is .*: give a number from 0 to 10 s$"):
        real("time", value, 0, 10, "s")


def test_a_huge_value_is_shown_short() -> None:
    for value in (10**5000, Fraction(10**400), "x" * 1000):
        with pytest.raises(InputError) as caught:
            whole("n", value, 1, 2)
        assert len(str(caught.value)) < 160


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(InputError, match="give one of ring, tree"):
        one_of("algorithm", "rings", ["ring", "tree"])


def test_an_input_error_crosses_processes() -> None:
    error = InputError("ranks", 0, "give more")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
