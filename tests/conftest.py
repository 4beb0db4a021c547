"""Fixtures that several folders share: the built site, a server for it, and a browser."""

import functools
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "chapters" / "_ext"), str(ROOT / "tests")]


@pytest.fixture(scope="session")
def site() -> Path:
    """The built site; fails, rather than testing an old one, when the engine has changed since."""
    import shardbook_site

    stamp = ROOT / "_build" / ".served" / "engine-hash"
    if not stamp.exists() or stamp.read_text() != shardbook_site.engine_hash():
        pytest.fail("the book is not built with this engine: run `make book` (make test does)")
    return ROOT / "_build" / "html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the built site is served."""
    yield from serve(site)


def chromium() -> str | None:
    """The browser that is there: the one given, the system's, or None for the one Playwright got."""
    given = os.environ.get("CHROMIUM")
    return given or next(
        filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
    )


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


def pages(site: Path) -> list[str]:
    """The paths of all pages of the book, without Sphinx's own."""
    made_by_sphinx = {"genindex.html", "search.html"}
    return sorted(
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if "_static" not in path.parts
        and path.name not in made_by_sphinx
        and 'http-equiv="Refresh"' not in path.read_text(encoding="utf-8")
    )
