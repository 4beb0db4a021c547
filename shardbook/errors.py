"""The one error for input that a user can mend, and the checks that raise it.

Numbers are checked once, where they enter (a command, a control, a public function);
behind that edge the engine trusts them.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any


class InputError(ValueError):
    """A value the user gave is not usable: names the argument, the value and what is allowed."""

    def __init__(self, argument: str, value: object, allowed: str) -> None:
        self.argument = argument
        self.value = value
        self.allowed = allowed
        shown = "not given" if value is None else _shown(value)
        super().__init__(f"{argument} is {shown}: {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (InputError, (self.argument, self.value, self.allowed))


def whole(argument: str, value: Any, low: int, high: int) -> int:
    """Return ``value`` as an int in [``low``, ``high``]; 8e9 is whole, 1.5 and True are not."""
    if type(value) is int and low <= value <= high:
        return value  # nearly always, and what is allowed takes longer to write than to check
    allowed = f"give a whole number from {low:,} to {high:,}"
    fractional = isinstance(value, (float, Fraction))
    if isinstance(value, bool) or not (fractional or hasattr(value, "__index__")):
        raise InputError(argument, value, allowed)
    if fractional and not (math.isfinite(value % 1) and value % 1 == 0):
        raise InputError(argument, value, allowed)
    if not low <= value <= high:
        raise InputError(argument, value, allowed)
    return int(value)


def real(argument: str, value: Any, low: float, high: float, unit: str = "") -> float:
    """Return ``value`` as a finite float in [``low``, ``high``]."""
    if type(value) is float and low <= value <= high and math.isfinite(value):
        return value
    allowed = f"give a number from {low:,g} to {high:,g}{' ' + unit if unit else ''}"
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise InputError(argument, value, allowed)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(argument, value, allowed) from None
    if not (math.isfinite(number) and low <= number <= high):
        raise InputError(argument, value, allowed)
    return number


def one_of(argument: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    names = list(choices)
    if not isinstance(value, str) or value not in names:
        raise InputError(argument, value, "give one of " + ", ".join(names))
    return value


def _shown(value: object) -> str:
    try:
        # Commands and controls read what a user typed as fractions.
        text = f"{float(value):.15g}" if isinstance(value, Fraction) else repr(value)
    except OverflowError:
        text = "a number beyond 1e308"
    except ValueError:  # an int beyond the interpreter's digit limit
        text = f"an integer of {int(value).bit_length():,} bits"  # type: ignore[call-overload]
    return text if len(text) <= 80 else text[:77] + "..."
