"""Each gate of the book must reject what it is there to reject."""

import re
import subprocess
import sys
from pathlib import Path

import check_numbers
import pytest
from sites import ROOT

FRONT = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
  language: python
---

# A page

"""


def build(folder: Path, *pages: str) -> subprocess.CompletedProcess[str]:
    """Build a book of these pages with the real configuration; they are page-0, page-1 and so on."""
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    config = config.replace("chapters/_ext", str(ROOT / "chapters" / "_ext"))
    (folder / "_config.yml").write_text(config, encoding="utf-8")
    others = [f"- file: page-{number}\n" for number in range(1, len(pages))]
    toc = "format: jb-book\nroot: page-0\n" + "chapters:\n" * bool(others) + "".join(others)
    (folder / "_toc.yml").write_text(toc, encoding="utf-8")
    for number, page in enumerate(pages):
        (folder / f"page-{number}.md").write_text(FRONT + page, encoding="utf-8")
    picture = ROOT / "_build" / "html" / "_static" / "plus.png"
    (folder / "picture.png").write_bytes(picture.read_bytes())
    builder = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build"]
    return subprocess.run(
        [*builder, str(folder), "-n", "-W", "--keep-going", "-q"],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.site
def test_sound_pages_pass_the_builder_and_are_executed_side_by_side(
    site: Path, tmp_path: Path
) -> None:
    """Two, executed once, wait for each other; the third's kernel dies, and another is started."""
    meet = (
        "```{{code-cell}} ipython3\nimport pathlib, time\n"
        "pathlib.Path('{0}').open('a').write('once ')\n"
        "while not pathlib.Path('{1}').exists():\n    time.sleep(0.05)\n```\n"
    )
    dies = (
        "```{code-cell} ipython3\nimport os, pathlib\nonce = pathlib.Path('died')\n"
        "if not once.exists():\n    once.touch()\n    os._exit(1)\n```\n"
    )
    done = build(tmp_path, meet.format("here", "there"), meet.format("there", "here"), dies)
    assert done.returncode == 0, done.stderr
    assert [file.read_text() for file in tmp_path.rglob("*here")] == ["once "] * 2
    assert list(tmp_path.rglob("died"))


@pytest.mark.slow
@pytest.mark.site
def test_a_failing_notebook_stops_the_builder(site: Path, tmp_path: Path) -> None:
    done = build(tmp_path, "```{code-cell} ipython3\nraise ValueError('broken')\n```\n")
    assert done.returncode != 0
    assert "broken" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.site
def test_the_builder_rejects_each_unsound_page(site: Path, tmp_path: Path) -> None:
    """One warning is enough to fail the build; each page has its own."""
    unsound = {
        "![](picture.png)\n": "alt text",
        "![picture.png](picture.png)\n": "alt text",
        "```{code-cell} ipython3\n%matplotlib inline\nfrom matplotlib import pyplot\n"
        "pyplot.plot([1, 2]);\n```\n": "alt text",
        "See [that page](no_such_page.md).\n": "no_such_page",
        "See {doc}`no_such_page`.\n": "no_such_page",
        "A {term}`wordless` thing.\n": "wordless",
        "{glue:text}`never_computed`\n": "never_computed",
    }
    done = build(tmp_path, "A sound one.\n", *unsound)
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    for number, complaint in enumerate(unsound.values(), start=1):
        mine = [line for line in warnings if f"page-{number}.md" in line]
        assert mine and all(complaint in line for line in mine), (number, done.stderr)
    assert not [line for line in warnings if "page-0.md" in line]


@pytest.mark.parametrize(
    "typed",
    [
        "It needs 112 GB.",
        "It needs `112` GB.",
        "$2 \\times 3 = 6$ GB",
        "$$ 3 + 4 = 7 $$",
        "| a | b |\n|---|---|\n| one | 5 |",
        "A quotation {quoted}`33 GB` without its source",
        "```{code-cell}\nask(f'{x} is it 3?', right('yes', 'no'))\n```",
        "```{code-cell}\nfigure(drawn, alt='The line rises to 7')\n```",
        ":::{note}\nnot 4 but more\n:::",
        "- item 12",
    ],
)
def test_a_typed_number_is_rejected(typed: str) -> None:
    assert check_numbers.typed_numbers(typed)


@pytest.mark.parametrize(
    "allowed",
    [
        "It needs {glue:text}`states`.",
        "$16\\Psi + \\frac{12\\Psi}{N}$",
        "ZeRO-3 and FP16 on an H100, stages 1 and 2, chapter N45, task n45.2, row S4, `p16` and `m32`",
        "{quoted}`33 GB (ZeRO, §6.1)`",
        "1. first\n2. second",
        "```{code-cell}\nx = 112\n```",
        "```{code-cell}\nask(f'is it {112:.2f}?', right(f'{3}', 'yes'))\n```",
    ],
)
def test_a_computed_number_or_a_name_is_not(allowed: str) -> None:
    assert not check_numbers.typed_numbers(allowed)


def test_the_pages_have_no_typed_number() -> None:
    assert check_numbers.main([str(ROOT / "chapters")]) == 0


@pytest.mark.site
def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    assert not dead_links(site)


def test_a_dead_link_in_the_built_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html">b</a><a href="a.html#x">x</a><img src="c.png">'
    )
    assert {target for _, target in dead_links(tmp_path)} == {"b.html", "a.html#x", "c.png"}


def dead_links(site: Path) -> list[tuple[str, str]]:
    """Links and sources of the built pages that lead to no file or to no place in it."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    dead = []
    for path, text in texts.items():
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:|//|#$", target):
                continue
            file, _, place = target.partition("#")
            aim = (path.parent / file.partition("?")[0]).resolve() if file else path
            aim = aim / "index.html" if aim.is_dir() else aim
            if not aim.exists() or (place and f'id="{place}"' not in texts.get(aim, "")):
                dead.append((path.name, target))
    return dead
