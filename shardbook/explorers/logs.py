"""The logs of real runs that explorers replay: made with numpy, read without it.

`python -m shardbook.explorers.logs` makes the file; building the book does so before it packs
the engine for the browser. A checkout without the file makes it at the first call.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("data") / "runs.json"


@lru_cache(maxsize=1)
def read() -> dict[str, Any]:
    """Return the logs as `shardbook.training.replay.runs` made them.

    Raises:
        FileNotFoundError: there is no file, and without numpy none can be made.
    """
    if not FILE.exists():
        make()
    logs: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return logs


def make() -> None:
    """Train, and write the logs. Raises FileNotFoundError where numpy is missing."""
    try:
        from shardbook.training import replay
    except ImportError:
        allowed = "make it with `python -m shardbook.explorers.logs`, which needs numpy"
        raise FileNotFoundError(f"{FILE} is missing: {allowed}") from None
    FILE.parent.mkdir(exist_ok=True)
    unfinished = FILE.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(replay.runs(), separators=(",", ":")), "utf-8")
    unfinished.replace(FILE)  # at once: another process may be reading


if __name__ == "__main__":
    make()
