"""The built site as a reader gets it: in Chromium, wide and narrow, light and dark, by keyboard."""

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import book
import pytest
from playwright.sync_api import expect
from sites import ROOT, pages, serve

from shardbook.explorers.html import table_html
from shardbook.explorers.registry import MODULES, get

pytestmark = [pytest.mark.site, pytest.mark.browser, pytest.mark.slow]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
LIVE = 60_000  # ms: a slow machine is not a broken page


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    yield context.new_page()
    context.close()


def places_of_explorers(site: Path) -> dict[str, str]:
    """Explorer → the first page that shows it."""
    found: dict[str, str] = {}
    for page in pages(site):
        text = (site / page).read_text(encoding="utf-8")
        for name in MODULES:
            if f'data-explorer="{name}"' in text:
                found.setdefault(name, page)
    return found


def state_of(tab: Any, name: str) -> dict[str, str]:
    return tab.evaluate(
        """name => Object.fromEntries([...document.querySelectorAll(`#${name} [name]`)].map(field =>
        [field.name, field.type === "checkbox" ? (field.checked ? "on" : "off") : field.value]))""",
        name,
    )


def wait_until_live(tab: Any, name: str, updates: int = 1) -> None:
    tab.wait_for_function(
        "([name, n]) => Number(document.getElementById(name).dataset.live || 0) >= n",
        arg=[name, updates],
        timeout=LIVE,
    )


def assert_shows_the_engines_view(tab: Any, name: str) -> None:
    view = get(name).view(state_of(tab, name))
    figure = tab.locator(f"#{name}")
    # The planner's search takes longer than an update elsewhere.
    expect(figure.locator(".sb-sentence")).to_have_text(view.sentence, timeout=LIVE)
    assert figure.locator(".sb-figure").get_attribute("aria-label") == view.sentence
    cells = tab.evaluate(
        "html => {const d = document.createElement('div'); d.innerHTML = html; return d.innerText}",
        table_html(view.table),
    )
    assert (
        figure.locator(".sb-rows").evaluate(
            "e => {const d = document.createElement('div'); d.innerHTML = e.innerHTML; return d.innerText}"
        )
        == cells
    )


def test_every_explorer_is_on_a_page(site: Path) -> None:
    places = places_of_explorers(site)
    assert set(places) == set(MODULES)
    for name, page in places.items():
        text = (site / page).read_text(encoding="utf-8")
        assert text.count(f' id="{name}"') == 1, f"{page}: a heading has the explorer's id"


def test_no_page_asks_another_host_or_logs_an_error(site: Path, address: str, tab: Any) -> None:
    asked: list[str] = []
    errors: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda note: errors.append(note.text) if note.type == "error" else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    for page in pages(site):
        tab.goto(f"{address}/{page}", wait_until="networkidle")
    others = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert not others
    assert not errors


@pytest.mark.parametrize("name", MODULES)
def test_an_explorer_moved_by_keyboard_agrees_with_the_engine(
    name: str, site: Path, address: str, tab: Any
) -> None:
    errors: list[str] = []
    tab.on("console", lambda note: errors.append(note.text) if note.type == "error" else None)
    tab.goto(f"{address}/{places_of_explorers(site)[name]}", wait_until="networkidle")
    before = tab.locator(f"#{name} .sb-sentence").inner_text()
    tab.locator(f"#{name} .sb-title").evaluate(
        "title => {title.tabIndex = -1; title.focus({preventScroll: true})}"
    )
    seen, updates = {before}, 0
    for _ in range(40):
        tab.keyboard.press("Tab")
        if not tab.evaluate(
            "name => document.activeElement.closest('form')?.closest('figure')?.id === name", name
        ):
            break
        kind = tab.evaluate("[document.activeElement.tagName, document.activeElement.type].join()")
        if kind in ("INPUT,range", "SELECT,select-one"):
            state = state_of(tab, name)
            for key in ("ArrowRight", "ArrowLeft"):
                tab.keyboard.press(key)
                if state_of(tab, name) != state:
                    break
        elif kind == "INPUT,checkbox":
            tab.keyboard.press("Space")
        else:
            continue
        updates += 1
        wait_until_live(tab, name)
        tab.wait_for_timeout(150)
        seen.add(tab.locator(f"#{name} .sb-sentence").inner_text())
    assert updates >= len(get(name).controls)
    assert len(seen) > 1, "no control changed the sentence"
    assert_shows_the_engines_view(tab, name)
    assert not errors


def test_bad_input_is_told_beside_the_control_and_the_view_stays(
    site: Path, address: str, tab: Any
) -> None:
    name = "ledger-of-one-rank"
    tab.goto(f"{address}/{places_of_explorers(site)[name]}")
    tab.fill(f"#{name}--ranks", "8")
    wait_until_live(tab, name)
    good = tab.locator(f"#{name} .sb-figure").inner_html()
    for text in ("1.5", "-3", "0", "", "nan", "many", "1e999", "9" * 300):
        tab.fill(f"#{name}--ranks", text)
        tab.wait_for_function(
            f"document.getElementById('{name}--ranks--error').textContent.includes('whole number')"
            if text in ("1.5", "-3", "0")
            else f"document.getElementById('{name}--ranks--error').textContent"
        )
        assert tab.locator(f"#{name}--ranks").get_attribute("aria-invalid") == "true"
        assert tab.locator(f"#{name} .sb-figure").inner_html() == good
    tab.fill(f"#{name}--ranks", "16")
    tab.wait_for_function(f"!document.getElementById('{name}--ranks--error').textContent")
    assert_shows_the_engines_view(tab, name)


