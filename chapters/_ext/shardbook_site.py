"""Sphinx extension: what the published site serves beside its pages.

It adds the explorers' script and style, Pyodide, MathJax and the engine's wheel to the static
files, all from this machine: no page asks another host. It executes the pages side by side, and
makes a page that was computed by an older engine stale, which Sphinx and the notebook cache alone
would not notice.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import escape
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from docutils import nodes
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from myst_nb.core.read import create_nb_reader
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
STATIC = Path(__file__).parent / "static"
#: the logs that explorers replay: made from the engine, so they are no source of it
MADE = ROOT / "shardbook" / "explorers" / "data"
VENDORED = {
    "pyodide": (
        "pyodide",
        [
            "pyodide.mjs",
            "pyodide.asm.mjs",
            "pyodide.asm.wasm",
            "python_stdlib.zip",
            "pyodide-lock.json",
        ],
    ),
    "mathjax": ("mathjax/es5", ["tex-mml-chtml.js", "output/chtml/fonts/woff-v2"]),
}


def hash_of(*folders: Path) -> str:
    """Return a hash of all source files below ``folders``."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.parent != MADE:
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def engine_hash() -> str:
    """Return the hash of the engine: a page computed by another engine is stale."""
    return hash_of(ROOT / "shardbook")


def build_engine(folder: Path) -> str:
    """Build the engine's wheel into ``folder`` and return its file name."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--disable-pip-version-check",
            "--wheel-dir",
            str(folder),
            str(ROOT),
        ],
        check=True,
        env=os.environ | {"SOURCE_DATE_EPOCH": "315532800"},  # the same sources, the same bytes
    )
    return next(folder.glob("shardbook-*.whl")).name


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _gather_static_files(app: Any) -> None:
    served = ROOT / "_build" / ".served"  # one for every builder and output folder
    stamp = served / "engine-hash"
    if not (stamp.exists() and stamp.read_text() == engine_hash()):
        shutil.rmtree(served, ignore_errors=True)
        served.mkdir(parents=True)
        for name, (package, files) in VENDORED.items():
            for file in files:
                source = ROOT / "node_modules" / package / file
                if not source.exists():
                    raise FileNotFoundError(
                        f"{source} is missing: run `make book`, which installs it"
                    )
                _copy(source, served / name / file)
        subprocess.run([sys.executable, "-m", "shardbook.explorers.logs"], check=True, cwd=ROOT)
        (served / "engine.json").write_text(json.dumps({"wheel": build_engine(served)}))
        stamp.write_text(engine_hash())
    app.config.html_static_path += [str(served), str(STATIC)]


def _use_cache_of_this_engine(app: Any, config: Any) -> None:
    os.environ["SHARDBOOK_BUILD"] = "1"
    config.nb_execution_cache_path = str(Path(app.outdir).parent / ".executed" / engine_hash())
    # The notebook reader's defaults load a widget manager from another host.
    config.nb_ipywidgets_js = {}


def _stale_pages(app: Any, env: Any, added: Any, changed: Any, removed: Any) -> set[str]:
    # The extension's files count too: Sphinx copies static files only when some page changed.
    known, now = getattr(env, "shardbook", None), hash_of(ROOT / "shardbook", Path(__file__).parent)
    env.shardbook = now
    return set() if known == now else set(env.found_docs)


def _stale_overviews(app: Any, env: Any, added: Any, changed: Any, removed: Any) -> set[str]:
    # These pages read the repository, which the notebook cache knows nothing about.
    contents = hash_of(ROOT / "chapters", ROOT / "tests") + (ROOT / "_toc.yml").read_text("utf-8")
    known, env.shardbook_contents = getattr(env, "shardbook_contents", None), contents
    overviews = {"index", "reference/coverage", "reference/experiments"}
    found = {f"chapters/{name}" for name in overviews} & set(env.found_docs)
    return set() if known == contents else found


def _execute_side_by_side(app: Any, env: Any, pages: list[str]) -> None:
    """Fill the notebook cache on all cores: Sphinx would execute one page after the other.

    What fails is left to Sphinx, which executes it again and says so.
    """
    config = env.mystnb_config
    cache, alone = get_cache(config.execution_cache_path), Lock()

    def execute(page: str) -> None:
        path = env.doc2path(page)
        text = Path(path).read_text(encoding="utf-8")
        reader = create_nb_reader(path, env.myst_config, config, text)
        notebook = reader.read(text) if reader else None
        if notebook is None or "mystnb" in notebook.metadata:  # an overview: it isn't cached
            return
        with alone, suppress(KeyError):
            cache.match_cache_notebook(notebook)
            return
        folder, limit = os.path.dirname(path), config.execution_timeout
        try:
            done = single_nb_execution(notebook, cwd=folder, timeout=limit, allow_errors=False)
        except RuntimeError:  # the kernel died, for one since another process took its port
            return
        if done.err is None:
            bundle = CacheBundleIn(notebook, path, data={"execution_seconds": done.time})
            with alone:
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)

    # On one core, too, a page waits for its kernel's start as often as it computes.
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        list(pool.map(execute, pages))


def _drop_thebe(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    # jupyter-book always loads sphinx-thebe, whose scripts fail on every page when it is unused.
    context["script_files"] = [
        script for script in context["script_files"] if "thebe" not in str(script).lower()
    ]


def _add_errata_link(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put "Report a mistake" at the foot of a page, with what the page was built from."""
    if doctree is None or app.builder.name == "singlehtml":
        return
    text = hashlib.sha256(Path(app.env.doc2path(page)).read_bytes()).hexdigest()[:8]
    version = f"engine {metadata.version('shardbook')}-{engine_hash()[:8]}, text {text}"
    asked = urlencode({"page": page, "version": version})
    place = "chapters/reference/errata"
    if app.config.shardbook_errata_url:
        target = app.config.shardbook_errata_url
    elif place in app.env.found_docs:
        target = f"{app.builder.get_relative_uri(page, place) or 'errata.html'}?{asked}"
    else:
        return
    if page == place:
        app.add_js_file("errata.js", loading_method="defer")
    context["theme_extra_footer"] = (
        f'<p class="sb-errata"><a href="{escape(target)}">Report a mistake on this page</a><br>'
        f"<small>{version}</small></p>"
    )


def _demand_alt_texts(app: Any, doctree: nodes.document) -> None:
    """Warn about an image without an alt text of its own; a warning fails the build."""
    for image in doctree.findall(nodes.image):
        alt = image.get("alt", "").strip()
        if len(alt.split()) < 3 or alt == image.get("uri"):
            LOGGER.warning(
                "this image has no alt text that states what it shows: %r", alt, location=image
            )


def _quoted(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, *_: Any
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Role ``quoted``: what a source says, in its words or figures, with the source in brackets."""
    return [nodes.inline(rawtext, text, classes=["sb-quoted"])], []


def setup(app: Any) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("config-inited", _use_cache_of_this_engine, priority=100)
    app.connect("builder-inited", _gather_static_files)
    app.connect("env-get-outdated", _stale_pages)
    app.connect("env-get-outdated", _stale_overviews)
    app.connect("env-before-read-docs", _execute_side_by_side)
    app.connect("doctree-read", _demand_alt_texts)
    app.add_role("quoted", _quoted)
    app.add_config_value("shardbook_errata_url", "", "html")  # an issue tracker's address
    app.connect("html-page-context", _add_errata_link)
    app.connect("html-page-context", _drop_thebe, priority=900)
    app.add_css_file("shardbook.css")
    app.add_js_file("explorer.js", loading_method="defer")
    app.add_js_file("theme.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
