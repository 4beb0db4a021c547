"""A run as text: one line a stream, time to the right."""

import math
from fractions import Fraction

from shardbook.errors import whole
from shardbook.schedules.core import COMPUTE, Run
from shardbook.schedules.timeline import Span, spans


def draw(run: Run, *, columns: int = 160) -> str:
    """Draw a run; compute is filled with ``=``, communication and copies with ``-``.

    A column is the largest time that divides every duration, or a part of it that makes room for
    the names; where that takes more than ``columns``, the run is fitted to them, and short
    actions show the beginning of their names.
    """
    whole("columns", columns, 10, 100_000)
    drawn = spans(run)
    scale = _column_seconds(run, drawn, columns)
    width = round(run.makespan / scale)
    label = max((len(action.stream) for action in run.plan.actions), default=0)
    rows: dict[str, list[str]] = {}
    for span in drawn:
        row = rows.setdefault(span.stream, ["."] * width)
        first, last = round(span.start / scale), round(span.end / scale)
        fill = "=" if span.kind == COMPUTE else "-"
        row[first:last] = (span.name + fill * (last - first))[: last - first]
    lines = [f"{stream:<{label}} {''.join(row)}" for stream, row in rows.items()]
    return "\n".join([*lines, f"{'':<{label}} 0 to {run.makespan:g} s, {scale:.4g} s a column"])


def _column_seconds(run: Run, drawn: tuple[Span, ...], columns: int) -> float:
    fitted = run.makespan / columns or 1.0
    lasting = {span.end - span.start for span in drawn if span.end > span.start}
    if not lasting:
        return fitted
    # Parts of the longest, so that a timeline looks the same in milliseconds.
    longest = max(lasting)
    lengths = {Fraction(seconds / longest).limit_denominator(1000) for seconds in lasting}
    lengths.discard(Fraction(0))
    common = Fraction(
        math.gcd(*(length.numerator for length in lengths)),
        math.lcm(*(length.denominator for length in lengths)),
    )
    longest_name = max(len(action.name) for action in run.plan.actions)
    parts = math.ceil(longest_name * common / min(lengths))
    exact = longest * float(common / parts)
    return exact if run.makespan <= exact * columns else fitted
