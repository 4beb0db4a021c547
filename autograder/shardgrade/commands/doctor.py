"""`shardgrade doctor`: what this machine offers, and what is missing."""

import importlib.metadata
import platform
import shutil
from pathlib import Path
from typing import Any, Final

import click

from shardbook.commands.options import json_option, print_json
from shardgrade import checkout

_PACKAGES: Final = ("shardgrade", "shardbook", "nbgrader", "SQLAlchemy", "numpy", "copydetect")
_OPTIONAL: Final = {"distributed": "--scheduler", "psycopg": "--db-url postgresql+psycopg://…"}
_ENOUGH: Final = 2 * 10**9


@click.command()
@click.option(
    "--course",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the course is or will be; by default the checkout.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, course: Path | None, as_json: bool) -> None:
    """Tell which isolation works here, versions and free disk; exit code 1 if something is amiss."""
    told = examine(course or checkout.root())
    if as_json:
        print_json(told)
    else:
        click.echo(f"Python {told['python']} on {told['system']}")
        click.echo(", ".join(f"{name} {version}" for name, version in told["packages"].items()))
        for rung in told["isolation"]:
            click.echo(f"isolation {rung['rung']}: {rung['trouble'] or 'works'}")
        click.echo(f"grading would use: {told['best'] or 'nothing'}")
        click.echo(f"free disk: {told['free_disk'] / 1e9:.1f} GB")
        for trouble in told["troubles"]:
            click.echo(f"! {trouble}")
    ctx.exit(1 if told["troubles"] else 0)


def examine(folder: Path) -> dict[str, Any]:
    """What the machine offers, as plain data; ``troubles`` is what to mend."""
    from shardgrade.sandbox import ladder

    rungs = [{"rung": one.rung, "trouble": one.trouble} for one in ladder.probe()]
    best = next((one["rung"] for one in rungs if not one["trouble"]), "")
    there = next(path for path in [folder, *folder.resolve().parents] if path.exists())
    free = shutil.disk_usage(there).free
    missing = [name for name in _PACKAGES if not _version(name)]
    troubles = [f"{name} is not installed" for name in missing]
    if best != ladder.RUNGS[0]:
        best_of_all = f"isolation {ladder.RUNGS[0]} does not work here"
        troubles.append(f"{best_of_all}: {rungs[0]['trouble']}")
    if said := ladder.warning(best):
        troubles.append(said)
    if free < _ENOUGH:
        troubles.append(f"less than {_ENOUGH / 1e9:g} GB are free at {there}")
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: _version(name) for name in (*_PACKAGES, *_OPTIONAL) if _version(name)},
        "without": {name: used for name, used in _OPTIONAL.items() if not _version(name)},
        "isolation": rungs,
        "best": best,
        "free_disk": free,
        "troubles": troubles,
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
