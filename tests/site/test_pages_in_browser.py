"""The built site as a reader gets it: in Chromium, wide and narrow, light and dark, by keyboard."""

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import book
import pytest
from playwright.sync_api import expect
from sites import ROOT, pages, serve

from shardbook.explorers.html import table_html
from shardbook.explorers.registry import MODULES, get
from shardbook.pages.contents import front_page
from shardbook.pages.contents import pages as contents

pytestmark = [pytest.mark.site, pytest.mark.browser, pytest.mark.slow]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
LIVE = 60_000  # ms: a slow machine is not a broken page
VIEW = {"width": 1200, "height": 900}
#: the book's pages, and explorer → the first of them that shows it: as the sources have them
PAGES = [f"{page.path}.html" for page in (front_page(), *contents())]
PLACES = {
    name: page
    for page in reversed(PAGES)
    for name in re.findall(
        r'\bexplore\(\s*"([\w-]+)"', (ROOT / page).with_suffix(".md").read_text(encoding="utf-8")
    )
}


@pytest.fixture
def tab(returning: Any) -> Iterator[Any]:
    opened = returning.new_page()
    opened.set_viewport_size(VIEW)
    yield opened
    opened.close()


@dataclass
class Opened:
    """A page in a ``tab`` of its own, what it ``asked`` for and the ``errors`` it logged."""

    page: str
    tab: Any
    asked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def kept() -> Iterator[list[Opened]]:
    """The page that was opened last."""
    last: list[Opened] = []
    yield last
    for one in last:
        one.tab.close()


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, kept: list[Opened], address: str, returning: Any
) -> Opened:
    """A page, loaded once for all tests of it: they are a group, so they follow each other."""
    if not kept or kept[0].page != request.param:
        while kept:
            kept.pop().tab.close()
        kept.append(_open(request.param, address, returning.new_page()))
    return kept[0]


def _open(page: str, address: str, tab: Any) -> Opened:
    opened = Opened(page, tab)
    tab.on("request", lambda asked: opened.asked.append(asked.url))
    tab.on("console", lambda note: opened.errors.append(note.text) if note.type == "error" else 0)
    tab.on("pageerror", lambda error: opened.errors.append(str(error)))
    tab.set_viewport_size(VIEW)
    tab.emulate_media(color_scheme="light")
    tab.goto(f"{address}/{page}", wait_until="networkidle")
    return opened


def on_its_page(page: str, *more: str) -> Any:
    """Parameters of a test of ``page``."""
    return pytest.param(page, *more, marks=pytest.mark.xdist_group(page), id="-".join(more) or page)


each_page = pytest.mark.parametrize("opened", [on_its_page(page) for page in PAGES], indirect=True)


def state_of(tab: Any, name: str) -> dict[str, str]:
    return tab.evaluate(
        """name => Object.fromEntries([...document.querySelectorAll(`#${name} [name]`)].map(field =>
        [field.name, field.type === "checkbox" ? (field.checked ? "on" : "off") : field.value]))""",
        name,
    )


def views(tab: Any, name: str) -> int:
    """How many views of the engine this explorer has shown."""
    return int(
        tab.evaluate("name => Number(document.getElementById(name).dataset.live || 0)", name)
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
    assert set(PLACES) == set(MODULES)
    for name, page in PLACES.items():
        text = (site / page).read_text(encoding="utf-8")
        assert text.count(f'data-explorer="{name}"') == 1
        assert text.count(f' id="{name}"') == 1, f"{page}: a heading has the explorer's id"


def test_the_pages_looked_at_are_all_there_are(site: Path) -> None:
    assert sorted(PAGES) == pages(site)


@each_page
def test_no_page_asks_another_host_or_logs_an_error(opened: Opened, address: str) -> None:
    assert f"{address}/{opened.page}" in opened.asked
    others = [url for url in opened.asked if not url.startswith((address, "data:", "blob:"))]
    assert not others
    assert not opened.errors


@each_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened: Opened, scheme: str) -> None:
    tab = opened.tab
    tab.emulate_media(color_scheme=scheme)
    # The theme follows, and some colours take their time.
    tab.wait_for_function(
        "scheme => document.documentElement.dataset.theme === scheme"
        " && document.getAnimations().every(one => one.playState !== 'running')",
        arg=scheme,
    )
    tab.evaluate(
        "document.querySelectorAll('.sb-quiz details')"
        ".forEach(option => {option.removeAttribute('name'); option.open = true})"
    )
    if not tab.evaluate("'axe' in window"):
        tab.add_script_tag(path=str(AXE))
    result = tab.evaluate(
        "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES
    )
    found = [
        (
            violation["id"],
            violation["nodes"][0]["html"][:200],
            violation["nodes"][0]["failureSummary"][:300],
        )
        for violation in result["violations"]
    ]
    assert not found, json.dumps(found, indent=1)


