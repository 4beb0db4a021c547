"""`python -m labs.run`: experiments on simulated clusters, the same bytes on every run. (S67, S76)"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from labs.config import read_systems
from labs.systems import run_systems
from labs.write import Tables, draw_systems, write_tables
from shardbook.cli import run
from shardbook.commands.options import print_table
from shardbook.errors import InputError, one_of, whole
from shardbook.numbers.units import format_bytes


def _systems(config: Path, seed: int, out: Path) -> None:
    tables = run_systems(read_systems(config), seed)
    digest = hashlib.sha256(config.read_bytes()).hexdigest()
    head = {"experiment": "systems", "seed": seed, "config_sha256": digest}
    paths = write_tables(out, head, tables)
    paths.append(out / "picture.svg")
    draw_systems(paths[-1], tables)
    _say(tables)
    click.echo("\n" + "\n".join(f"wrote {path}" for path in paths))


def _say(tables: Tables) -> None:
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


#: experiment → what it does, and its function
EXPERIMENTS: Final[dict[str, tuple[str, Callable[[Path, int, Path], None]]]] = {
    "systems": ("which strategy gives most tokens for the money, and what it needs", _systems),
}


@click.command()
@click.option("--experiment", metavar="NAME", help=", ".join(EXPERIMENTS))
@click.option("--config", type=click.Path(path_type=Path), help="A JSON file: see labs/README.md.")
@click.option("--seed", default="0", show_default=True, help="Draws how far cards differ in pace.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: _build/experiments/NAME.")
@click.option("--list", "as_list", is_flag=True, help="List the experiments.")
def command(
    experiment: str | None, config: Path | None, seed: str, out: Path | None, as_list: bool
) -> None:
    """Run an experiment and write its results as JSON, CSV and a picture."""
    if as_list:
        for name, (about, _) in EXPERIMENTS.items():
            click.echo(f"{name}: {about}")
        return
    name = one_of("--experiment", experiment, EXPERIMENTS)
    number = whole("--seed", int(seed) if seed.isascii() and seed.isdigit() else seed, 0, 2**63)
    if config is None:
        raise InputError("--config", config, f"give a file, such as labs/configs/{name}.json")
    EXPERIMENTS[name][1](config, number, out or Path("_build/experiments") / name)


if __name__ == "__main__":
    run(command, "labs.run")
