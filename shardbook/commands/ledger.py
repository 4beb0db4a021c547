"""`shardbook ledger`: what each rank stores, by category."""

from fractions import Fraction
from typing import Any

import click

from shardbook.commands.options import COUNT, json_option, print_json, print_table, whole_count
from shardbook.ledger.recipes import DEFAULT_RECIPE, RECIPES
from shardbook.ledger.stages import MOST_RANKS, Ledger, Line, bytes_per_rank
from shardbook.numbers.units import format_bytes, format_count, parse_count


@click.command(help="What each rank stores: the states' bytes by category, padding included.")
@click.option("--parameters", type=COUNT, help="Parameters of the model, such as 7.5e9 or 7.5B.")
@click.option(
    "--units", help="Instead of --parameters: sizes of the flat units, such as 3168,1552."
)
@click.option(
    "--ranks",
    type=whole_count(1, MOST_RANKS),
    default="1",
    show_default=True,
    help="Data-parallel ranks.",
)
@click.option(
    "--stage", type=whole_count(0, 3), default="0", show_default=True, help="ZeRO stage, 0 to 3."
)
@click.option(
    "--recipe",
    default=DEFAULT_RECIPE,
    show_default=True,
    metavar="NAME",
    help="One of " + ", ".join(RECIPES) + ", or bytes such as weights=2,gradients=2,momentum=4.",
)
@click.option("--explain", is_flag=True, help="Print the ledger line by line.")
@json_option
def command(
    parameters: Fraction | None,
    units: str | None,
    ranks: Fraction,
    stage: Fraction,
    recipe: str,
    explain: bool,
    as_json: bool,
) -> None:
    """Print one rank's states by category; with --explain every line of the ledger."""
    if (parameters is None) == (units is None):
        raise click.UsageError("give either --parameters or --units")
    sizes: Any = _plain(parameters) if parameters is not None else _sizes(units or "")
    ledger = bytes_per_rank(sizes, _plain(ranks), _plain(stage), recipe)
    if as_json:
        print_json(_as_json(ledger, explain))
        return
    _print(ledger)
    if explain:
        click.echo()
        for line in ledger.lines:
            click.echo(str(line))


def _sizes(text: str) -> list[Any]:
    return [_plain(parse_count("--units", piece)) for piece in text.split(",")]


def _plain(number: Fraction) -> Any:
    """A whole number as int, any other as float, so that an error shows it as it was typed."""
    return int(number) if number.denominator == 1 else float(number)


def _as_json(ledger: Ledger, explain: bool) -> dict[str, Any]:
    total = ledger.fullest_rank_bytes
    table: dict[str, Any] = {
        "bytes_per_rank": ledger.by_category(),
        "total_bytes_per_rank": total,
        "bytes_per_parameter": _plain(ledger.recipe.bytes_per_parameter),
        "bytes_per_parameter_on_rank": total / ledger.parameters,
        "parameters": ledger.parameters,
        "padded_parameters": ledger.padded_parameters,
        "units": list(ledger.units),
        "ranks": ledger.ranks,
        "stage": ledger.stage,
        "recipe": ledger.recipe.name,
    }
    if explain:
        table["lines"] = [_line(line) for line in ledger.lines]
    return table


def _line(line: Line) -> dict[str, Any]:
    return {
        "first_rank": line.first_rank,
        "last_rank": line.last_rank,
        "category": line.category,
        "what": line.what,
        "bytes": line.bytes,
        "owned_bytes": line.owned_bytes,
        "padding_bytes": line.padding_bytes,
        "replicated_bytes": line.replicated_bytes,
        "since": line.since,
        "until": line.until,
    }


def _print(ledger: Ledger) -> None:
    recipe, total = ledger.recipe, ledger.fullest_rank_bytes
    click.echo(
        f"{format_count(ledger.parameters)} parameters, stage {ledger.stage}"
        f" on {ledger.ranks:,} rank{'s' if ledger.ranks > 1 else ''}, {recipe.title} ({recipe.name})"
    )
    header = ["category", "B/parameter", "bytes on a rank", "", ""]
    per_parameter, held = recipe.by_category(), ledger.by_category()
    how: dict[str, set[str]] = {name: set() for name in held}
    for line in ledger.lines_of(0):
        how[line.category].add("replicated" if line.replicated else "owned")
    rows = [
        [
            name,
            f"{float(per_parameter[name]):g}",
            f"{held[name]:,}",
            format_bytes(held[name]),
            " and ".join(sorted(how[name])),
        ]
        for name in held
    ]
    rows.append(
        ["total", f"{float(recipe.bytes_per_parameter):g}", f"{total:,}", format_bytes(total), ""]
    )
    print_table(header, rows)
    click.echo(f"Assumes: {recipe.assumes}")
    click.echo(f"Source: {recipe.source}")
