"""A copy of the engine for the sandbox, without the functions that a task asks to rebuild."""

import ast
import importlib.util
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: the engine's package
ENGINE: Final = "shardbook"


def copy_engine(target: Path, blocked: Iterable[tuple[str, str]]) -> None:
    """Copy the engine's sources below ``target``; ``blocked`` has pairs (``module:name``, task).

    The body of a blocked function is replaced by an error that names the task; no bytecode is
    copied here, so its code is nowhere in the copy.
    """
    spec = importlib.util.find_spec(ENGINE)
    assert spec and spec.origin
    source = Path(spec.origin).parent
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(source, target / ENGINE, ignore=ignore, copy_function=shutil.copyfile)
    by_module: dict[str, dict[str, str]] = defaultdict(dict)
    for name, task in blocked:
        module, _, path = name.partition(":")
        by_module[module].setdefault(path, task)
    for module, paths in by_module.items():
        file = target.joinpath(*module.split(".")).with_suffix(".py")
        file.write_text(without(file.read_text(encoding="utf-8"), paths), encoding="utf-8")


def without(source: str, paths: dict[str, str]) -> str:
    """Return the source with the bodies of these functions (path: task) replaced.

    Raises:
        LookupError: there is no such function.
    """
    lines = source.splitlines()
    places = _functions(ast.parse(source))
    # From the end, so that the line numbers before stay right.
    for path in sorted(paths, key=lambda path: places[path].lineno, reverse=True):
        function, task = places[path], paths[path]
        message = f"{task} asks you to write what {path} does: the engine's is switched off here"
        indent = " " * (function.col_offset + 4)
        first = function.body[0]
        head = lines[: first.lineno - 1]
        if first.lineno == function.lineno:  # all in one line
            head = [*lines[: function.lineno - 1], lines[first.lineno - 1][: first.col_offset]]
        body = f"{indent}raise RuntimeError({message!r})"
        lines = [*head, body, *lines[function.end_lineno :]]
    return "\n".join(lines) + "\n"


def _functions(tree: ast.AST, prefix: str = "") -> dict[str, ast.FunctionDef]:
    found = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            found[prefix + node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= _functions(node, f"{prefix}{node.name}.")
    return found
