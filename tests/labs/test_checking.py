"""`check` explains, in time, and never tells the answer."""

import importlib
import sys
import time
from typing import Any

import pytest

from shardbook.errors import InputError
from shardbook.labs import about, check
from shardbook.labs.checking import examine
from shardbook.labs.registry import LABS, TASKS


def test_every_task_has_examples() -> None:
    rules = [importlib.import_module(f"shardbook.labs.examples_{lab}").RULES for lab in LABS]
    assert sorted(task for table in rules for task in table) == sorted(TASKS)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(InputError, match=r"n45\.1"):
        check("n45.9", print)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "answer",
    [
        lambda *a: None,
        lambda *a: {},
        lambda *a: [],
        lambda *a: ([], []),
        lambda *a: {"interval": 3, "recomputed": None, "peak": "31"},
        lambda *a: 1 / 0,
        lambda *a: sys.exit(),
        lambda: 0,
        7,
        None,
    ],
)
def test_any_wrong_answer_gets_one_diagnosis(task: str, answer: Any) -> None:
    report = examine(task, answer)
    assert report.status == "failed" and report.finding
    text = str(report)
    assert "broken:" in text and TASKS[task].function in text and "expected" in text


def test_a_stub_is_called_unanswered(capsys: pytest.CaptureFixture[str]) -> None:
    def stub(kept: object) -> object:
        raise NotImplementedError("n45.1: replace this line with your code")

    assert check("n45.1", stub) is None
    assert capsys.readouterr().out.startswith("n45.1: unanswered")


@pytest.mark.slow
def test_an_endless_loop_is_told_within_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    def endless(kept: object) -> None:
        while True:
            pass

    began = time.monotonic()
    check("n45.1", endless)
    assert time.monotonic() - began < 5
    assert "expected a result in time" in capsys.readouterr().out


def test_what_the_answer_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def talks(kept: object) -> dict[str, int]:
        print("out")
        print("err", file=sys.stderr)
        return {}

    check("n45.1", talks)
    out, err = capfd.readouterr()
    assert "out" not in out.split() and err == ""


def test_only_a_wrong_value_gets_a_hint_about_values() -> None:
    assert "hint" not in str(examine("n45.1", lambda kept: 1 / 0))
    assert "hint" in str(examine("n45.1", lambda kept: {}))


def test_a_changed_argument_is_told() -> None:
    def empties(kept: list[Any]) -> dict[str, int]:
        kept.clear()
        return {}

    finding = examine("n45.1", empties).finding
    assert finding and "argument 1" in finding.fault.where


def test_the_diagnosis_names_the_category_and_not_its_value() -> None:
    right = dict(
        zip(
            ("weights", "gradients", "master_weights", "momentum", "variance"),
            (2, 2, 4, 4, 4),
            strict=True,
        )
    )
    finding = examine("n45.1", lambda kept: {**right, "momentum": 1}).finding
    assert finding
    assert finding.fault.where == "result['momentum']"
    assert "4" not in str(finding.fault)


def test_the_rank_is_in_the_diagnosis_of_a_rank() -> None:
    finding = examine("n45.2", lambda units, sizes, ranks, stage, rank: {}).finding
    assert finding and finding.call.endswith("4, 2, 1)")


def test_the_step_is_in_the_diagnosis_of_a_program() -> None:
    finding = examine("n45.5", lambda *a: ([0, 4, 6, None, 9], [])).finding
    assert finding and finding.fault.where == "the address of action 5 (allocate d 3)"


def test_a_lab_takes_at_most_four_hours() -> None:
    for lab in LABS.values():
        assert 0 < lab.minutes <= 240


def test_ids_are_unique_and_go_with_their_lab(capsys: pytest.CaptureFixture[str]) -> None:
    for lab in LABS.values():
        assert [task.id for task in lab.tasks] == [
            f"{lab.id}.{i + 1}" for i in range(len(lab.tasks))
        ]
        about(lab.id)
        for task in lab.tasks:
            about(task.id)
            assert len({criterion.name for criterion in task.criteria}) == len(task.criteria)
    out = capsys.readouterr().out
    for task in TASKS.values():
        assert out.count(f"{task.id}  {task.title}") == 2
