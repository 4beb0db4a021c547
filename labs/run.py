"""`python -m labs.run`: experiments on simulated clusters, the same bytes on every run. (S67, S76)"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from labs import config, write
from labs.demos import draw_demos, run_demos
from labs.faults import run_gather, run_hang, run_save, run_slow_link, run_slow_rank
from labs.messages import run_messages
from labs.systems import run_systems
from labs.write import Tables, write_all
from shardbook.cli import run
from shardbook.commands.options import print_table
from shardbook.errors import InputError, one_of, whole
from shardbook.numbers.units import format_bytes


@dataclass(frozen=True, slots=True)
class Experiment:
    """What it is about; reads its configuration, runs, draws pictures by name, says its tables."""

    about: str
    read: Callable[[Path, int], Any]
    run: Callable[[Any, int], Tables]
    draw: Callable[[Any, Tables], Mapping[str, str]]
    say: Callable[[Tables], None]


def _one(draw: Callable[[Tables], str]) -> Callable[[Any, Tables], Mapping[str, str]]:
    return lambda read, tables: {"picture": draw(tables)}


def _say_systems(tables: Tables) -> None:
    print_table(
        ["strategy", "cards", "a node", "between", "peak", "tokens/s", "$/M tokens", "or why not"],
        [
            [
                row["strategy"],
                str(row["cards"]),
                str(row["cards_per_node"]),
                f"{format_bytes(row['between_bytes_per_second'])}/s",
                format_bytes(row["peak_bytes"], 3) if "peak_bytes" in row else "–",
                f"{row['tokens_per_second']:,.0f}" if row.get("fits") else "–",
                f"{row['dollars_per_million_tokens']:.4f}" if row.get("fits") else "–",
                row["reason"] or "",
            ]
            for row in tables["configurations"]
        ],
    )
    click.echo("\nA row that fits does so by the ledger; no run has tested it for out-of-memory.")


def _say_all(tables: Tables) -> None:
    """Print every table, each under its name."""
    for number, (name, rows) in enumerate(tables.items()):
        click.echo(f"\n{name}:" if number else f"{name}:")
        _say_rows(rows)


def _say_demos(tables: Tables) -> None:
    """Print every simulation's table under what it shows and which engine functions make it."""
    for each in tables["simulations"]:
        click.echo(f"{each['simulation']}: {each['shows']}\n({each['engine']})")
        _say_rows(tables[each["simulation"]])
        click.echo()


def _say_rows(rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print_table(columns, [[_cell(row.get(column)) for column in columns] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _fault(about: str, read: Any, run_it: Any) -> Experiment:
    return Experiment(about, read, run_it, _one(write.draw_faults), _say_all)


EXPERIMENTS: Final = {
    "systems": Experiment(
        "which strategy gives most tokens for the money, and what it needs",
        config.read_systems,
        run_systems,
        _one(write.draw_systems),
        _say_systems,
    ),
    "slow-link": _fault("one link is slow", config.read_slow_link, run_slow_link),
    "slow-rank": _fault("one rank's data is slow", config.read_slow_rank, run_slow_rank),
    "whole-model-gather": _fault(
        "all weights are gathered before the first is used", config.read_gather, run_gather
    ),
    "save-peak": _fault("a save gathers on one rank", config.read_save, run_save),
    "hang": _fault("one rank makes a wrong call", config.read_hang, run_hang),
    "messages": Experiment(
        "groups and message sizes on a few nodes, by hand and counted",
        config.read_messages,
        run_messages,
        _one(write.draw_messages),
        _say_all,
    ),
    "demos": Experiment(
        "all simulations of the course, a table each",
        config.read_demos,
        run_demos,
        lambda read, tables: draw_demos(read),
        _say_demos,
    ),
}


@click.command()
@click.option("--experiment", metavar="NAME", help=", ".join(EXPERIMENTS))
@click.option("--config", type=click.Path(path_type=Path), help="A JSON file: see labs/README.md.")
@click.option("--seed", default="0", show_default=True, help="Draws what differs between runs.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: _build/experiments/NAME.")
@click.option("--list", "as_list", is_flag=True, help="List the experiments.")
def command(
    experiment: str | None, config: Path | None, seed: str, out: Path | None, as_list: bool
) -> None:
    """Run an experiment and write its results as JSON, CSV and a picture."""
    if as_list:
        for name, each in EXPERIMENTS.items():
            click.echo(f"{name}: {each.about}")
        return
    name = one_of("--experiment", experiment, EXPERIMENTS)
    number = int(seed) if seed.isascii() and seed.isdigit() and len(seed) < 20 else seed
    number = whole("--seed", number, 0, 2**63 - 1)
    if config is None:
        raise InputError("--config", config, f"give a file, such as labs/configs/{name}.json")
    chosen = EXPERIMENTS[name]
    read = chosen.read(config, number)
    tables = chosen.run(read, number)
    digest = hashlib.sha256(config.read_bytes()).hexdigest()
    head = {"experiment": name, "seed": number, "config_sha256": digest}
    folder = out or Path("_build/experiments") / name
    paths = write_all(folder, head, tables, chosen.draw(read, tables))
    chosen.say(tables)
    click.echo("\n" + "\n".join(f"wrote {path}" for path in paths))


if __name__ == "__main__":
    run(command, "labs.run")
