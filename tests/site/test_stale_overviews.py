"""Pages that read the repository are built anew when it changes, and only then."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import shardbook_site

OVERVIEWS = {"chapters/index", "chapters/reference/coverage", "chapters/reference/experiments"}


def test_a_change_of_pages_tests_or_contents_makes_the_overviews_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardbook_site, "ROOT", tmp_path)
    for name in ("chapters/page.md", "tests/test_page.py", "_toc.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("old")
    env = SimpleNamespace(found_docs=OVERVIEWS | {"chapters/page"})

    def stale() -> set[str]:
        return shardbook_site._stale_overviews(None, env, None, None, None)

    assert stale() == OVERVIEWS
    assert stale() == set()
    for name in ("chapters/page.md", "tests/test_page.py", "_toc.yml"):
        (tmp_path / name).write_text("new")
        assert stale() == OVERVIEWS, name
        assert stale() == set()
