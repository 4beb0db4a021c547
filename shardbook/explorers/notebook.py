"""An explorer in a notebook: ipywidgets when someone is there to move them, HTML in a built page."""

import os
from dataclasses import dataclass
from typing import Any

from shardbook.errors import InputError
from shardbook.explorers.controls import Choice, Control, Number, Steps, Switch, parse_all
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.html import page_html, table_html
from shardbook.explorers.registry import get


@dataclass(frozen=True, slots=True)
class Shown:
    """An explorer with this place's own defaults, ready for display."""

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
    return _widgets(found, defaults)


def _widgets(explorer: Explorer, defaults: dict[str, str]) -> Any:
    import ipywidgets

    fields = {
        control.name: _widget(control, defaults.get(control.name, control.default))
        for control in explorer.controls
    }
    figure, message = ipywidgets.HTML(), ipywidgets.HTML()

    def redraw(_change: object = None) -> None:
        raw = {name: _text(field.value) for name, field in fields.items()}
        try:
            view = explorer.view(raw)
        except InputError as error:
            message.value = f'<p role="alert">{_escaped(error)}</p>'
            return
        message.value = ""
        figure.value = (
            f'<div role="img" aria-label="{_escaped(view.sentence)}">{view.figure}</div>'
            f"<p>{_escaped(view.sentence)}</p>{table_html(view.table)}"
        )

    for field in fields.values():
        field.observe(redraw, names="value")
    redraw()
    return ipywidgets.VBox([*fields.values(), message, figure])


def _widget(control: Control, value: str) -> Any:
    import ipywidgets

    wide = {"description_width": "12em"}
    if isinstance(control, Number):
        stops = control.stops if value in control.stops else (value, *control.stops)
        return ipywidgets.SelectionSlider(
            options=stops,
            value=value,
            description=control.label,
            style=wide,
            continuous_update=True,
        )
    if isinstance(control, Choice):
        options = [(label, option) for option, label in control.options]
        return ipywidgets.Dropdown(
            options=options, value=value, description=control.label, style=wide
        )
    if isinstance(control, Switch):
        return ipywidgets.Checkbox(value=value == "on", description=control.label, style=wide)
    assert isinstance(control, Steps)
    return ipywidgets.IntSlider(
        value=int(value), min=0, max=control.last, description=control.label, style=wide
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _escaped(value: object) -> str:
    from html import escape

    return escape(str(value))
