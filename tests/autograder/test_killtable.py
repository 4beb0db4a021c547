"""No wrong answer passes, no right one fails, and every criterion is needed."""

import os

import killtable
import pytest
from shardgrade.checks.judging import hidden_check

from shardbook.labs.registry import TASKS

pytestmark = pytest.mark.xdist_group("kill table")


@pytest.fixture(scope="module")
def rows() -> list[killtable.Row]:
    return killtable.verdicts()


def test_one_worker_judges_all_answers(request: pytest.FixtureRequest) -> None:
    """Else each worker makes the table anew: the suffix is how xdist tells groups."""
    assert request.node.nodeid.endswith("@kill table") or "PYTEST_XDIST_WORKER" not in os.environ


def test_every_task_has_wrong_and_right_answers(rows: list[killtable.Row]) -> None:
    for right in (False, True):
        assert {row.task for row in rows if row.right is right} == set(TASKS)


def test_no_wrong_answer_passes(rows: list[killtable.Row]) -> None:
    assert [row for row in rows if not row.right and row.verdict == "passed"] == []


def test_no_right_answer_fails(rows: list[killtable.Row]) -> None:
    assert [row for row in rows if row.right and row.verdict != "passed"] == []


@pytest.mark.parametrize(
    ("task", "criterion"), [(t.id, c.name) for t in TASKS.values() for c in t.criteria]
)
def test_each_criterion_alone_stops_a_wrong_answer(
    rows: list[killtable.Row], task: str, criterion: str
) -> None:
    # What only this criterion stops would pass if it were switched off.
    alone = [row.answer for row in rows if row.task == task and row.missed == (criterion,)]
    assert alone


@pytest.mark.parametrize("task", TASKS)
def test_an_answer_that_does_nothing_earns_nothing(rows: list[killtable.Row], task: str) -> None:
    row = next(row for row in rows if (row.task, row.answer) == (task, "does nothing"))
    assert row.points == 0


def test_probes_and_criteria_have_the_same_names() -> None:
    for task in TASKS.values():
        probes = [probe.criterion for probe in hidden_check(task).probes]
        assert probes == [criterion.name for criterion in task.criteria]


def test_points_add_up_exactly() -> None:
    for task in TASKS.values():
        assert all(criterion.points % 0.25 == 0 for criterion in task.criteria)
        assert task.points == round(task.points)
