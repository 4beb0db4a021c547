"""Does this update survive? A weight, an update, and the numbers that a format has around them."""

import math

from shardbook.errors import InputError
from shardbook.explorers.controls import Choice, Number, Switch
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.number_line import Case, case_of, figure, say, short
from shardbook.explorers.view import Table, View
from shardbook.numbers.formats import FORMATS, Format


def _draw(
    weight: float, update: float, direction: str, format: str, master: bool, count: int,
    exponent_bits: int, mantissa_bits: int,
) -> View:  # fmt: skip
    own = Format("your format", exponent_bits, mantissa_bits)
    signed = update if direction == "plus" else -update
    chosen = case_of({**FORMATS, "own": own}[format], weight, signed, count)
    drawn = figure(chosen, master, count)
    return View(drawn, _table(own, weight, signed, count), _sentence(chosen, master, count))


def _table(own: Format, weight: float, update: float, count: int) -> Table:
    rows = []
    for fmt in (*FORMATS.values(), own):
        try:
            case = case_of(fmt, weight, update, count)
        except InputError:
            rows.append((_named(fmt), "out of range", "", "", "", ""))
            continue
        fate = "survives" if case.survives else "lost"
        rows.append(
            (
                _named(fmt),
                say(case.start, case.fmt),
                short(case.threshold),
                fate if math.isfinite(case.landed) else "overflows",
                say(case.alone[-1], case.fmt),
                say(case.kept[-1], case.fmt),
            )
        )
    times = "1 update" if count == 1 else f"{count} updates"
    return Table(
        f"Adding {update:.9g} to a weight of {weight:.9g} in each format",
        (
            "format: sign + exponent + mantissa bits",
            "the weight in it",
            "survives above",
            "this update",
            f"after {times}, alone",
            f"after {times}, with an FP32 master",
        ),
        tuple(rows),
    )


def _sentence(case: Case, master: bool, count: int) -> str:
    sign = "+" if case.update > 0 else "−"
    what = f"{say(case.start, case.fmt)} {sign} {abs(case.update):.9g}"
    if not math.isfinite(case.landed):
        return f"In {case.fmt}, {what} overflows: its largest number is {say(case.fmt.largest, case.fmt)}."
    verb = "the update survives" if case.survives else "the update is lost"
    after = "after one update" if count == 1 else f"after {count} of them"
    end = (case.kept if master else case.alone)[-1]
    with_ = "with an FP32 master weight" if master else "without a master weight"
    return (
        f"In {case.fmt}, {what} is {say(case.landed, case.fmt)}: {verb}, since the next number is "
        f"{short(2 * case.threshold)} away; {after}, {with_}, the weight is {say(end, case.fmt)} "
        f"(exactly {say(case.start + case.update * count)})."
    )


def _named(fmt: Format) -> str:
    return f"{fmt}: 1 + {fmt.exponent_bits} + {fmt.mantissa_bits}"


EXPLORER = Explorer(
    "number-format",
    "Does this update survive?",
    (
        Number(
            "weight", "Weight", "1",
            ("0.001", "0.01", "0.1", "0.25", "0.5", "0.75", "1", "1.5", "2", "4", "10", "100", "1000"),
            1e-6, 6e4, integer=False,
        ),
        Number(
            "update", "Update", "0.0003",
            ("1e-8", "1e-7", "1e-6", "1e-5", "0.0001", "0.0002", "0.0003", "0.0005", "0.001", "0.002",
             "0.004", "0.01", "0.1"),
            1e-8, 1e4, integer=False,
        ),
        Choice("direction", "Direction", "plus", (("plus", "added"), ("minus", "subtracted"))),
        Choice(
            "format", "Format", "FP16",
            (*((name, name) for name in FORMATS), ("own", "your format, of the bits below")),
        ),
        Switch("master", "FP32 master weight", "off"),
        Number("count", "How often", "10", ("1", "2", "3", "5", "10", "20", "50"), 1, 50, unit="updates"),
        Number("exponent_bits", "Your exponent", "4", tuple(map(str, range(2, 9))), 2, 8, unit="bits"),
        Number("mantissa_bits", "Your mantissa", "6", tuple(map(str, range(1, 24))), 1, 23, unit="bits"),
    ),
    _draw,
)  # fmt: skip
