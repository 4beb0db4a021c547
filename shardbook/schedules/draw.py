"""A run as text: one line a stream, time to the right."""

import math

from shardbook.errors import real, whole
from shardbook.schedules.core import COMPUTE, Run
from shardbook.schedules.timeline import spans


def draw(run: Run, *, columns: int = 100, seconds_per_column: float | None = None) -> str:
    """Draw a run; compute is filled with ``=``, communication and copies with ``-``.

    A column is ``seconds_per_column``, by default so that the run fills ``columns``. An action
    shorter than its name shows the name's beginning; one shorter than a column shows at most that.
    """
    whole("columns", columns, 10, 100_000)
    scale = run.makespan / columns or 1.0
    if seconds_per_column is not None:
        least = run.makespan / 100_000 or 1e-12
        scale = real("seconds_per_column", seconds_per_column, least, 1e15, "s")
    width = math.ceil(run.makespan / scale - 1e-9)
    label = max((len(action.stream) for action in run.plan.actions), default=0)
    rows: dict[str, list[str]] = {}
    for span in spans(run):
        row = rows.setdefault(span.stream, ["."] * width)
        first, last = round(span.start / scale), round(span.end / scale)
        fill = "=" if span.kind == COMPUTE else "-"
        row[first:last] = (span.name + fill * (last - first))[: last - first]
    lines = [f"{stream:<{label}} {''.join(row)}" for stream, row in rows.items()]
    return "\n".join([*lines, f"{'':<{label}} 0 to {run.makespan:g} s, {scale:g} s a column"])
