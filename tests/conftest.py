"""Fixtures that several folders share: the built site, a server for it, and a browser."""

import functools
import sys
from collections.abc import Callable, Iterator
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
def chromium_type() -> Iterator[Any]:
    """Playwright's handle on Chromium, from which browsers are started."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium


@pytest.fixture(scope="session")
def browser(chromium_type: Any) -> Iterator[Any]:
    """A headless Chromium; each of its contexts begins with an empty cache."""
    opened = _started(chromium_type.launch)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def returning(chromium_type: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium as a returning reader has it: Python, compiled once, starts in half the time."""
    profile = tmp_path_factory.mktemp("profile")
    opened = _started(functools.partial(chromium_type.launch_persistent_context, profile))
    yield opened
    opened.close()


def _started(start: Callable[..., Any]) -> Any:
    from playwright.sync_api import Error

    try:
        return start(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
    except Error:
        pytest.fail(
            "no browser: install Chromium (apt-get install chromium), name one in CHROMIUM, "
            "or run `.venv/bin/playwright install chromium`",
            pytrace=False,
        )