def test_a_shared_address_restores_the_state_and_reset_returns(
    site: Path, address: str, tab: Any
) -> None:
    name = "ledger-of-one-rank"
    page = f"{address}/{places_of_explorers(site)[name]}"
    tab.goto(f"{page}?{name}.stage=3&{name}.ranks=13")
    wait_until_live(tab, name)
    assert state_of(tab, name)["ranks"] == "13"
    assert_shows_the_engines_view(tab, name)
    tab.locator(f"#{name} [data-act=reset]").click()
    wait_until_live(tab, name, updates=2)
    assert state_of(tab, name)["ranks"] != "13"
    tab.wait_for_url(lambda url: f"{name}.ranks" not in url)
    assert_shows_the_engines_view(tab, name)
    tab.fill(f"#{name}--ranks", "17")
    wait_until_live(tab, name, updates=3)
    tab.locator(f"#{name} [data-act=share]").click()
    assert f"{name}.ranks=17" in tab.url, "a link is copied before the address follows"


def test_the_latest_input_wins(site: Path, address: str, tab: Any) -> None:
    name = "ledger-of-one-rank"
    tab.goto(f"{address}/{places_of_explorers(site)[name]}")
    for ranks in range(1, 200):
        tab.evaluate(
            "([key, text]) => {const f = document.getElementById(key); f.value = text; "
            "f.dispatchEvent(new Event('input', {bubbles: true}))}",
            [f"{name}--ranks", str(ranks)],
        )
    tab.wait_for_function(
        f"document.querySelector('#{name} .sb-sentence').textContent.includes('on 199 ranks')",
        timeout=LIVE,
    )
    assert_shows_the_engines_view(tab, name)


def test_a_recipe_byte_changed_in_the_wheel_changes_the_published_number(
    site: Path, tmp_path: Path, tab: Any
) -> None:
    name = "ledger-of-one-rank"
    page = places_of_explorers(site)[name]
    copied = shutil.copytree(site, tmp_path / "site")
    wheel = next((copied / "_static").glob("shardbook-*.whl"))
    changed = _with_another_recipe_byte(wheel)
    wheel.write_bytes(changed)
    for where in serve(copied):
        tab.goto(f"{where}/{page}?{name}.ranks=1")
        wait_until_live(tab, name)
        shown = tab.locator(f"#{name} .sb-sentence").inner_text()
    assert "the states fill 136 GB" in shown  # 17 bytes for each of 8e9 parameters
    assert "the states fill 128 GB" in get(name).view({"ranks": "1"}).sentence


def _with_another_recipe_byte(wheel: Path) -> bytes:
    target = wheel.with_suffix(".changed")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.infolist():
            content = old.read(item)
            if item.filename == "shardbook/ledger/recipes.py":
                text = content.decode()
                assert '_part("variance", 4, "FP32")' in text
                content = text.replace(
                    '_part("variance", 4, "FP32")', '_part("variance", 5, "FP32")', 1
                ).encode()
            new.writestr(item, content)
    return target.read_bytes()


def test_the_readme_s_picture_shows_the_moved_explorer(
    site: Path, address: str, browser: Any
) -> None:
    tab = browser.new_page(viewport=book.VIEW)
    book.pose(tab, address)
    figure = tab.locator("#ledger-of-one-rank")
    top = figure.locator(".sb-title").bounding_box()
    end = figure.locator(".sb-sentence").bounding_box()
    covered = tab.locator(".bd-header-article, .bd-header").last.bounding_box()
    assert (
        figure.locator(".sb-sentence")
        .inner_text()
        .startswith("At stage 2 with 8B parameters on 16")
    )
    assert covered["y"] + covered["height"] <= top["y"]
    assert end["y"] + end["height"] <= book.VIEW["height"]
    tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(scheme: str, site: Path, address: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    found = []
    for page in pages(site):
        tab.goto(f"{address}/{page}", wait_until="networkidle")
        tab.evaluate(
            "document.querySelectorAll('.sb-quiz details')"
            ".forEach(option => {option.removeAttribute('name'); option.open = true})"
        )
        tab.add_script_tag(path=str(AXE))
        result = tab.evaluate(
            "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})",
            RULES,
        )
        found += [
            (
                page,
                violation["id"],
                violation["nodes"][0]["html"][:200],
                violation["nodes"][0]["failureSummary"][:300],
            )
            for violation in result["violations"]
        ]
    context.close()
    assert not found, json.dumps(found, indent=1)


def test_a_page_fits_a_narrow_screen(site: Path, address: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 800})
    tab = context.new_page()
    wide, captions = [], 0
    for page in pages(site):
        tab.goto(f"{address}/{page}")
        width = tab.evaluate("document.documentElement.scrollWidth")
        if width > 400:
            wide.append((page, width))
        # A table may be moved under its caption; the caption itself is read without that.
        for caption, text in tab.evaluate(
            "[...document.querySelectorAll('.sb-rows caption')]"
            ".map(caption => [caption.getBoundingClientRect().right, caption.textContent])"
        ):
            captions += 1
            if caption > 400:
                wide.append((page, text))
    context.close()
    assert not wide and captions


def test_without_a_script_the_default_view_and_its_table_are_there(
    site: Path, address: str, browser: Any
) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    for name, page in places_of_explorers(site).items():
        tab.goto(f"{address}/{page}")
        figure = tab.locator(f"#{name}")
        assert figure.locator(".sb-figure svg").is_visible()
        assert figure.locator(".sb-rows table").is_visible()
        assert not figure.locator("form").is_visible()
    context.close()
