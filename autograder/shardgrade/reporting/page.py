"""Write a report: one HTML page that needs nothing else, and a CSV of the same figures."""

import csv
import io
from collections.abc import Sequence
from html import escape
from typing import Final

from shardgrade.reporting.statistics import ClassFigures, TaskFigures

#: the columns of the table of tasks
HEAD: Final = (
    "task",
    "points",
    "mean",
    "share of full points",
    "discrimination",
    "most frequent failure",
    "students",
)

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: bold; padding: .5rem 0; }
th, td { border-bottom: 1px solid #767676; padding: .3rem .6rem; text-align: right; }
th:first-child, td:first-child, .text { text-align: left; }
div { overflow-x: auto; }
rect { fill: #0072b2; }
"""


def as_csv(figures: ClassFigures) -> str:
    """One row a task, then the class."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(HEAD)
    for task in figures.tasks:
        discrimination = "" if task.discrimination is None else f"{task.discrimination:.3f}"
        write(
            [
                task.grade_id,
                f"{task.max_points:g}",
                f"{task.mean:.3f}",
                f"{task.full:.3f}",
                discrimination,
                task.failure,
                task.failures,
            ]
        )
    write([])
    for name, value in facts(figures):
        write([name, value])
    return out.getvalue()


def facts(figures: ClassFigures) -> list[tuple[str, str]]:
    """The class in words and figures."""
    names = ("lowest", "lower quartile", "median", "upper quartile", "highest")
    return [
        ("students", str(figures.students)),
        ("points", f"{figures.max_score:g}"),
        ("mean", f"{figures.mean:.2f}"),
        ("standard deviation", f"{figures.deviation:.2f}"),
        *((name, f"{value:.2f}") for name, value in zip(names, figures.quartiles, strict=True)),
        ("with a late penalty", str(figures.late)),
        ("waiting for a person", str(figures.waiting)),
    ]


def as_html(figures: ClassFigures) -> str:
    """The page; it names no student."""
    title = escape(f"Report: {figures.assignment}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{_STYLE}</style></head><body><main><h1>{title}</h1>\n"
        f"{_table('The class', ('', ''), facts(figures))}\n{_histogram(figures)}\n"
        f"{_table('By task', HEAD, [row(task) for task in figures.tasks])}\n"
        "<p>Discrimination is the correlation of a task's points with the points of all other tasks: "
        "near 1, it separates as the rest does; near 0 or below, look at the task or at its check."
        f"</p>{''.join(f'<p>{escape(task.advice)}</p>' for task in figures.tasks if task.advice)}"
        "</main></body></html>\n"
    )


def row(task: TaskFigures) -> tuple[str, ...]:
    """One task as the table shows it, in the order of `HEAD`."""
    return (
        task.grade_id,
        f"{task.max_points:g}",
        f"{task.mean:.2f}",
        f"{task.full:.0%}",
        "does not vary" if task.discrimination is None else f"{task.discrimination:.2f}",
        task.failure,
        str(task.failures) if task.failure else "",
    )


def _table(caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    header = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    return (
        f'<div tabindex="0" role="region" aria-label="{escape(caption)}"><table><caption>'
        f"{escape(caption)}</caption>{header}<tbody>{body}</tbody></table></div>"
    )


def _histogram(figures: ClassFigures) -> str:
    most = max(figures.counts)
    step = 100 // len(figures.counts)
    bars, rows = [], []
    for number, count in enumerate(figures.counts):
        height = 120 * count / most
        bars.append(
            f'<rect x="{60 * number + 5}" y="{140 - height:.1f}" width="50" height="{height:.1f}"/>'
            f'<text x="{60 * number + 30}" y="158" text-anchor="middle" font-size="13">'
            f"{number * step}–{(number + 1) * step} %</text>"
            f'<text x="{60 * number + 30}" y="{134 - height:.1f}" text-anchor="middle" '
            f'font-size="13">{count or ""}</text>'
        )
        rows.append((f"{number * step}–{(number + 1) * step} %", str(count)))
    said = f"Median {figures.quartiles[2]:.1f} of {figures.max_score:g} points."
    return (
        f'<figure><svg viewBox="0 0 {60 * len(bars)} 165" role="img" aria-label="{escape(said)}">'
        f"{''.join(bars)}</svg><figcaption>{escape(said)} Students by share of the points."
        f"</figcaption></figure>{_table('Distribution', ('share of the points', 'students'), rows)}"
    )
