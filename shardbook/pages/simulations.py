"""All simulations of the course: a table each, and the engine functions that make it (S76)."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial
from os.path import relpath
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from shardbook.explorers.registry import MODULES, get
from shardbook.pages import tables_of_formulas, tables_of_runs
from shardbook.pages.contents import ROOT, pages

Rows = list[dict[str, Any]]

#: the parts of the engine that compute, not what reads, draws or formats
_ENGINE: Final = ("numbers", "ledger", "collectives", "schedules", "training", "planner")
_TABLES: Final = (tables_of_formulas, tables_of_runs)


@dataclass(frozen=True, slots=True)
class Simulation:
    """A table's ``id`` and caption; the engine functions that make it; how to make it.

    ``draw`` gives an explorer's figure as SVG text, and is None for what is only a table.
    """

    id: str
    caption: str
    functions: tuple[str, ...]
    rows: Callable[[], Rows]
    draw: Callable[[], str] | None = None


def simulations(controls: Mapping[str, Mapping[str, str]] | None = None) -> tuple[Simulation, ...]:
    """Return every explorer's state, and every table that has no explorer (S76).

    ``controls``: explorer id → control → text, instead of its default. Nothing is computed before
    ``rows`` is called. Raises InputError for an unknown explorer or control, or a bad text.
    """
    given = {explorer: dict(texts) for explorer, texts in (controls or {}).items()}
    for explorer, texts in given.items():
        get(explorer).view(texts)
    return (
        *(_of_explorer(name, given.get(name, {})) for name in MODULES),
        *(_of_function(make) for module in _TABLES for make in _functions_of(module)),
    )


def simulations_text(folder: str, root: Path = ROOT) -> str:
    """Return the list of all simulations in MyST, for a page in ``folder`` (S76)."""
    lines = [
        ":::{table}\n:widths: 18 26 22 34\n:class: sb-coverage\n",
        "| simulation | what the table shows | page | engine |",
        "|---|---|---|---|",
    ]
    shown = {page: (root / f"{page.path}.md").read_text(encoding="utf-8") for page in pages(root)}
    for each in simulations():
        on = [f'explore("{each.id}"' in text for text in shown.values()]
        links = " · ".join(
            f"{{doc}}`{relpath(page.path, folder)}`"
            for page, has in zip(shown, on, strict=True)
            if has
        )
        made = " · ".join(f"`{name}`" for name in each.functions)
        lines.append(f"| `{each.id}` | {each.caption} | {links or '–'} | {made} |")
    return "\n".join([*lines, ":::"])


def _of_explorer(name: str, texts: dict[str, str]) -> Simulation:
    explorer = get(name)
    module = importlib.import_module(f"shardbook.explorers.{MODULES[name]}")
    functions = tuple(sorted(set(_imported(module, set()))))

    def rows() -> Rows:
        table = explorer.view(texts).table
        return [dict(zip(table.header, row, strict=True)) for row in table.rows]

    return Simulation(name, explorer.title, functions, rows, lambda: explorer.view(texts).figure)


def _of_function(make: Callable[[], Rows]) -> Simulation:
    caption = (make.__doc__ or "").partition(" (S")[0]
    names = set(_names(make.__code__))
    used = [value for name, value in vars(inspect.getmodule(make)).items() if name in names]
    functions = sorted({name for value in used if (name := _engine_name(value))})
    return Simulation(make.__name__.replace("_", "-"), caption, tuple(functions), partial(make))


def _functions_of(module: ModuleType) -> Iterator[Callable[[], Rows]]:
    for value in vars(module).values():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            yield value


def _imported(module: ModuleType, seen: set[str]) -> Iterator[str]:
    """Name the engine functions that an explorer imports, by itself or through its helpers."""
    seen.add(module.__name__)
    if module.__name__ == "shardbook.explorers.logs":
        # It reads what this function wrote, since it must do without numpy.
        yield "training.replay.runs"
    for value in vars(module).values():
        if name := _engine_name(value):
            yield name
        home = getattr(value, "__module__", None) or ""
        if home.startswith("shardbook.explorers.") and home not in seen:
            yield from _imported(importlib.import_module(home), seen)


def _engine_name(value: Any) -> str | None:
    """Return ``ledger.stages.bytes_per_rank`` for such a function, None for anything else."""
    home = getattr(value, "__module__", None) or ""
    package, _, module = home.removeprefix("shardbook.").partition(".")
    holds = inspect.isclass(value) and (is_dataclass(value) or issubclass(value, tuple | Exception))
    reads = home == "shardbook.numbers.units"
    if package not in _ENGINE or holds or reads or not hasattr(value, "__qualname__"):
        return None
    return f"{package}.{module}.{value.__qualname__}"


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
