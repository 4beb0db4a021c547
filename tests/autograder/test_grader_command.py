"""`shardgrade` refuses what it cannot do in one line, and its JSON has the promised keys."""

import json
from pathlib import Path

import pytest
from shardgrade.cli import main
from shardgrade.compose import compose
from shardgrade.demo import Graded
from shardgrade.feedback import write_feedback
from shardgrade.layout import open_layout

from shardbook.errors import InputError
from shardbook.labs.registry import LABS

ROOT = Path(__file__).parents[2]
TEXT = ROOT / "labs" / "n45_ledger.md"
SOLUTIONS = ROOT / "solutions" / "n45_ledger.py"


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize("verb", ["release", "grade", "feedback"])
def test_an_unknown_lab_is_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, error = run(capsys, verb, "n99", code=2)
    assert out == "" and error.count("\n") == 1 and "n45" in error


@pytest.mark.parametrize("verb", ["grade", "feedback"])
def test_a_folder_that_is_no_course_is_refused(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, error = run(capsys, verb, "n45", "--course", str(tmp_path), code=2)
    assert out == "" and error.count("\n") == 1 and "release" in error


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("points: 4\n", "points: 5\n"),
        ("grade_id: n45-2-solution", "grade_id: n45-1-solution"),
        ("grade_id: n45-3\n", "grade_id: n45-7\n"),
    ],
)
def test_a_text_that_does_not_go_with_the_tasks_is_refused(
    old: str, new: str, tmp_path: Path
) -> None:
    compose(LABS["n45"], TEXT, SOLUTIONS)
    broken = tmp_path / TEXT.name
    broken.write_text(TEXT.read_text().replace(old, new))
    with pytest.raises(InputError):
        compose(LABS["n45"], broken, SOLUTIONS)


@pytest.mark.slow
@pytest.mark.xdist_group("graded class")
def test_feedback_as_json_lists_every_student(
    graded: Graded, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(capsys, "feedback", "n45", "--course", str(graded.course), "--json")
    pages = {row["student"]: row["files"] for row in json.loads(out)}
    assert set(pages) == set(graded.records)
    assert all(Path(file).is_file() for files in pages.values() for file in files)
    with pytest.raises(InputError, match="nothing is graded"):
        write_feedback(open_layout(graded.course), "n46")
