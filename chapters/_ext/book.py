"""Build, serve, photograph and publish the book: the work behind `make book` and its relatives."""

import argparse
import functools
import http.server
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
SITE = BUILD / "html"
PORT = 8000


def build() -> None:
    """Build the site into `_build/html`; ends the program with the builder's code if that fails."""
    builder = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    done = subprocess.run([*builder, "build", str(ROOT), "-n", "-W", "--keep-going", "-q"])
    if done.returncode:
        sys.exit(done.returncode)
    print(f"The book is in {SITE.relative_to(ROOT)}")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the site, without a line for every file."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def serve() -> None:
    """Build, then serve the site on the first free port from `PORT` on, until interrupted."""
    build()
    handler = functools.partial(Quiet, directory=str(SITE))
    for port in (PORT, PORT + 1, PORT + 2, 0):
        try:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
            break
        except OSError:  # the port is taken
            continue
    print(f"Read the book at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()


def main() -> None:
    """Run one verb."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = {"build": build, "serve": serve}
    parser.add_argument("verb", choices=verbs)
    verbs[parser.parse_args().verb]()


if __name__ == "__main__":
    main()
