"""One verdict, however it is run: here, in the sandbox, and by stock nbgrader."""

import importlib
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import submissions as made
from shardgrade import checkout, execution
from shardgrade.checks.judging import assess
from shardgrade.compose import compose
from shardgrade.demo import Graded
from shardgrade.grading.result import GradeRequest

from shardbook.labs.registry import LABS, TASKS
from shardbook.labs.tasks import Lab

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[1]

#: what the kill table's module imports, as far as a submission may have it
_STAND_IN = """
import importlib.util, sys, types
def load(path):
    spec = importlib.util.spec_from_file_location(path[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
package, checkout = types.ModuleType("shardgrade"), types.ModuleType("shardgrade.checkout")
checkout.reference = lambda task: getattr(load("reference.py"), task.function)
sys.modules |= {"shardgrade": package, "shardgrade.checkout": checkout}
table = load("table.py")
"""


def _entries(lab: Lab, right: bool) -> dict[str, list[str]]:
    table = importlib.import_module(f"killtable_{lab.id}")
    tables = table.RIGHT if right else table.WRONG
    return {task: list(entries) for task, entries in tables.items()}


def _table(lab: Lab, right: bool, task: str, name: str) -> Callable[..., Any]:
    table = importlib.import_module(f"killtable_{lab.id}")
    answer: Callable[..., Any] = (table.RIGHT if right else table.WRONG)[task][name]
    return answer


def _answer(task: str, right: bool, name: str) -> str:
    which = "RIGHT" if right else "WRONG"
    return f"{_STAND_IN}\n{TASKS[task].function} = table.{which}[{task!r}][{name!r}]"


@pytest.mark.parametrize("lab", LABS.values(), ids=LABS.keys())
def test_every_entry_of_the_kill_table_is_judged_alike(lab: Lab, tmp_path: Path) -> None:
    text = checkout.root() / "labs" / f"{lab.stem}.md"
    source = json.loads(json.dumps(compose(lab, text, checkout.solution_file(lab))))
    path = made.write_source(tmp_path, source, lab.notebook, lab.id)
    requests, wanted = [], {}
    for right in (True, False):
        # One submission answers each task with its next entry.
        columns = [[(task, name) for name in names] for task, names in _entries(lab, right).items()]
        for number, row in enumerate(itertools.zip_longest(*columns)):
            student = f"{'right' if right else 'wrong'}-{number}"
            mine = made.handed_in(source, solved=False)
            for task, name in filter(None, row):
                made.cell_of(mine, TASKS[task].answer_id)["source"] = _answer(task, right, name)
                verdict = assess(task, _table(lab, right, task, name))
                wanted[student, TASKS[task].grade_id] = (name, verdict.points, verdict.missed)
            home = tmp_path / "submitted" / student / lab.id
            home.mkdir(parents=True)
            (home / lab.notebook).write_text(json.dumps(mine))
            (home / "table.py").write_text((HERE / f"killtable_{lab.id}.py").read_text())
            (home / "reference.py").write_text(checkout.solution_file(lab).read_text())
            requests.append(GradeRequest(student, lab.id, home, path, limits=made.LIMITS))
    results = made.grade_all(requests)
    found = {
        (student, cell.grade_id): (
            wanted[student, cell.grade_id][0],
            cell.points,
            frozenset(entry["criterion"] for entry in cell.feedback if entry["fault"]),
        )
        for student, result in results.items()
        for cell in result.cells
        if (student, cell.grade_id) in wanted
    }
    assert {key: value for key, value in found.items() if value != wanted[key]} == {}
    assert set(found) == set(wanted)


def test_every_reference_solution_gets_full_points(tmp_path: Path) -> None:
    for lab in LABS.values():
        text = checkout.root() / "labs" / f"{lab.stem}.md"
        source = json.loads(json.dumps(compose(lab, text, checkout.solution_file(lab))))
        mine = made.handed_in(source)
        path = made.write_source(tmp_path, source, lab.notebook, lab.id)
        home = tmp_path / "submitted" / "ann" / lab.id
        home.mkdir(parents=True)
        (home / lab.notebook).write_text(json.dumps(mine))
        result = made.grade_all([GradeRequest("ann", lab.id, home, path)], 1)["ann"]
        assert result.scores == {task.grade_id: task.points for task in lab.tasks}
        assert result.put_right == result.went_wrong == ()


@pytest.mark.xdist_group("graded class")
def test_stock_nbgrader_agrees_on_the_demo_class(graded: Graded, tmp_path: Path) -> None:
    """Its classes and ours get the same marks, cell by cell."""
    course = tmp_path / "course"
    shutil.copytree(graded.course, course, ignore=shutil.ignore_patterns("autograded", "feedback"))
    stock = {one.student: one.scores for one in execution.stock(course, "n45", lambda one: None)}
    assert {student: one.scores for student, one in graded.records.items()} == stock
    assert len({tuple(scores.values()) for scores in stock.values()}) >= 4
