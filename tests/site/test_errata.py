"""Each page's foot leads to a report that says which page it is about and what it was built from."""

import hashlib
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import shardbook_site
from sites import ROOT, pages

import shardbook

ERRATA = "chapters/reference/errata"


def foot(page: str, tracker: str = "", found: tuple[str, ...] = (ERRATA,)) -> tuple[str, list[str]]:
    """The foot of ``page`` as the extension makes it, and the scripts it adds."""
    scripts: list[str] = []
    app = SimpleNamespace(
        config=SimpleNamespace(shardbook_errata_url=tracker),
        env=SimpleNamespace(found_docs=found, doc2path=lambda name: ROOT / f"{name}.md"),
        builder=SimpleNamespace(
            name="html", get_relative_uri=lambda page, place: "" if page == place else "e.html"
        ),
        add_js_file=lambda name, loading_method: scripts.append(name),
    )
    context: dict[str, Any] = {}
    shardbook_site._add_errata_link(app, page, "", context, doctree="a page")
    return context.get("theme_extra_footer", ""), scripts


def target(html: str) -> str:
    link = re.search(r'href="([^"]*)"[^>]*>Report a mistake on this page', html)
    assert link, "no link to report a mistake"
    return unescape(link[1])


def test_the_link_names_page_engine_and_text() -> None:
    html, _ = foot("chapters/index")
    asked = parse_qs(urlsplit(target(html)).query)
    assert asked["page"] == ["chapters/index"]
    text = hashlib.sha256((ROOT / "chapters" / "index.md").read_bytes()).hexdigest()[:8]
    assert asked["version"][0].startswith(f"engine {shardbook.__version__}-")
    assert asked["version"][0].endswith(f"text {text}")
    assert asked["version"][0] in html


def test_an_issue_tracker_takes_the_links_place() -> None:
    html, _ = foot("chapters/index", tracker="tracker.example/new?a=1&b=2")
    assert target(html) == "tracker.example/new?a=1&b=2"


def test_a_book_without_the_page_has_no_link() -> None:
    assert foot("chapters/index", found=()) == ("", [])


def test_only_the_errata_page_loads_the_script() -> None:
    assert foot(ERRATA)[1] == ["errata.js"]
    assert foot("chapters/index")[1] == []


@pytest.mark.site
def test_every_page_links_the_errata_page(site: Path) -> None:
    for page in pages(site):
        link = target((site / page).read_text(encoding="utf-8"))
        path, _, query = link.partition("?")
        assert (site / page).parent.joinpath(path).resolve() == site / f"{ERRATA}.html"
        assert parse_qs(query)["page"] == [page.removesuffix(".html")]


@pytest.mark.site
@pytest.mark.browser
def test_the_report_is_filled_in_and_can_be_copied(address: str, browser: Any) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    tab.goto(f"{address}/chapters/index.html")
    version = tab.locator(".sb-errata small").inner_text()
    with tab.expect_navigation():  # to the end of loading, when the page's script has run
        tab.click(".sb-errata a")
    report = tab.locator("#sb-report").input_value()
    assert "Page: chapters/index\n" in report
    assert f"Version: {version}\n" in report
    tab.click("#sb-copy")
    tab.wait_for_function("document.getElementById('sb-copied').textContent")
    assert tab.evaluate("navigator.clipboard.readText()") == report
    context.close()


@pytest.mark.site
@pytest.mark.browser
def test_an_address_cannot_put_markup_or_a_pattern_into_the_report(
    address: str, browser: Any
) -> None:
    tab = browser.new_page()
    tab.goto(f"{address}/{ERRATA}.html?page=%3Cimg%20src%3Dx%3E%24%26")
    assert "Page: <img src=x>$&\n" in tab.locator("#sb-report").input_value()
    assert tab.locator("img[src=x]").count() == 0
    tab.close()


@pytest.mark.site
@pytest.mark.browser
def test_without_a_script_the_text_says_where_to_look(address: str, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{address}/{ERRATA}.html?page=chapters/index")
    assert "foot of that page" in tab.locator("#sb-report").input_value()
    assert not tab.locator("#sb-copy").is_visible()
    context.close()
