"""Run the cells of a page without building the book: what it says, shows and prints."""

import ast
import contextlib
import functools
import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
import pytest

CHAPTERS = Path(__file__).parents[2] / "chapters"


@dataclass
class Executed:
    """``said`` by name, the ``shown`` objects in order, ``printed`` text, the cells' ``names``."""

    said: dict[str, str] = field(default_factory=dict)
    shown: list[Any] = field(default_factory=list)
    printed: str = ""
    names: dict[str, Any] = field(default_factory=dict)

    def tables(self) -> dict[str, list[tuple[str, ...]]]:
        """Caption → rows of every table shown."""
        return {x.table.caption: list(x.table.rows) for x in self.shown if hasattr(x, "table")}

    def questions(self) -> dict[str, str]:
        """Question → text of its right answer."""
        asked = (x for x in self.shown if hasattr(x, "options"))
        return {x.text: next(o.text for o in x.options if o.correct) for x in asked}


@functools.cache
def execute(page: str) -> Executed:
    """Run the code cells of ``chapters/<page>`` in order, in one namespace; once for all tests."""
    done = Executed()
    stub = ModuleType("myst_nb")
    stub.glue = lambda name, value, display=True: done.said.update({name: str(value)})  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "myst_nb", stub)
        patch.setenv("MPLBACKEND", "agg")
        patch.setenv("SHARDBOOK_BUILD", "1")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for cell in jupytext.read(CHAPTERS / page, fmt="md:myst").cells:
                if cell.cell_type == "code":
                    _run(cell.source, done)
        done.printed = printed.getvalue()
    return done


def _run(source: str, done: Executed) -> None:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), done.names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), done.names)
        if value is not None:
            done.shown.append(value)
