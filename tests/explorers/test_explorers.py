"""Every explorer, in every state a reader can reach, and the same under two Pythons."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from explorers.states import random_states

from shardbook.errors import InputError
from shardbook.explorers.host import update
from shardbook.explorers.html import page_html
from shardbook.explorers.registry import MODULES, get

EVERY = pytest.mark.parametrize("name", MODULES)


@EVERY
def test_every_state_gives_a_view_or_one_clear_error(name: str) -> None:
    explorer = get(name)
    controls = {control.name for control in explorer.controls}
    good = 0
    for state in random_states(explorer, 150):
        try:
            view = explorer.view(state)
        except InputError as error:
            assert error.argument in controls
            assert "Fraction" not in str(error)
            continue
        good += 1
        ElementTree.fromstring(view.figure)
        assert view.table.rows
        assert view.sentence.endswith(".")
        assert "NaN" not in view.figure and "nan" not in view.sentence
    assert good > 60


@EVERY
def test_bad_text_is_refused_and_names_its_control(name: str) -> None:
    explorer = get(name)
    for control in explorer.controls:
        for text in ["", "-1", "nan", "many", "9" * 400, "1e-9"]:
            with pytest.raises(InputError) as caught:
                explorer.view({control.name: text})
            assert caught.value.argument == control.name


@EVERY
def test_moving_any_control_changes_something(name: str) -> None:
    explorer = get(name)
    start = update(name, "{}")
    for control in explorer.controls:
        others = {
            state[control.name] for state in random_states(explorer, 60) if control.name in state
        }
        moved = [update(name, json.dumps({control.name: text})) for text in others]
        assert any(view != start and "error" not in json.loads(view) for view in moved), (
            control.name
        )


@EVERY
def test_the_static_page_holds_the_default_view(name: str) -> None:
    explorer = get(name)
    view = explorer.view({})
    html = page_html(explorer, {})
    assert view.figure in html
    assert html.count("<label") >= len(explorer.controls)


def test_an_unknown_control_is_refused() -> None:
    answer = json.loads(update("ledger-of-one-rank", '{"rank": "3"}'))
    assert answer["error"]["control"] == "rank"


@EVERY
def test_an_explorer_needs_nothing_but_the_standard_library(name: str) -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from shardbook.explorers.host import update\n"
        f"assert 'error' not in update({name!r}, '{{}}')[:9]\n"
        "outside = {'matplotlib', 'ipywidgets', 'IPython', 'click'} & set(sys.modules)\n"
        "assert not outside, outside"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.site
@pytest.mark.slow
def test_cpython_and_pyodide_write_the_same_bytes(site: Path, tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node, "Node is missing: `make test` brings it"
    cases = [(name, state) for name in MODULES for state in random_states(get(name), 40, seed=1)]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    wheel = next((site / "_static").glob("shardbook-*.whl"))
    script = Path(__file__).with_name("pyodide.mjs")
    subprocess.run(
        [
            node,
            script,
            site / "_static" / "pyodide",
            wheel,
            tmp_path / "cases.json",
            tmp_path / "answers.json",
        ],
        check=True,
        timeout=300,
    )
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert "numpy" not in answers["modules"]
    for (name, state), browser_view in zip(cases, answers["views"], strict=True):
        assert browser_view == update(name, json.dumps(state)), (name, state)
