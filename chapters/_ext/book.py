"""Build, serve, photograph and publish the book: the work behind `make book` and its relatives."""

import argparse
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from shardbook.labs.registry import LABS

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
PICTURE = ROOT / "chapters" / "images" / "live-page.png"
PORT = 8000
VIEW = {"width": 1100, "height": 860}


def build() -> None:
    """Build the site into `_build/html`; ends the program with the builder's code if that fails."""
    builder = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    done = subprocess.run([*builder, "build", str(ROOT), "-n", "-W", "--keep-going"])
    if done.returncode:
        sys.exit(done.returncode)
    print(f"The book is in {SITE.relative_to(ROOT)}")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the site, without a line for every file."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _server(*ports: int) -> http.server.ThreadingHTTPServer:
    handler = functools.partial(Quiet, directory=str(SITE))
    for port in ports:
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:  # the port is taken
            continue
    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)


def serve() -> None:
    """Build, then serve the site on a free port from `PORT` on, until interrupted."""
    build()
    server = _server(PORT, PORT + 1, PORT + 2)
    print(f"Read the book at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()


def pose(tab: Any, address: str) -> None:
    """Move the first explorer of the site at ``address``, and put it below the page's header."""
    figure, page = "ledger-of-one-rank", "chapters/n45_what_is_stored.html"
    tab.goto(f"{address}/{page}?{figure}.stage=2&{figure}.ranks=16", wait_until="networkidle")
    tab.wait_for_selector(f"#{figure}[data-live]", timeout=60_000)
    # The theme scrolls smoothly: without "instant" the picture is taken on the way.
    tab.evaluate(
        """name => {const top = document.getElementById(name).getBoundingClientRect().top;
        window.scrollBy({top: top - 64, behavior: "instant"})}""",
        figure,
    )
    tab.wait_for_timeout(300)  # the header slides in


def picture() -> None:
    """Build, move the first explorer in a browser, and take the README's picture."""
    from playwright.sync_api import sync_playwright

    build()
    server = _server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = opened.new_page(viewport=VIEW)
        pose(tab, f"http://127.0.0.1:{server.server_port}")
        PICTURE.parent.mkdir(exist_ok=True)
        tab.screenshot(path=str(PICTURE))
        opened.close()
    server.shutdown()
    print(f"The picture is {PICTURE.relative_to(ROOT)}")


def publish() -> None:
    """Export what the public sees into `dist/public`: the site, the student packages, the engine."""
    build()
    public = ROOT / "dist" / "public"
    shutil.rmtree(public, ignore_errors=True)
    shutil.copytree(SITE, public / "site")
    course = ROOT / "dist" / "course"
    for lab in LABS:
        shardgrade = str(Path(sys.executable).with_name("shardgrade"))
        subprocess.run([shardgrade, "release", lab, "--course", str(course)], check=True)
    shutil.copytree(course / "packages", public / "labs")
    engine = public / "engine"
    shutil.copytree(
        ROOT / "shardbook", engine / "shardbook", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copyfile(ROOT / name, engine / name)
    print(f"What the public sees is in {public.relative_to(ROOT)}")


def main() -> None:
    """Run one verb."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = {"build": build, "serve": serve, "picture": picture, "publish": publish}
    parser.add_argument("verb", choices=verbs)
    verbs[parser.parse_args().verb]()


if __name__ == "__main__":
    main()
