"""`shardbook lab` from a student's folder and from a checkout."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from shardbook.cli import main
from shardbook.labs.registry import LABS, TASKS

LAB = LABS["n45"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["lab", *arguments])
    assert ended.value.code == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    out, error = run(capsys, *arguments, code=2)
    assert out == "" and error.count("\n") == 1 and error.startswith("shardbook: ")
    return error


def cell(source: str, **nbgrader: Any) -> dict[str, Any]:
    metadata = {"nbgrader": nbgrader} if nbgrader else {}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": []}


def write(folder: Path, *cells: dict[str, Any]) -> Path:
    path = folder / LAB.notebook
    content = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_doctor_tells_what_is_there_and_what_is_missing(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = run(capsys, "doctor")
    assert "numpy" in out and "none yet" in out and "All that a lab needs is there." in out
    write(folder)
    monkeypatch.setattr("shardbook.commands.lab._NEEDED", {"numpy": "", "no-such-package": "why"})
    out, _ = run(capsys, "doctor", code=1)
    assert LAB.notebook in out and "! no-such-package is not installed (why)" in out
    told = json.loads(run(capsys, "doctor", "--json", code=1)[0])
    assert told["notebooks"] == [LAB.notebook] and len(told["troubles"]) == 1
    assert told["packages"]["no-such-package"] == ""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list_names_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    table, _ = run(capsys, "list")
    listed = json.loads(run(capsys, "list", "--json")[0])
    assert [task["id"] for lab in listed for task in lab["tasks"]] == list(TASKS)
    assert all(task in table for task in TASKS)
    for lab in listed:
        assert lab["points"] == sum(c["points"] for t in lab["tasks"] for c in t["criteria"])


def test_start_from_a_checkout_never_overwrites(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "labs").symlink_to(Path(__file__).parents[2] / "labs")
    made = json.loads(run(capsys, "start", "n45", "--json")[0])
    notebook = folder / made["notebook"]
    assert json.loads(notebook.read_text())["nbformat"] == 4
    notebook.write_text("my work")
    assert "--force" in refusal(capsys, "start", "n45")
    assert notebook.read_text() == "my work"
    run(capsys, "start", "n45", "--force")
    assert notebook.read_text() != "my work"


@pytest.mark.parametrize("form", ["zip", "folder", "here"])
def test_start_from_the_student_package(
    form: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = folder / "n45-student.zip"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr(f"n45-student/blank/{LAB.notebook}", "blank")
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    source = {"zip": ["--from", str(package)], "folder": ["--from", "n45-student"], "here": []}[
        form
    ]
    run(capsys, "start", "n45", "--folder", "work", *source) if source else run(
        capsys, "start", "n45", "--folder", "n45-student"
    )
    where = folder / ("work" if source else "n45-student") / LAB.notebook
    assert where.read_text() == "blank"


@pytest.mark.parametrize(
    "arguments",
    [
        ["start", "n99"],
        ["start", "n45", "--from", "nothing.zip"],
        ["start", "n45"],
        ["check", "n45"],
        ["check", "n45", "--notebook", "broken.ipynb"],
        ["pack", "n45", "--notebook", "list.ipynb"],
        ["pack"],
    ],
)
def test_what_cannot_be_used_is_one_line(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.ipynb").write_text("{")
    (folder / "list.ipynb").write_text("[]")
    refusal(capsys, *arguments)
    assert not (folder / LAB.notebook).exists()


def test_check_runs_the_cells_and_tells_each_task(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        folder,
        cell("%matplotlib inline\n!ls\nimport math"),
        cell("print('hello')\ndef bytes_per_parameter(kept):\n    return math.inf"),
        cell("def bytes_on_rank(:", grade_id="n45-2-solution", solution=True),
        cell("def smallest_ranks(*a):\n    raise NotImplementedError"),
        cell("raise KeyError('oh')"),
        cell("1 / 0", grade_id="n45-1", grade=True),
    )
    out, _ = run(capsys, "check", "n45", code=1)
    assert "hello" not in out
    assert "cell n45-2-solution: SyntaxError" in out and "cell 5: KeyError" in out
    assert "n45.1: failed" in out and "n45.3: unanswered" in out and "inf (a float)" in out
    report = json.loads(run(capsys, "check", "n45", "--json", code=1)[0])
    assert [task["task"] for task in report["tasks"]] == [task.id for task in LAB.tasks]
    assert report["tasks"][0]["finding"]["got"] == "inf (a float)"
    assert len(report["failed_cells"]) == 2


def test_pack_warns_about_what_is_unanswered(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = 'def f(kept):\n    """Doc."""\n    raise NotImplementedError("n45.1: …")'
    notebook = write(
        folder,
        cell(stub.replace("f(", "bytes_per_parameter("), grade_id="n45-1-solution", solution=True),
        cell("def bytes_on_rank(*a):\n    return 1", grade_id="n45-2-solution", solution=True),
        cell("def smallest_ranks(:", grade_id="n45-3-solution", solution=True),
    )
    _, error = run(capsys, "pack", "n45")
    assert error == "Warning: unanswered: n45.1, n45.4, n45.5.\n"
    packed = json.loads(run(capsys, "pack", "n45", "--json")[0])
    assert packed["unanswered"] == ["n45.1", "n45.4", "n45.5"]
    with zipfile.ZipFile(packed["file"]) as archive:
        assert archive.read(LAB.notebook) == notebook.read_bytes()
        assert json.loads(archive.read("pack.json"))["lab"] == "n45"


def test_the_students_side_needs_no_nbgrader() -> None:
    code = (
        "import sys; import shardbook.commands.lab, shardbook.labs, shardbook.labs.examples_n45\n"
        "heavy = {'nbgrader', 'nbformat', 'nbconvert', 'jupytext', 'IPython', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
