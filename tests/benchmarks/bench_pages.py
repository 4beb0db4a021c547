"""Measure the pages' budgets: from first touch to live, an update, the weight of a page.

Medians of several runs in headless Chromium on the built site; printed, never asserted, because
times depend on the machine. Run it on an idle machine: `make bench`.
"""

import functools
import gzip
import http.server
import os
import shutil
import statistics
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

SITE = Path(__file__).resolve().parents[2] / "_build" / "html"
FIGURE, PAGE = "ledger-of-one-rank", "chapters/n45_what_is_stored.html"
PIPELINE, PIPELINE_PAGE = "pipeline", "chapters/beyond_pipeline.html"
#: what is changed → on which schedules, to what; interleaved schedules allow few micro-batches
PIPELINE_CHANGES = {
    "forward": (
        ("gpipe", "1f1b", "interleaved-1f1b", "zbv", "dualpipev"),
        [f"{1 + at / 50:.2f}" for at in range(1, 41)],
    ),
    "micro_batches": (
        ("gpipe", "1f1b", "zbv", "dualpipev"),
        [str(count) for count in range(63, 39, -1)],
    ),
}
#: explorers with much to do: page, state, and the control that is moved
FULL = {
    "bucket-size": (
        "chapters/n46_hiding_the_wait.html",
        {"slow": "1.25", "contention": "0.5"},
        ("bandwidth", [f"{gigabytes}GB/s" for gigabytes in range(20, 60)]),
    ),
    "fsdp-timeline": (
        "chapters/n47_two_streams.html",
        {"units": "12", "passes": "4-each", "all_reduce": "1", "limit": "3"},
        ("forward", [f"{1 + at / 20:g}" for at in range(1, 41)]),
    ),
    "update-step-by-step": (
        "chapters/n44_the_update.html",
        {},
        ("step", [str(step % 19) for step in range(40)]),
    ),
    "which-limit": (
        "chapters/beyond_choosing.html",
        {"model": "gpt3-175b", "cards": "16", "nodes": "8"},
        ("batch", [str(8 * sequences) for sequences in range(1, 41)]),
    ),
}
COLD_STARTS, UPDATES = 7, 200


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def serve() -> str:
    handler = functools.partial(Quiet, directory=str(SITE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def cold_start(browser: Any, address: str) -> float:
    """Seconds from the first key press on a control to the engine's first view."""
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(f"{address}/{PAGE}", wait_until="networkidle")
    start = time.perf_counter()
    tab.focus(f"#{FIGURE}--stage")
    tab.keyboard.press("ArrowDown")
    tab.wait_for_selector(f"#{FIGURE}[data-live]", timeout=60_000)
    taken = time.perf_counter() - start
    context.close()
    return taken


def updates(
    browser: Any, address: str, page: str, figure: str, state: str, field: str, values: list[str]
) -> list[float]:
    """Milliseconds from an input event to the new view, once live, for each value of a control."""
    tab = browser.new_page()
    tab.goto(f"{address}/{page}?{state}")
    tab.wait_for_selector(f"#{figure}[data-live]", timeout=60_000)
    times: list[float] = tab.evaluate(
        """async ([name, field, values]) => {
          const figure = document.getElementById(name), times = [];
          const control = document.getElementById(`${name}--${field}`);
          for (const value of values) {
            const start = performance.now();
            const shown = new Promise((done) => {
              const watch = new MutationObserver(() => { watch.disconnect(); done(); });
              watch.observe(figure, { attributes: true, attributeFilter: ["data-live"] });
            });
            control.value = value;
            control.dispatchEvent(new Event("input", { bubbles: true }));
            await shown;
            times.push(performance.now() - start);
          }
          return times;
        }""",
        [figure, field, values],
    )
    tab.close()
    return times


def ledger_updates(browser: Any, address: str) -> list[float]:
    """The ledger's explorer, with 1, 2, 3, … ranks."""
    ranks = [str(count) for count in range(1, UPDATES + 1)]
    return updates(browser, address, PAGE, FIGURE, f"{FIGURE}.stage=1", "ranks", ranks)


def pipeline_updates(
    browser: Any, address: str, schedule: str, field: str, values: list[str]
) -> list[float]:
    """The pipeline explorer, 8 stages × 64 micro-batches: a new run and drawing for each value."""
    chosen = {"schedule": schedule, "stages": "8", "micro_batches": "64"}
    state = "&".join(f"{PIPELINE}.{name}={value}" for name, value in chosen.items())
    return updates(browser, address, PIPELINE_PAGE, PIPELINE, state, field, values)


def full_updates(browser: Any, address: str, figure: str) -> list[float]:
    """An explorer with much to do."""
    page, chosen, (field, values) = FULL[figure]
    state = "&".join(
        f"{figure}.{name}={value}" for name, value in {field: values[-1], **chosen}.items()
    )
    return updates(browser, address, page, figure, state, field, values)


def weight(browser: Any, address: str) -> int:
    """Bytes of all files a page without an explorer asks for, gzip-compressed."""
    tab = browser.new_page()
    asked: set[str] = set()
    tab.on("request", lambda request: asked.add(request.url))
    tab.goto(f"{address}/chapters/reference/glossary.html", wait_until="networkidle")
    paths = [
        url.removeprefix(address).partition("?")[0] for url in asked if url.startswith(address)
    ]
    return sum(len(gzip.compress((SITE / path.lstrip("/")).read_bytes())) for path in paths)


def main() -> None:
    address = serve()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        starts = [cold_start(browser, address) for _ in range(COLD_STARTS)]
        print(
            f"first touch to live: median {statistics.median(starts):.2f} s, "
            f"{min(starts):.2f}–{max(starts):.2f} s over {COLD_STARTS} cold starts (budget 3 s)"
        )
        times = ledger_updates(browser, address)
        print(f"an update: median {statistics.median(times):.1f} ms over {UPDATES} (budget 10 ms)")
        for field, (schedules, values) in PIPELINE_CHANGES.items():
            for schedule in schedules:
                times = pipeline_updates(browser, address, schedule, field, values)
                print(
                    f"pipeline of 8 stages × 64, other {field}, {schedule}: median "
                    f"{statistics.median(times):.1f} ms, least {min(times):.1f} ms (budget 30 ms)"
                )
        print(
            f"a page without an explorer: {weight(browser, address) / 1e6:.2f} MB (budget 1.5 MB)"
        )


if __name__ == "__main__":
    main()
