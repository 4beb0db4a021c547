"""What a student reads about a graded task: criterion, expected kind, got, hint."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardgrade.checks.judging import Assessment, Verdict

# The page around the table is nbgrader's, whose style draws no lines: the style goes along.
_TABLE = "border-collapse: collapse"
_CELL = "border: 1px solid; padding: 0.3em 0.6em; text-align: left; vertical-align: top"


def mime_bundle(assessment: Assessment) -> dict[str, str]:
    """The table as plain text and as HTML."""
    return {"text/plain": as_text(assessment), "text/html": as_html(assessment)}


def _title(assessment: Assessment) -> str:
    return f"{assessment.task.id}: {assessment.points:g} of {assessment.task.points:g} points"


def _cells(verdict: Verdict) -> list[str]:
    criterion, fault = verdict.criterion, verdict.fault
    points = f"{verdict.points:g} of {criterion.points:g}"
    if fault is None:
        return [criterion.name, points, "met", "", ""]
    return [criterion.name, points, f"{fault.where}: {fault.expected}", fault.got, verdict.hint]


def as_text(assessment: Assessment) -> str:
    """One line a criterion, and two more where it was missed."""
    lines = [_title(assessment)]
    for verdict in assessment.verdicts:
        name, points, expected, got, hint = _cells(verdict)
        lines.append(f"  {points:>10}  {name}: {verdict.criterion.asks}")
        if got:
            lines.append(f"{'':14}expected {expected}, got {got}")
        if hint:
            lines.append(f"{'':14}hint: {hint}")
    return "\n".join(lines)


def as_html(assessment: Assessment) -> str:
    """A table; everything in it is escaped."""
    head = ["criterion", "points", "expected", "got", "hint"]
    rows = [_row("th", head), *(_row("td", _cells(verdict)) for verdict in assessment.verdicts)]
    table = f"<caption>{escape(_title(assessment))}</caption>{''.join(rows)}"
    return f'<div style="overflow-x: auto"><table style="{_TABLE}">{table}</table></div>'


def _row(tag: str, cells: list[str]) -> str:
    made = (f'<{tag} style="{_CELL}">{escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{''.join(made)}</tr>"
