"""The controls an explorer declares: each reads one parameter from the text a reader gives it.

Every host (a notebook, the published page, a test) builds its own form from these values and
hands the raw text back, so that limits and error messages exist once, here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardbook.errors import InputError, one_of, real, whole
from shardbook.numbers import units

Value = int | float | str | bool

_PARSERS: Final[dict[str, Callable[[str, str], Fraction]]] = {
    "count": units.parse_count,
    "bytes": units.parse_bytes,
    "rate": units.parse_rate,
    "seconds": units.parse_seconds,
}


@dataclass(frozen=True, slots=True)
class Number:
    """A number with limits: a text field, and a slider over ``stops`` (which may be uneven).

    The field takes any value from ``low`` to ``high``; the slider only visits the stops and the
    value with which a page begins. ``kind`` says how the text is read: ``count`` (7.5B), ``bytes``
    (80GB), ``rate`` or ``seconds``.
    """

    name: str
    label: str
    default: str
    stops: tuple[str, ...]
    low: float
    high: float
    integer: bool = True
    kind: str = "count"
    unit: str = ""

    def parse(self, text: str) -> Value:
        """Return the value that ``text`` spells; raises `InputError` naming this control."""
        value = _PARSERS[self.kind](self.name, text)
        if self.integer:
            return whole(self.name, value, int(self.low), int(self.high))
        return real(self.name, value, self.low, self.high, self.unit)

    def stops_with(self, text: str) -> tuple[str, ...]:
        """Return the stops in order with ``text`` among them, so that a slider can stand on it."""
        read = _PARSERS[self.kind]
        at = read(self.name, text)
        below = [stop for stop in self.stops if read(self.name, stop) < at]
        above = [stop for stop in self.stops if read(self.name, stop) > at]
        return (*below, text, *above)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few named options: pairs of value and label."""

    name: str
    label: str
    default: str
    options: tuple[tuple[str, str], ...]

    def parse(self, text: str) -> Value:
        """Return ``text`` if it is an option; raises `InputError` naming this control."""
        return one_of(self.name, text, [value for value, _ in self.options])


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off; its text is ``on`` or ``off``."""

    name: str
    label: str
    default: str

    def parse(self, text: str) -> Value:
        """Return whether ``text`` is ``on``; raises `InputError` naming this control."""
        return one_of(self.name, text, ["on", "off"]) == "on"


@dataclass(frozen=True, slots=True)
class Steps:
    """A step-through from 0 to ``last``: a slider with back and forward buttons.

    When other controls make the sequence shorter, the explorer shows its last step.
    """

    name: str
    label: str
    default: str
    last: int

    def parse(self, text: str) -> Value:
        """Return the step as an int; raises `InputError` naming this control."""
        return whole(self.name, units.parse_count(self.name, text), 0, self.last)


@dataclass(frozen=True, slots=True)
class Text:
    """Several lines that a reader writes, and a menu of ``presets`` that fills them in.

    ``presets`` are pairs of label and text; the first is the default. ``most``: characters.
    """

    name: str
    label: str
    presets: tuple[tuple[str, str], ...]
    most: int = 4000

    @property
    def default(self) -> str:
        """The text of the first preset."""
        return self.presets[0][1]

    def parse(self, text: str) -> Value:
        """Return the text; raises `InputError` naming this control if it is empty or too long."""
        if not text.strip() or len(text) > self.most:
            raise InputError(self.name, text, f"give a text of at most {self.most:,} characters")
        return text


Control = Number | Choice | Switch | Steps | Text


def decades(first: int, last: int, digits: tuple[str, ...] = ("1", "2", "5")) -> tuple[str, ...]:
    """Return slider stops ``1e6, 2e6, 5e6, 1e7, …, 10^last`` spelled as counts."""
    stops = [f"{digit}e{power}" for power in range(first, last) for digit in digits]
    return (*stops, f"1e{last}")


def doublings(last: int) -> tuple[str, ...]:
    """Return slider stops ``1, 2, 4, …, 2^last``."""
    return tuple(str(2**power) for power in range(last + 1))


def parse_all(controls: tuple[Control, ...], raw: dict[str, str]) -> dict[str, Value]:
    """Read every control from ``raw`` (missing ones take their default).

    Raises `InputError` for a name no control has, or a text its control refuses.
    """
    known = {control.name for control in controls}
    for name in raw:
        if name not in known:
            raise InputError(
                name, raw[name], "there is no such control: " + ", ".join(sorted(known))
            )
    return {
        control.name: control.parse(raw.get(control.name, control.default)) for control in controls
    }
