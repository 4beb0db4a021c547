"""Switch engine functions off while a student's answer runs.

A name may have been imported long before, under any other name: so not the name is replaced but
the function's code, and every reference to it meets the message.
"""

import contextlib
import functools
import importlib
import inspect
import threading
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

_ONE_AT_A_TIME = threading.RLock()

#: what is switched off now, with its own code
_own: dict[FunctionType, CodeType] = {}
#: what may remember results of functions that were switched off
_caches: set[Any] = set()


@contextlib.contextmanager
def blocked(names: Iterable[str], task: str) -> Iterator[None]:
    """Make the functions ``module:name`` or ``module:Class.name`` raise; restore them at the end."""
    functions = {name: resolve(name) for name in names}
    with _ONE_AT_A_TIME:
        kept = {function: function.__code__ for function in functions.values()}
        _own.update(kept)
        try:
            for name, function in functions.items():
                function.__code__ = _refusal(name, task, function.__code__)
            yield
        finally:
            _give(kept)
            _own.clear()


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Give back what is switched off, for judging with it; no code of a student may run in here."""
    with _ONE_AT_A_TIME:
        refusing = {function: function.__code__ for function in _own}
        try:
            _give(_own)
            yield
        finally:
            _give(refusing)
            for cache in _caches:
                cache.cache_clear()


def _give(codes: Mapping[FunctionType, CodeType]) -> None:
    for function, code in codes.items():
        function.__code__ = code


def resolve(name: str) -> FunctionType:
    """The plain function behind ``module:name``, be it a property, a method or cached."""
    module, _, path = name.partition(":")
    thing: Any = importlib.import_module(module)
    for part in path.split("."):
        thing = inspect.getattr_static(thing, part)
        if isinstance(thing, (staticmethod, classmethod)):
            thing = thing.__func__
        elif isinstance(thing, property):
            thing = thing.fget
        elif isinstance(thing, functools.cached_property):
            thing = thing.func
        if hasattr(thing, "cache_clear"):  # what it remembers would still be handed out
            thing.cache_clear()
            _caches.add(thing)
            thing = thing.__wrapped__
    if not isinstance(thing, FunctionType):
        raise TypeError(f"{name} is no function that can be switched off")
    return thing


def _refusal(name: str, task: str, old: CodeType) -> CodeType:
    shown = name.partition(":")[2]
    message = f"{task} asks you to write what {shown} does: the engine's is switched off here"
    # Python wants as many closure cells as the function has.
    cells = ", ".join(old.co_freevars)
    bind = f"    {' = '.join(old.co_freevars)} = None\n" if cells else ""
    use = f"        ({cells},)\n" if cells else ""
    program = (
        f"def make():\n{bind}    def refuse(*args, **kwargs):\n{use}"
        f"        raise RuntimeError({message!r})\n    return refuse\n"
    )
    space: dict[str, Any] = {}
    exec(program, space)
    code: CodeType = space["make"]().__code__
    return code
