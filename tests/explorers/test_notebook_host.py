"""The same explorers in a live notebook, as ipywidgets."""

from typing import Any

import ipywidgets
import pytest

from shardbook.errors import InputError
from shardbook.explorers import explore
from shardbook.explorers.html import page_html
from shardbook.explorers.registry import MODULES, get
from shardbook.numbers.units import parse_seconds


@pytest.fixture(autouse=True)
def live_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARDBOOK_BUILD", raising=False)


def text_field(box: Any, label: str) -> Any:
    return next(
        widget
        for field in box.children
        for widget in getattr(field, "children", (field,))
        if getattr(widget, "description", "") == label
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_notebook_shows_every_control_and_the_view(name: str) -> None:
    box = explore(name)
    view = get(name).view({})
    assert view.figure in box.children[-1].value
    for control in get(name).controls:
        assert text_field(box, control.label)


def test_moving_a_widget_redraws_and_bad_text_keeps_the_last_view() -> None:
    box = explore("ledger-of-one-rank")
    ranks = text_field(box, "Ranks")
    ranks.value = "13"
    shown = box.children[-1].value
    assert get("ledger-of-one-rank").view({"ranks": "13"}).figure in shown
    ranks.value = "1.5"
    assert "ranks is 1.5" in box.children[-2].value
    assert box.children[-1].value == shown
    ranks.value = "14"
    assert not box.children[-2].value


def test_a_slider_writes_its_stop_into_the_text() -> None:
    box = explore("ledger-of-one-rank")
    row = next(
        field
        for field in box.children
        if isinstance(field, ipywidgets.HBox) and field.children[0].description == "Ranks"
    )
    row.children[1].value = "64"
    assert row.children[0].value == "64"
    assert get("ledger-of-one-rank").view({"ranks": "64"}).figure in box.children[-1].value


@pytest.mark.parametrize(("nvme", "last"), [("62.9ms", 12), ("8.0ms", 11), ("20us", 12), ("3", 12)])
def test_a_slider_begins_at_its_page_s_own_value(nvme: str, last: int) -> None:
    """Also where the value is no stop, or a stop spelled otherwise; the stops stay in order."""
    (nvme_row,) = (
        field.children
        for field in explore("offload-prefetch", nvme=nvme).children
        if isinstance(field, ipywidgets.HBox) and "NVMe" in field.children[0].description
    )
    slider = nvme_row[1]
    assert slider.value == nvme_row[0].value == nvme
    times = [parse_seconds("nvme", stop) for stop in slider.options]
    assert times == sorted(set(times)) and len(times) == last + 1
    static = page_html(get("offload-prefetch"), {"nvme": nvme})
    place = slider.options.index(nvme)
    assert f'max="{last}" step="1" value="{place}" data-slides="offload-prefetch--nvme"' in static


def test_a_wrong_default_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="stage"):
        explore("ledger-of-one-rank", stage="4")
