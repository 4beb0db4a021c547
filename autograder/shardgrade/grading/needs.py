"""What a failed test might have needed in the student's process: a hint for the instructor.

A test cell runs apart from the student's objects. Where that may be why it failed, the record says
so, since the tag `in-process` would mend it. A hint only: the answer may be wrong as well.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

from shardgrade.grading import names
from shardgrade.grading.outputs import TEST_CELL
from shardgrade.sandbox.handles import NO_PLAIN_DATA, Handle

_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OWN: Final = str(Path(__file__).parents[1])
#: a name or attribute in a test → what it looks at
_LOOKS_AT: Final = {
    **dict.fromkeys(("getsource", "getsourcelines", "findsource", "getfile"), "the source"),
    **dict.fromkeys(("signature", "getfullargspec", "get_type_hints"), "the signature"),
    **dict.fromkeys(("__code__", "__globals__", "__closure__", "__defaults__"), "the inside"),
    **dict.fromkeys(("mock", "Mock", "MagicMock", "patch", "monkeypatch"), "a mock's target"),
    **dict.fromkeys(("create_autospec", "AsyncMock", "PropertyMock"), "a mock's target"),
    **dict.fromkeys(("globals", "locals", "__main__", "get_ipython", "In", "Out"), "the notebook"),
    **dict.fromkeys(("pickle", "weakref"), "the object"),
    **dict.fromkeys(("capsys", "capture_output"), "the printed output"),
}
#: modules that need a function itself
_OPENING: Final = frozenset(
    {"inspect", "dis", "unittest.mock", "pickle", "copy", "copyreg", "typing"}
)
_FUNCTIONS: Final = frozenset({"function", "method", "builtin_function_or_method"})


def of(code: str, error: BaseException, met: frozenset[str], given: names.Given) -> str:
    """What the failed test ``code`` may have needed; empty if nothing speaks for it.

    ``met`` are the classes of the objects that came as stand-ins while it ran.
    """
    if any(line.startswith(names.MAGIC) for line in code.splitlines()):
        return "the notebook (an IPython command)"
    for name in _mentioned(code):
        if name in _LOOKS_AT:
            return f"{_LOOKS_AT[name]} ({name})"
    replaced = sorted(_replaced(code) & (given.asked | given.classes))
    if replaced:
        return f"the notebook (another {replaced[0]})"
    for module, kind in _handed_on(error.__traceback__):
        if module in _OPENING or kind not in _FUNCTIONS:
            return (
                f"an object of class {kind}" if kind not in _FUNCTIONS else f"a {kind} ({module})"
            )
    others = sorted(kind for kind in met - given.classes - _FUNCTIONS if kind.isidentifier())
    seems_plain = isinstance(error, (AssertionError, AttributeError, TypeError))
    if (others and seems_plain) or NO_PLAIN_DATA in str(error):
        return f"an object of class {others[0]}" if others else "an object"
    return ""


def _mentioned(code: str) -> Iterator[str]:
    try:
        tree = names.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")


def _replaced(code: str) -> frozenset[str]:
    """The names that the test deletes or binds anew; the student's functions go on with theirs."""
    try:
        tree = names.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    bound = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    return frozenset(bound | {node.name for node in tree.body if isinstance(node, _DEFINITIONS)})


def _handed_on(trace: TracebackType | None) -> Iterator[tuple[str, str]]:
    """The modules that were given a stand-in on the way to the error, with its class."""
    while trace is not None:
        frame: FrameType = trace.tb_frame
        file = frame.f_code.co_filename
        if file != TEST_CELL and not file.startswith(_OWN):
            for value in list(frame.f_locals.values()):
                if isinstance(value, Handle):
                    kind = type(value).__name__
                    known = kind if kind.isidentifier() else "object"
                    yield str(frame.f_globals.get("__name__")), known
        trace = trace.tb_next
