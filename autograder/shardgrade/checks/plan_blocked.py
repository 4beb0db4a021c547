"""What lab plan switches off: all that some modules compute, whatever they call it."""

import importlib
import inspect
from typing import Final


def _functions(*modules: str) -> tuple[str, ...]:
    names = []
    for module in modules:
        space = vars(importlib.import_module(module))
        for name, thing in space.items():
            function = inspect.unwrap(thing) if callable(thing) else None
            if inspect.isfunction(function) and function.__module__ == module:
                names.append(f"{module}:{name}")
    return tuple(names)


GROUPS: Final = _functions("shardbook.collectives.groups", "shardbook.collectives.layout")
BATCH: Final = _functions("shardbook.collectives.batch", "shardbook.planner.layouts")
MEMORY: Final = (
    *_functions("shardbook.planner.memory"),
    "shardbook.ledger.activations:layer_bytes",
)
LIMITS: Final = (*_functions("shardbook.planner.layouts"), *MEMORY)
PLANNER: Final = (
    *_functions(
        "shardbook.planner.plan",
        "shardbook.planner.search",
        "shardbook.planner.choosing",
        "shardbook.planner.steptime",
        "shardbook.planner.simulated",
    ),
    *LIMITS,
)
