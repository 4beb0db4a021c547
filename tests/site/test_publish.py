"""`make publish`: what it takes along, with the book's build and the releases stood in for."""

from pathlib import Path

import book
import pytest


def test_every_lab_is_published_and_nothing_of_the_staff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shardbook/m.py", "solutions/s.py", "autograder/a.py", "_build/html/index.html",
                 "pyproject.toml", "LICENSE", "README.md"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    released = []

    def release(command: list[str], check: bool) -> None:
        released.append(command[2])
        package = Path(command[command.index("--course") + 1]) / "packages" / f"{command[2]}.zip"
        package.parent.mkdir(parents=True, exist_ok=True)
        package.touch()

    monkeypatch.setattr(book, "build", lambda: None)
    monkeypatch.setattr(book.subprocess, "run", release)
    texts = sorted(path.stem.split("_")[0] for path in (book.ROOT / "labs").glob("*_*.md"))
    monkeypatch.setattr(book, "ROOT", tmp_path)
    monkeypatch.setattr(book, "SITE", tmp_path / "_build" / "html")
    book.publish()
    assert sorted(released) == texts
    assert "pp" in released
    public = tmp_path / "dist" / "public"
    found = {str(path.relative_to(public)) for path in public.rglob("*") if path.is_file()}
    engine = {
        "engine/shardbook/m.py",
        "engine/pyproject.toml",
        "engine/LICENSE",
        "engine/README.md",
    }
    assert found == engine | {"site/index.html"} | {f"labs/{lab}.zip" for lab in texts}
