"""A made-up class of all that students hand in: each gets what is due, and the batch ends."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
import submissions as made
from shardgrade.grading.result import GradeRequest, SubmissionResult

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("synthetic class")]

FULL = made.LAB.points
POINTS = [task.points for task in made.LAB.tasks]
FIRST = FULL - POINTS[0]  # all but the first task
SECOND = FULL - POINTS[1]

Notebook = dict[str, Any]


@dataclass(frozen=True)
class Student:
    """What is changed, what it must earn, and a word that the report must say about it."""

    change: Callable[[Notebook], Any]
    score: float
    says: str = ""


def body(code: str, task: int = 0) -> Callable[[Notebook], Any]:
    """Another body for the function of a task."""
    which = made.LAB.tasks[task]

    def change(notebook: Notebook) -> None:
        lines = "\n    ".join(code.splitlines())
        text = f"def {which.function}(*arguments):\n    {lines}"
        made.cell_of(notebook, which.answer_id)["source"] = text

    return change


def before(code: str, task: int = 0) -> Callable[[Notebook], Any]:
    """A cell of the student's own before the answer of a task."""

    def change(notebook: Notebook) -> None:
        place = notebook["cells"].index(made.cell_of(notebook, made.LAB.tasks[task].answer_id))
        notebook["cells"].insert(place, {**made.code_cell(code), "id": "own"})

    return change


def inside(code: str, task: int = 0) -> Callable[[Notebook], Any]:
    """The right answer, and something more at the start of its cell."""

    def change(notebook: Notebook) -> None:
        cell = made.cell_of(notebook, made.LAB.tasks[task].answer_id)
        cell["source"] = f"{code}\n{cell['source']}"

    return change


def noisy(code: str, task: int = 0) -> Callable[[Notebook], Any]:
    """The right answer, which does something more at each call."""
    which = made.LAB.tasks[task]
    lines = "\n    ".join(code.splitlines())

    def change(notebook: Notebook) -> None:
        cell = made.cell_of(notebook, which.answer_id)
        renamed = cell["source"].replace(f"def {which.function}", "def right")
        call = f"def {which.function}(*arguments):\n    {lines}\n    return right(*arguments)"
        cell["source"] = f"{renamed}\n\n{call}"

    return change


def blank(notebook: Notebook) -> None:
    notebook |= made.handed_in(made.source_notebook(), solved=False)


def delete(*names: str) -> Callable[[Notebook], Any]:
    def change(notebook: Notebook) -> None:
        for name in names:
            notebook["cells"].remove(made.cell_of(notebook, name))

    return change


TESTS = [task.grade_id for task in made.LAB.tasks]


def duplicate(name: str) -> Callable[[Notebook], Any]:
    def change(notebook: Notebook) -> None:
        cell = made.cell_of(notebook, name)
        notebook["cells"].insert(notebook["cells"].index(cell), copy.deepcopy(cell))

    return change


def stub_after(notebook: Notebook) -> None:
    cell = made.cell_of(notebook, "n45-1-solution")
    draft = copy.deepcopy(cell) | {"source": "# my draft\ndraft = 1"}
    notebook["cells"].insert(notebook["cells"].index(cell), draft)


def edited(notebook: Notebook) -> None:
    for name in TESTS:
        made.cell_of(notebook, name)["source"] = "25"


def stripped(notebook: Notebook) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def stripped_wholly(notebook: Notebook) -> None:
    stripped(notebook)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = f"x{number}"


def renamed_cells(notebook: Notebook) -> None:
    for name in ("n45-1-solution", "n45-2"):
        cell = made.cell_of(notebook, name)
        cell["metadata"]["nbgrader"]["grade_id"] = f"my-{name}"


def claims_points(notebook: Notebook) -> None:
    blank(notebook)
    cell = made.graded("extra", "1000", 1000)
    notebook["cells"].append({**cell, "id": "extra"})
    for name in TESTS:
        made.cell_of(notebook, name)["metadata"]["nbgrader"]["points"] = 1000


def old_format(notebook: Notebook) -> str:
    return nbformat.writes(nbformat.from_dict(notebook), version=3)


def no_kernel(notebook: Notebook) -> None:
    notebook["metadata"] = {}


def windows(notebook: Notebook) -> str:
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    return json.dumps(notebook, indent=1).replace("\n", "\r\n")


def shuffled(notebook: Notebook) -> None:
    notebook["cells"].reverse()


