"""Where the built site is, how it is served, and which browser there is."""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE_BY_SPHINX = {"genindex.html", "search.html"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(folder: Path) -> Iterator[str]:
    """Serve ``folder`` on a free local port; yields the address."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def chromium() -> str | None:
    """The browser given, else the system's, else None: the one that Playwright may have."""
    names = ["chromium", "chromium-browser", "google-chrome"]
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def pages(site: Path) -> list[str]:
    """The paths of all pages of the book, without Sphinx's own."""
    return sorted(
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if "_static" not in path.parts
        and path.name not in MADE_BY_SPHINX
        and 'http-equiv="Refresh"' not in path.read_text(encoding="utf-8")
    )
