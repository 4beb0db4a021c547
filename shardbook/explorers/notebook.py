"""An explorer in a notebook: ipywidgets for somebody who moves them, HTML in a built page."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from shardbook.errors import InputError
from shardbook.explorers.controls import Choice, Control, Number, Switch, Text, parse_all
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.html import page_html, table_html
from shardbook.explorers.registry import get


@dataclass(frozen=True, slots=True)
class Shown:
    """An explorer with this place's own defaults, ready for display in a built page."""

    explorer: Explorer
    raw: dict[str, str]

    def _repr_html_(self) -> str:
        return page_html(self.explorer, self.raw)


def explore(explorer: str, **defaults: str) -> Any:
    """Show an explorer; ``defaults`` replace its controls' own (as texts, such as ``ranks="8"``).

    While the book is built (``SHARDBOOK_BUILD`` is set) this is static HTML that the page's
    script wakes; in a live notebook it is a box of ipywidgets. Raises `InputError`.
    """
    found = get(explorer)
    parse_all(found.controls, defaults)
    if os.environ.get("SHARDBOOK_BUILD"):
        return Shown(found, defaults)
    return _box(found, defaults)


def _box(explorer: Explorer, defaults: dict[str, str]) -> Any:
    import ipywidgets

    fields = [
        _field(control, defaults.get(control.name, control.default))
        for control in explorer.controls
    ]
    figure, complaint = ipywidgets.HTML(), ipywidgets.HTML()

    def redraw(_change: object = None) -> None:
        texts = {
            control.name: read()
            for control, (_, read) in zip(explorer.controls, fields, strict=True)
        }
        try:
            view = explorer.view(texts)
        except InputError as error:  # the last good view stays
            complaint.value = f'<p role="alert">✗ {escape(str(error))}</p>'
            return
        complaint.value = ""
        figure.value = (
            f'<div role="img" aria-label="{escape(view.sentence)}">{view.figure}</div>'
            f"<p>{escape(view.sentence)}</p>{table_html(view.table)}"
        )

    for shown, _ in fields:
        for widget in getattr(shown, "children", (shown,)):
            widget.observe(redraw, names="value")
    redraw()
    return ipywidgets.VBox([*(shown for shown, _ in fields), complaint, figure])


def _field(control: Control, value: str) -> tuple[Any, Callable[[], str]]:
    """Return the widget of a control and what reads its text."""
    import ipywidgets

    look = {"description": control.label, "style": {"description_width": "12em"}}
    if isinstance(control, Number):
        text = ipywidgets.Text(value=value, **look)
        slider = ipywidgets.SelectionSlider(
            options=control.stops_with(value), value=value, readout=False
        )
        slider.observe(lambda change: setattr(text, "value", change["new"]), names="value")
        return ipywidgets.HBox([text, slider]), lambda: str(text.value)
    if isinstance(control, Choice):
        options = [(label, option) for option, label in control.options]
        choice = ipywidgets.Dropdown(options=options, value=value, **look)
        return choice, lambda: str(choice.value)
    if isinstance(control, Switch):
        switch = ipywidgets.Checkbox(value=value == "on", **look)
        return switch, lambda: "on" if switch.value else "off"
    if isinstance(control, Text):
        area = ipywidgets.Textarea(value=value, rows=value.count("\n") + 2, **look)
        begin = ipywidgets.Dropdown(
            options=control.presets, value=control.default, description="begin with"
        )
        begin.observe(lambda change: setattr(area, "value", change["new"]), names="value")
        return ipywidgets.VBox([begin, area]), lambda: str(area.value)
    steps = ipywidgets.IntSlider(value=int(value), min=0, max=control.last, **look)
    return steps, lambda: str(steps.value)
