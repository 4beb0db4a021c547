"""Fixtures that several folders share: the built site, a server for it, and a browser."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent / "chapters" / "_ext"), str(TESTS)]

from sites import ROOT, chromium, serve  # noqa: E402  # after the path that leads there


@pytest.fixture(scope="session")
def site() -> Path:
    """The built site; fails, rather than testing an old one, when the engine has changed since."""
    import shardbook_site

    stamp = ROOT / "_build" / ".served" / "engine-hash"
    if not stamp.exists() or stamp.read_text() != shardbook_site.engine_hash():
        pytest.fail("the book is not built with this engine: run `make book` (make test does)")
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the built site is served."""
    yield from serve(site)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(
                executable_path=chromium(),
                args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            )
        except Error:
            pytest.fail(
                "no browser: install Chromium (apt-get install chromium), name one in CHROMIUM, "
                "or run `.venv/bin/playwright install chromium`",
                pytrace=False,
            )
        yield opened
        opened.close()
