"""Binary floating-point formats: rounding to any exponent and mantissa width, exact to the bit.

A value rounds to the nearest representable one, a tie to the even mantissa (IEEE 754-2019,
roundTiesToEven), straight from the exact rational number: there is no double rounding.
The two 8-bit formats follow Micikevicius et al. 2022, "FP8 Formats for Deep Learning", table 1.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from shardbook.errors import InputError, one_of, whole

Number = float | Fraction


@dataclass(frozen=True, slots=True)
class Format:
    """A sign bit, ``exponent_bits`` (2 to 11) and ``mantissa_bits`` (1 to 52).

    ``specials`` says what the largest exponent field holds: ``ieee`` infinities and NaN,
    ``nan-only`` ordinary numbers except for one NaN, all bits set (E4M3: the largest number is
    448 instead of 240, and what overflows becomes NaN, as in ml_dtypes; PyTorch 2.13 keeps 448).

    Raises:
        InputError: a width is out of range, or ``specials`` is unknown.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    specials: Literal["ieee", "nan-only"] = "ieee"

    def __post_init__(self) -> None:
        whole("exponent_bits", self.exponent_bits, 2, 11)
        whole("mantissa_bits", self.mantissa_bits, 1, 52)
        one_of("specials", self.specials, ("ieee", "nan-only"))

    def __str__(self) -> str:
        return self.name

    @property
    def width(self) -> int:
        """Bits of one number."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        """What is subtracted from the exponent field."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def lowest_exponent(self) -> int:
        """The exponent of the smallest normal number; subnormals share its spacing."""
        return 1 - self.bias

    @property
    def smallest_normal(self) -> float:
        """The smallest number with a full mantissa."""
        return math.ldexp(1.0, self.lowest_exponent)

    @property
    def smallest_subnormal(self) -> float:
        """The smallest number above zero."""
        return math.ldexp(1.0, self.lowest_exponent - self.mantissa_bits)

    @property
    def epsilon(self) -> float:
        """From 1 to the next number."""
        return math.ldexp(1.0, -self.mantissa_bits)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return decode(self, self._top_code)

    @property
    def _top_code(self) -> int:
        """The bits of the largest finite number."""
        all_ones = (1 << (self.width - 1)) - 1
        return all_ones - (1 if self.specials == "nan-only" else 1 << self.mantissa_bits)


FP32: Final = Format("FP32", 8, 23)
FP16: Final = Format("FP16", 5, 10)
BF16: Final = Format("BF16", 8, 7)
FP8_E4M3: Final = Format("FP8 E4M3", 4, 3, "nan-only")
FP8_E5M2: Final = Format("FP8 E5M2", 5, 2)
#: name → format
FORMATS: Final = {f.name: f for f in (FP32, FP16, BF16, FP8_E4M3, FP8_E5M2)}


def encode(fmt: Format, value: Number) -> int:
    """Return the bits of ``value`` rounded to ``fmt``, as an unsigned int of ``fmt.width`` bits.

    Overflow gives infinity, or NaN in a format without infinities. NaN loses its payload.
    """
    sign = _sign_bit(fmt, value)
    if isinstance(value, float) and math.isnan(value):
        return _nan_code(fmt)
    if isinstance(value, float) and math.isinf(value):
        return sign | _overflow_code(fmt)
    top, bottom = value.as_integer_ratio()
    magnitude = _nearest_code(fmt, abs(top), bottom)
    return sign | (magnitude if magnitude <= fmt._top_code else _overflow_code(fmt))


def decode(fmt: Format, bits: int) -> float:
    """Return the number that ``bits`` (0 to 2^width − 1) stand for.

    Raises:
        InputError: ``bits`` has more than ``fmt.width`` bits or is negative.
    """
    return _decoded(fmt, whole("bits", bits, 0, (1 << fmt.width) - 1))


def _decoded(fmt: Format, bits: int) -> float:
    magnitude = bits & ((1 << (fmt.width - 1)) - 1)
    sign = -1.0 if bits != magnitude else 1.0
    if magnitude > fmt._top_code:
        overflowed = fmt.specials == "ieee" and magnitude == _overflow_code(fmt)
        return sign * math.inf if overflowed else math.nan
    field, mantissa = divmod(magnitude, 1 << fmt.mantissa_bits)
    if field:
        mantissa += 1 << fmt.mantissa_bits
    exponent = max(field, 1) - fmt.bias
    return sign * math.ldexp(mantissa, exponent - fmt.mantissa_bits)


def round_to(fmt: Format, value: Number) -> float:
    """Return the number of ``fmt`` nearest to ``value``, a tie to the even mantissa."""
    return _decoded(fmt, encode(fmt, value))


def fields(fmt: Format, bits: int) -> tuple[int, int, int]:
    """Split ``bits`` into sign, exponent and mantissa fields."""
    whole("bits", bits, 0, (1 << fmt.width) - 1)
    rest, mantissa = divmod(bits, 1 << fmt.mantissa_bits)
    sign, exponent = divmod(rest, 1 << fmt.exponent_bits)
    return sign, exponent, mantissa


def neighbours(fmt: Format, value: Number) -> tuple[float, float]:
    """Return the numbers of ``fmt`` next below and next above ``value`` rounded to ``fmt``.

    Raises:
        InputError: ``value`` rounds to no finite number.
    """
    rounded = round_to(fmt, value)
    if not math.isfinite(rounded):
        raise InputError("value", value, f"give a number that is finite in {fmt}")
    if rounded == 0:
        return -fmt.smallest_subnormal, fmt.smallest_subnormal
    magnitude = encode(fmt, abs(rounded))
    inner = decode(fmt, magnitude - 1)
    outer = decode(fmt, magnitude + 1) if magnitude < fmt._top_code else math.inf
    return (inner, outer) if rounded > 0 else (-outer, -inner)


def _sign_bit(fmt: Format, value: Number) -> int:
    negative = math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0
    return 1 << (fmt.width - 1) if negative else 0


def _nan_code(fmt: Format) -> int:
    if fmt.specials == "nan-only":
        return (1 << (fmt.width - 1)) - 1
    return _overflow_code(fmt) + (1 << (fmt.mantissa_bits - 1))


def _overflow_code(fmt: Format) -> int:
    if fmt.specials == "nan-only":
        return _nan_code(fmt)
    return ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits


def _nearest_code(fmt: Format, top: int, bottom: int) -> int:
    """Round a rational ≥ 0, ``top`` over ``bottom``, to a code; it may lie beyond the largest one.

    Codes of positive numbers are consecutive integers in the order of the numbers, so a
    mantissa that rounds up to the next power of two carries into the exponent by itself.
    """
    if top == 0:
        return 0
    exponent = top.bit_length() - bottom.bit_length()
    if _shifted(bottom, exponent) > _shifted(top, -exponent):
        exponent -= 1
    exponent = max(exponent, fmt.lowest_exponent)
    shift = fmt.mantissa_bits - exponent
    bottom = _shifted(bottom, -shift)
    steps, rest = divmod(_shifted(top, shift), bottom)
    if 2 * rest > bottom or (2 * rest == bottom and steps % 2 == 1):
        steps += 1
    return steps + ((exponent - fmt.lowest_exponent) << fmt.mantissa_bits)


def _shifted(number: int, bits: int) -> int:
    """Multiply by 2^bits, if there are any: a quotient is scaled from either end, without loss."""
    return number << bits if bits > 0 else number