@each_page
def test_a_page_fits_a_narrow_screen(opened: Opened) -> None:
    tab = opened.tab
    tab.set_viewport_size({"width": 400, "height": 800})
    width = tab.evaluate("document.documentElement.scrollWidth")
    # A table may be moved under its caption; the caption itself is read without that.
    captions = tab.evaluate(
        "[...document.querySelectorAll('.sb-rows caption')]"
        ".map(caption => [caption.getBoundingClientRect().right, caption.textContent])"
    )
    tab.set_viewport_size(VIEW)
    assert width <= 400
    assert [text for right, text in captions if right > 400] == []
    assert captions or opened.page not in PLACES.values()


@pytest.mark.parametrize(
    ("opened", "name"), [on_its_page(page, name) for name, page in PLACES.items()],
    indirect=["opened"],
)  # fmt: skip
def test_an_explorer_moved_by_keyboard_agrees_with_the_engine(opened: Opened, name: str) -> None:
    tab = opened.tab
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
        before_it = views(tab, name)
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
        tab.wait_for_function(
            "([name, n]) => {const explorer = document.getElementById(name);"
            "return explorer.dataset.live > n || explorer.querySelector('[aria-invalid]')}",
            arg=[name, before_it],
            timeout=LIVE,
        )
        seen.add(tab.locator(f"#{name} .sb-sentence").inner_text())
    assert updates >= len(get(name).controls)
    assert len(seen) > 1, "no control changed the sentence"
    assert_shows_the_engines_view(tab, name)
    assert not opened.errors


def test_bad_input_is_told_beside_the_control_and_the_view_stays(
    site: Path, address: str, tab: Any
) -> None:
    name = "ledger-of-one-rank"
    tab.goto(f"{address}/{PLACES[name]}")
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
    page = f"{address}/{PLACES[name]}"
    tab.goto(f"{page}?{name}.stage=3&{name}.ranks=13")
    wait_until_live(tab, name)
    assert state_of(tab, name)["ranks"] == "13"
    assert_shows_the_engines_view(tab, name)
    tab.locator(f"#{name} [data-act=reset]").click()
    wait_until_live(tab, name, updates=2)
    assert state_of(tab, name)["ranks"] != "13"
    tab.wait_for_url(lambda url: f"{name}.ranks" not in url)
    assert_shows_the_engines_view(tab, name)
    copied = tab.evaluate(
        """([name]) => new Promise((done) => {
          const figure = document.getElementById(name);
          navigator.clipboard.writeText = async (text) => done(text);
          new MutationObserver(() => figure.querySelector("[data-act=share]").click())
            .observe(figure, { attributes: true, attributeFilter: ["data-live"] });
          const ranks = document.getElementById(`${name}--ranks`);
          ranks.value = "17";
          ranks.dispatchEvent(new Event("input", { bubbles: true }));
        })""",
        [name],
    )
    assert f"{name}.ranks=17" in copied, "asked for at once, the link is older than the view"
    assert copied.endswith(f"#{name}") and copied.startswith(tab.url)


def test_the_latest_input_wins(site: Path, address: str, tab: Any) -> None:
    name = "ledger-of-one-rank"
    tab.goto(f"{address}/{PLACES[name]}")
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
    page = PLACES[name]
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


def test_the_readme_s_picture_shows_the_moved_explorer(site: Path, address: str, tab: Any) -> None:
    tab.set_viewport_size(book.VIEW)
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


def test_without_a_script_the_default_view_and_its_table_are_there(
    site: Path, address: str, browser: Any
) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    for page in dict.fromkeys(PLACES.values()):
        tab.goto(f"{address}/{page}")
        for name in (name for name in PLACES if PLACES[name] == page):
            figure = tab.locator(f"#{name}")
            assert figure.locator(".sb-figure svg").is_visible()
            assert figure.locator(".sb-rows table").is_visible()
            assert not figure.locator("form").is_visible()
    context.close()
