import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.numbers import formats
from shardbook.numbers.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, Format

#: our format, the other implementation's dtype, and the unsigned int of its width
SECOND = [
    (FP16, np.float16, np.uint16),
    (BF16, ml_dtypes.bfloat16, np.uint16),
    (FP8_E4M3, ml_dtypes.float8_e4m3fn, np.uint8),
    (FP8_E5M2, ml_dtypes.float8_e5m2, np.uint8),
    (Format("FP8 E4M3, IEEE", 4, 3), ml_dtypes.float8_e4m3, np.uint8),
    (Format("FP8 E3M4", 3, 4), ml_dtypes.float8_e3m4, np.uint8),
]
IDS = [f.name for f, _, _ in SECOND]
exact = settings(derandomize=True, deadline=None, max_examples=400)


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)


@pytest.mark.parametrize(("fmt", "dtype", "unsigned"), SECOND, ids=IDS)
def test_every_code_decodes_as_in_numpy_and_ml_dtypes(fmt, dtype, unsigned):
    codes = np.arange(2**fmt.width, dtype=np.uint32).astype(unsigned)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = codes.view(dtype).astype(np.float64)
    assert all(
        same(formats.decode(fmt, int(c)), float(v)) for c, v in zip(codes, values, strict=True)
    )


@pytest.mark.parametrize(("fmt", "dtype", "unsigned"), SECOND, ids=IDS)
def test_every_midpoint_and_its_float32_neighbours_round_as_in_numpy_and_ml_dtypes(
    fmt, dtype, unsigned
):
    """All ties of the format, and what lies just beside them (a sample for the 16-bit ones)."""
    codes = range(0, fmt._top_code, 1 if fmt.width == 8 else 37)
    ends = [(formats.decode(fmt, c), formats.decode(fmt, c + 1)) for c in codes]
    middle = np.array([(a + b) / 2 for a, b in ends])
    middle = middle[middle.astype(np.float32) == middle].astype(np.float32)
    beside = [np.nextafter(middle, np.float32(s * np.inf)) for s in (1, -1)]
    inputs = np.concatenate([middle, -middle, *beside])
    with np.errstate(all="ignore"):
        truth = inputs.astype(dtype).astype(np.float64)
    ours = [formats.round_to(fmt, float(x)) for x in inputs]
    assert all(same(a, float(b)) for a, b in zip(ours, truth, strict=True))


@pytest.mark.parametrize(("fmt", "dtype", "unsigned"), SECOND, ids=IDS)
@exact
@given(st.floats(width=32))
@example(65519.996)
@example(65520.0)
@example(464.0)
@example(465.0)
@example(-0.0)
@example(-1e-30)
def test_any_float32_rounds_and_encodes_as_in_numpy_and_ml_dtypes(fmt, dtype, unsigned, value):
    with np.errstate(all="ignore"):
        truth = np.float32(value).astype(dtype)
    assert same(formats.round_to(fmt, float(np.float32(value))), float(truth))
    if not math.isnan(float(truth)):
        assert formats.encode(fmt, float(np.float32(value))) == int(truth.view(unsigned))


@exact
@given(st.floats())
def test_a_double_rounds_to_fp32_and_fp16_without_double_rounding(value):
    with np.errstate(all="ignore"):
        assert same(formats.round_to(FP32, value), float(np.float64(value).astype(np.float32)))
        assert same(formats.round_to(FP16, value), float(np.float64(value).astype(np.float16)))


@exact
@given(
    st.integers(2, 11),
    st.integers(1, 52),
    st.sampled_from(["ieee", "nan-only"]),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_width_takes_the_nearest_number_and_ties_go_to_even(e, m, specials, value):
    fmt = Format("any", e, m, specials)
    rounded = formats.round_to(fmt, value)
    if not math.isfinite(rounded):
        last = Fraction(formats.decode(fmt, fmt._top_code - 1))
        half = (Fraction(fmt.largest) - last) / 2
        assert abs(Fraction(value)) >= Fraction(fmt.largest) + half
        return
    error = abs(Fraction(rounded) - Fraction(value))
    for other in formats.neighbours(fmt, rounded):
        if math.isinf(other):
            continue
        distance = abs(Fraction(other) - Fraction(value))
        assert error < distance or (error == distance and formats.encode(fmt, rounded) % 2 == 0)
    assert formats.round_to(fmt, rounded) == rounded
    assert math.copysign(1, rounded) == math.copysign(1, value)


def test_double_is_the_identity():
    double = Format("FP64", 11, 52)
    for value in (0.1, -math.pi, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308):
        assert formats.round_to(double, value) == value
        assert formats.encode(double, value) == struct.unpack(">Q", struct.pack(">d", value))[0]


def test_a_fraction_rounds_once():
    """1 + 2⁻¹¹ + 2⁻⁶⁰ is above the tie of FP16; going through a double would land on it."""
    value = 1 + Fraction(1, 2**11) + Fraction(1, 2**60)
    assert formats.round_to(FP16, float(value)) == 1.0
    assert formats.round_to(FP16, value) == 1 + 2**-10


@pytest.mark.parametrize(
    ("fmt", "largest", "normal", "subnormal"),
    [  # IEEE 754-2019 table 3.5; Micikevicius et al. 2022, table 1
        (FP16, 65504.0, 2.0**-14, 2.0**-24),
        (BF16, (2 - 2.0**-7) * 2.0**127, 2.0**-126, 2.0**-133),
        (FP32, (2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-149),
        (FP8_E4M3, 448.0, 2.0**-6, 2.0**-9),
        (FP8_E5M2, 57344.0, 2.0**-14, 2.0**-16),
    ],
    ids=str,
)
def test_limits_are_the_published_ones(fmt, largest, normal, subnormal):
    assert fmt.largest == largest
    assert fmt.smallest_normal == normal
    assert fmt.smallest_subnormal == subnormal


def test_fields_of_a_known_number():
    assert formats.fields(FP16, formats.encode(FP16, -1.5)) == (1, 15, 512)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Format("x", 1, 3),
        lambda: Format("x", 5, 53),
        lambda: Format("x", 5, 2, "none"),
        lambda: formats.decode(FP8_E4M3, 256),
        lambda: formats.fields(FP8_E4M3, -1),
        lambda: formats.neighbours(FP16, math.inf),
        lambda: formats.neighbours(FP16, 65520.0),
    ],
)
def test_what_is_no_format_or_code_is_refused(bad):
    with pytest.raises(InputError):
        bad()
