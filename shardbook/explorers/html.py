"""An explorer as HTML: the default view, complete without a script, and the form a script wakes."""

import json
import re
from html import escape
from typing import Final

from shardbook.explorers.controls import Choice, Control, Number, Steps, Switch, Text
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table

_NUMBER: Final = re.compile(
    r"([✓✗] )?[−–+-]?\d[\d.,]*([⁰¹²³⁴-⁹]+|e[−+-]?\d+)?"  # 1,552 or 2²⁰ or 5.96e−08
    r"( ?[^\W\d]+(/[^\W\d]+)?| ?[%×])?"  # GB/s or billion or %
    r"( [✓✗])?"
)


def page_html(explorer: Explorer, raw: dict[str, str]) -> str:
    """Return the figure element for the published page; ``raw`` holds this page's own defaults."""
    view = explorer.view(raw)
    controls = "".join(
        _control(explorer.id, control, raw.get(control.name, control.default))
        for control in explorer.controls
    )
    return (
        f'<figure class="sb-explorer" id="{explorer.id}" data-explorer="{explorer.id}">'
        f'<figcaption class="sb-title">{escape(explorer.title)}</figcaption>'
        f'<form class="sb-controls" hidden autocomplete="off">{controls}'
        '<div class="sb-buttons"><button type="button" data-act="reset">Reset</button>'
        '<button type="button" data-act="share">Copy link to this state</button>'
        '<span class="sb-progress" role="status"></span></div></form>'
        f'<div class="sb-figure" role="img" aria-label="{escape(view.sentence)}">{view.figure}</div>'
        f'<p class="sb-sentence" role="status">{escape(view.sentence)}</p>'
        f'<details class="sb-table" open><summary>The same as a table</summary>'
        f'<div class="sb-rows">{table_html(view.table)}</div></details></figure>'
    )


def table_html(table: Table) -> str:
    """Return the table as an accessible HTML table: caption, column and row headings."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(_cell(cell) for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    return (
        f"<table><caption>{escape(table.caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(text: str) -> str:
    number = ' class="sb-number"' if _NUMBER.fullmatch(text) else ""
    return f"<td{number}>{escape(text)}</td>"


def _control(explorer: str, control: Control, value: str) -> str:
    name, key = control.name, f"{explorer}--{control.name}"
    label = escape(control.label)
    common = (
        f'name="{name}" id="{key}" aria-describedby="{key}--error" data-default="{escape(value)}"'
    )
    if isinstance(control, Choice):
        options = "".join(
            f'<option value="{escape(option)}"{" selected" if option == value else ""}>'
            f"{escape(text)}</option>"
            for option, text in control.options
        )
        field = f'<label for="{key}">{label}</label><select {common}>{options}</select>'
    elif isinstance(control, Switch):
        checked = " checked" if value == "on" else ""
        field = f'<label for="{key}">{label}</label><input type="checkbox" {common}{checked}>'
    elif isinstance(control, Steps):
        field = (
            f'<label for="{key}">{label}</label>'
            f'<button type="button" data-step="-1" data-for="{key}" aria-label="{label}: back">◀</button>'
            f'<input type="range" min="0" max="{control.last}" step="1" value="{escape(value)}" {common}>'
            f'<button type="button" data-step="1" data-for="{key}" aria-label="{label}: forward">▶</button>'
        )
    elif isinstance(control, Text):
        field = _text(control, key, label, common, value)
    else:
        field = _number(control, key, label, common, value)
    return f'<div class="sb-control">{field}<p class="sb-error" id="{key}--error" role="alert"></p></div>'


def _text(control: Text, key: str, label: str, common: str, value: str) -> str:
    presets = "".join(
        f'<option value="{escape(text)}"{" selected" if text == value else ""}>'
        f"{escape(name)}</option>"
        for name, text in control.presets
    )
    return (
        f'<label for="{key}--preset">{label}: begin with</label>'
        f'<select id="{key}--preset" data-fills="{key}">{presets}</select>'
        f'<label for="{key}">{label}</label>'
        f'<textarea rows="{value.count(chr(10)) + 2}" spellcheck="false" autocapitalize="off" {common}>'
        f"{escape(value)}</textarea>"
    )


def _number(control: Number, key: str, label: str, common: str, value: str) -> str:
    unit = f" ({escape(control.unit)})" if control.unit else ""
    stops = control.stops_with(value)
    return (
        f'<label for="{key}">{label}{unit}</label>'
        f'<input type="range" min="0" max="{len(stops) - 1}" step="1" value="{stops.index(value)}" '
        f'data-slides="{key}" data-stops="{escape(json.dumps(stops))}" aria-label="{label}, slider" '
        f'aria-valuetext="{escape(value)}">'
        f'<input type="text" inputmode="decimal" spellcheck="false" value="{escape(value)}" {common}>'
    )
