"""Which names a test cell needs, and which of them are the instructor's own.

[Note: whose a name is] A test cell runs in the check's process. What it imports or defines itself
is its own. Imports that stand anywhere in the source notebook, and functions in its cells that are
no answers, are taken from the source: a submission can't put something else in their place. All
else, and nothing built in unless the assignment asks for it, comes from the submission. Plain data
is fetched before each test cell: what a call does to it meanwhile is not seen in that cell.
"""

import ast
import builtins
import contextlib
import importlib
import io
import sys
from dataclasses import dataclass
from typing import Any, Final

from shardgrade.grading import repair

#: how IPython's commands begin
MAGIC: Final = ("%", "!")
_IMPORTS: Final = (ast.Import, ast.ImportFrom)
_KEPT_ON_REPLAY: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, *_IMPORTS),
)


@dataclass(frozen=True, slots=True)
class Given:
    """What the source notebook brings along: ``names`` are the instructor's own.

    ``asked`` and ``classes`` are the functions and classes that the answers define, ``needed`` the
    names that the instructor's functions look up.
    """

    names: dict[str, Any]
    asked: frozenset[str]
    classes: frozenset[str]
    needed: frozenset[str]


def parse(code: str) -> ast.Module:
    """The tree of a cell; IPython's commands in it are left out."""
    lines = ["" if line.startswith(MAGIC) else line for line in code.splitlines()]
    return ast.parse("\n".join(lines))


def looked_up(tree: ast.AST) -> frozenset[str]:
    """The names that are read in a piece of code, also inside its functions."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(node.id for node in nodes if isinstance(node.ctx, ast.Load))


def without_tests(tree: ast.Module) -> ast.Module:
    """Only what a later cell may need of a test cell: imports, definitions, assignments."""
    return ast.Module([node for node in tree.body if isinstance(node, _KEPT_ON_REPLAY)], [])


def given_by(source: dict[str, Any]) -> Given:
    """Run the imports and function definitions of the source notebook; answers' stay undefined."""
    names: dict[str, Any] = {"__name__": "__main__", "display": lambda *things: None}
    asked: set[str] = set()
    classes: set[str] = set()
    needed: set[str] = set()
    for cell in source["cells"]:
        if cell["cell_type"] != "code" or repair.is_test(cell):
            continue
        try:
            body = parse(cell["source"]).body
        except (SyntaxError, ValueError):
            continue
        answer = repair.is_answer(cell)
        if answer:
            asked |= repair.defined(cell["source"])
            classes |= {node.name for node in body if isinstance(node, ast.ClassDef)}
        kinds = _IMPORTS if answer else (*_IMPORTS, ast.FunctionDef)
        for node in body:
            if isinstance(node, kinds):
                _execute(node, names)
                if isinstance(node, ast.FunctionDef):
                    needed |= looked_up(node)
    for name in asked:
        names.pop(name, None)
    return Given(names, frozenset(asked), frozenset(classes), frozenset(needed))


def _execute(node: ast.stmt, names: dict[str, Any]) -> None:
    nowhere = io.StringIO()
    with (
        contextlib.suppress(Exception),
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        exec(compile(ast.Module([node], []), "<source>", "exec"), names)


def imported_by(source: dict[str, Any]) -> tuple[str, ...]:
    """The modules that the source notebook's cells import, but for its tests'."""
    found: dict[str, None] = {"numpy": None}
    for cell in source["cells"]:
        if cell["cell_type"] == "code" and not repair.is_test(cell):
            if "%matplotlib" in cell["source"]:
                found["matplotlib.pyplot"] = None
            with contextlib.suppress(SyntaxError, ValueError):
                for node in ast.walk(parse(cell["source"])):
                    if isinstance(node, ast.Import):
                        found |= dict.fromkeys(alias.name for alias in node.names)
                    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                        found[node.module] = None
    return tuple(found)


def wanted_from_student(needed: frozenset[str], space: dict[str, Any], given: Given) -> list[str]:
    """Which of these names must come from the submission."""
    built_in = vars(builtins)
    return [
        name
        for name in sorted(needed)
        if name not in space and (name not in built_in or name in given.asked)
    ]


def trusted_module(name: str) -> Any:
    """The module of that name, if it is one that the check's process would import itself."""
    top = name.partition(".")[0]
    if top in ("shardgrade", "solutions") or not (
        top in sys.stdlib_module_names or top in sys.modules
    ):
        return None
    try:
        return importlib.import_module(name)
    except Exception:  # whatever a module raises at import: here it is not to be had
        return None