CLASS: dict[str, Student] = {
    "perfect": Student(lambda notebook: None, FULL),
    "blank": Student(blank, 0),
    "does-nothing": Student(body("pass"), FIRST),
    "partial": Student(
        noisy("value = right(*arguments)\nreturn {k: v for k, v in value.items() if v}"),
        FIRST + 3.5,
    ),
    "syntax-error": Student(inside("def f(:"), FIRST),
    "endless-cell": Student(before("while True: pass"), FULL, "no result in time"),
    "endless-function": Student(body("while True: pass"), FIRST, "n45-1: a call gave no result"),
    "endless-on-some": Student(
        body("while True: pass", 2), FULL - POINTS[2], "n45-3: a call gave no result"
    ),
    "swallows-interrupts": Student(
        body("import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass"),
        FIRST,
        "hung",
    ),
    "sleeps": Student(body("import time\ntime.sleep(60)"), FIRST, "no result in time"),
    "exit-cell": Student(before("exit()"), FULL),
    "sys-exit-cell": Student(before("import sys; sys.exit(1)"), FULL),
    "sys-exit-function": Student(body("import sys\nsys.exit()"), FIRST),
    "os-exit-cell": Student(before("import os; os._exit(0)"), FULL, "exit code 0"),
    "os-exit-function": Student(body("import os\nos._exit(0)"), FIRST, "n45-1"),
    "segmentation-fault": Student(body("import ctypes\nctypes.string_at(0)"), FIRST, "signal 11"),
    "abort": Student(before("import os; os.abort()"), FULL, "signal 6"),
    "kills-itself": Student(before("import os; os.kill(os.getpid(), 9)"), FULL, "signal 9"),
    "dies-often": Student(
        lambda n: [body("import os\nos._exit(1)", task)(n) for task in range(3)],
        sum(POINTS[3:]),
    ),
    "memory-hog-cell": Student(before("hog = [0] * 10**10"), FULL),
    "memory-hog-function": Student(body("x = []\nwhile True: x.append(' ' * 10**7)"), FIRST),
    "fork-bomb": Student(before("import os\nwhile True: os.fork()"), FULL),
    "thread-bomb": Student(
        before(
            "import threading, time\n"
            "for _ in range(2000): threading.Thread(target=time.sleep, args=(9,)).start()"
        ),
        FULL,
    ),
    "prints-100-MB": Student(before("for _ in range(100): print('x' * 10**6)"), FULL, "cut off"),
    "huge-traceback": Student(before("def f(): f()\nf()"), FULL),
    "huge-message": Student(body("raise ValueError('x' * 10**7)"), FIRST),
    "fills-files": Student(
        before("for i in range(99): open(f'f{i}', 'wb').write(bytes(10**6))"), FULL
    ),
    "many-files": Student(before("for i in range(5000): open(f'f{i}', 'w').close()"), FULL),
    "warns": Student(
        noisy(
            "import warnings, logging, sys\nwarnings.warn('hm')\n"
            "logging.warning('hm')\nprint('hm', file=sys.stderr)\nprint('hm')"
        ),
        FULL,
    ),
    "deleted-answer": Student(delete("n45-2-solution"), SECOND, "n45-2-solution was missing"),
    "deleted-test": Student(delete("n45-2"), FULL, "n45-2 was missing"),
    "all-tests-deleted": Student(delete(*TESTS), FULL, "put back"),
    "duplicated-test": Student(duplicate("n45-1"), FULL, "2 times"),
    "duplicated-answer": Student(duplicate("n45-1-solution"), FULL, "2 times"),
    "draft-before": Student(stub_after, FULL, "2 times"),
    "edited-tests": Student(lambda n: (blank(n), edited(n)), 0, "was edited"),
    "edited-but-right": Student(edited, FULL, "was edited"),
    "reordered": Student(shuffled, FULL, "another order"),
    "renamed-cells": Student(renamed_cells, FULL, "had lost its name"),
    "metadata-stripped": Student(stripped, FULL, "had lost its name"),
    "stripped-wholly": Student(stripped_wholly, FULL, "had lost its name"),
    "claims-points": Student(claims_points, 0),
    "old-format": Student(old_format, FULL, "old format"),
    "no-kernel": Student(no_kernel, FULL, "kernel"),
    "invalid-json": Student(lambda notebook: json.dumps(notebook)[:-20], 0, "JSON"),
    "empty-file": Student(lambda notebook: b"", 0, "empty"),
    "utf-16": Student(lambda notebook: json.dumps(notebook).encode("utf-16"), FULL, "UTF-16"),
    "binary-junk": Student(lambda notebook: bytes(range(256)) * 9, 0, "no text"),
    "a-list": Student(lambda notebook: "[]", 0, "not a Jupyter notebook"),
    "deep-json": Student(lambda notebook: "[" * 100_000, 0, "JSON"),
    "windows": Student(windows, FULL, "Windows"),
    "random": Student(noisy("import random\nrandom.random()"), FULL),
    "a-little-off": Student(
        noisy("value = right(*arguments)\nreturn {k: v * (1 + 1e-12) for k, v in value.items()}"),
        FULL - 0.5,  # equal as numbers; but bytes are ints
    ),
    "needs-its-data": Student(inside("assert open('mine.txt').read() == 'mine'"), FULL),
}
#: name → how it is written to the folder
ODD_FILES = ("renamed-file", "a-directory", "nothing", "two-files")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SubmissionResult]:
    folder = tmp_path_factory.mktemp("course")
    source = made.source_notebook()
    path = made.write_source(folder, source, made.LAB.notebook, made.LAB.id)
    requests = []
    for name in [*CLASS, *ODD_FILES]:
        notebook = made.handed_in(source)
        content = CLASS[name].change(notebook) if name in CLASS else None
        home = folder / "submitted" / name / made.LAB.id
        home.mkdir(parents=True)
        _write(home, name, notebook, content)
        requests.append(GradeRequest(name, made.LAB.id, home, path, limits=made.LIMITS))
    return made.grade_all(requests)


