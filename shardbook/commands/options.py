"""Option types and output that the commands share."""

import json
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import click
from click.core import ParameterSource

from shardbook.errors import InputError
from shardbook.numbers import units

Parser = Callable[[str, str], Fraction]


class _Quantity(click.ParamType[Fraction]):
    """A number with a unit, read by one of the parsers of `shardbook.numbers.units`."""

    def __init__(self, name: str, parse: Parser) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        if isinstance(value, (int, float, Fraction)):
            return Fraction(value)
        return self._parse(param.opts[0] if param else self.name, str(value))


COUNT = _Quantity("count", units.parse_count)
BYTES = _Quantity("bytes", units.parse_bytes)
RATE = _Quantity("rate", units.parse_rate)
SECONDS = _Quantity("seconds", units.parse_seconds)
FLOPS = _Quantity("flops", units.parse_flops)


def whole_count(low: int, high: int) -> click.ParamType[Fraction]:
    """Return the type of a count whose limits are told when no number can be read."""

    def parse(argument: str, text: str) -> Fraction:
        try:
            return units.parse_count(argument, text)
        except InputError:
            allowed = f"give a whole number from {low:,} to {high:,}"
            raise InputError(argument, text, allowed) from None

    return _Quantity("count", parse)


def refuse_idle(names: Iterable[str], why: str) -> None:
    """Refuse the options (by parameter name) that the user gave though they do nothing ``why``.

    Raises:
        click.UsageError: names the option.
    """
    ctx = click.get_current_context()
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name in names:
            raise click.UsageError(f"{parameter.opts[-1]} does nothing {why}: leave it out")


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def print_json(value: Any) -> None:
    """Print ``value`` as JSON, keys in the order given."""
    click.echo(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False))


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns: the first to the left, the rest to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        click.echo("  ".join(cells).rstrip())