def _write(home: Path, name: str, notebook: Notebook, content: Any) -> None:
    (home / "mine.txt").write_text("mine")
    target = home / made.LAB.notebook
    text = json.dumps(notebook)
    if name == "renamed-file":
        (home / "final (2).ipynb").write_text(text)
    elif name == "a-directory":
        target.mkdir()
    elif name == "two-files":
        (home / "a.ipynb").write_text(json.dumps(made.notebook_of()))
        (home / "b.ipynb").write_text(text)
    elif name != "nothing":
        data = content if isinstance(content, (str, bytes)) else text
        target.write_bytes(data.encode() if isinstance(data, str) else data)


def _told(result: SubmissionResult) -> str:
    return "; ".join([*result.put_right, *result.went_wrong])


@pytest.mark.parametrize("name", CLASS)
def test_each_gets_what_is_due(name: str, results: dict[str, SubmissionResult]) -> None:
    student, result = CLASS[name], results[name]
    assert result.score == student.score, (result.scores, _told(result))
    assert result.max_score == FULL
    assert list(result.scores) == TESTS
    assert student.says in _told(result)


@pytest.mark.parametrize(
    ("name", "score", "says"),
    [
        ("renamed-file", FULL, "final (2).ipynb"),
        ("a-directory", 0, "folder"),
        ("nothing", 0, "no notebook"),
        ("two-files", FULL, "b.ipynb"),
    ],
)
def test_each_file_is_found_or_told(
    name: str, score: float, says: str, results: dict[str, SubmissionResult]
) -> None:
    assert results[name].score == score
    assert results[name].max_score == FULL
    assert says in _told(results[name])


def test_who_did_nothing_odd_gets_no_notice(results: dict[str, SubmissionResult]) -> None:
    for name in ("perfect", "blank", "partial", "warns", "random", "does-nothing"):
        assert _told(results[name]) == ""


def test_the_class_is_large_and_all_are_there(results: dict[str, SubmissionResult]) -> None:
    assert len(results) == len(CLASS) + len(ODD_FILES) >= 40


def test_the_autograded_notebook_is_valid_and_holds_answers_and_tests(
    results: dict[str, SubmissionResult],
) -> None:
    for name, result in results.items():
        notebook = nbformat.reads(result.notebook, as_version=4)
        nbformat.validate(notebook)
        names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
        assert [name for name in names if name in TESTS] == TESTS, name


def test_results_go_through_json_unchanged(results: dict[str, SubmissionResult]) -> None:
    for result in results.values():
        assert SubmissionResult.from_json(result.to_json()) == result


def test_feedback_names_what_was_missed(results: dict[str, SubmissionResult]) -> None:
    cell = results["partial"].cells[0]
    missed = [entry["criterion"] for entry in cell.feedback if entry["fault"]]
    assert missed == ["not kept"]
    assert sum(entry["points"] for entry in cell.feedback) == cell.points
