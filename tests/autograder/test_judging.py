"""`grade` hands nbgrader only what nbgrader reads rightly."""

import logging
import math
import sys
import time
from typing import Any

import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from killtable_n45 import engine_fewest, engine_on_rank
from nbgrader.utils import determine_grade
from shardgrade.blocking import blocked, resolve
from shardgrade.checkout import reference
from shardgrade.checks import grade
from shardgrade.checks.judging import assess, cases_of, hidden_check
from shardgrade.feedback_table import as_html, as_text

from shardbook.labs.checking import examine
from shardbook.labs.registry import TASKS
from shardbook.ledger.checkpointing import intervals
from shardbook.ledger.fragmentation import Action, run
from shardbook.ledger.recipes import RECIPES, Recipe
from shardbook.ledger.recipes import recipe_named as engine_recipe

by_category = Recipe.by_category


class Equal:
    """Equal to everything, and hostile when it is looked at."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Dict(dict):
    def items(self) -> Any:
        raise SystemExit


def deep() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


KEYS = ("weights", "momentum", "interval", "recomputed", "peak")

HOSTILE = {
    "exits": lambda *a: sys.exit(1),
    "interrupts": lambda *a: (_ for _ in ()).throw(KeyboardInterrupt()),
    "equal to everything": lambda *a: Equal(),
    "a dict of such": lambda *a: {Equal(): Equal()},
    "a dict that exits": lambda *a: Dict(weights=4),
    "contains itself": lambda *a: deep(),
    "an int": lambda *a: 3,
    "True": lambda *a: True,
    "a text": lambda *a: "full",
    "a numpy scalar": lambda *a: np.float64(4),
    "nan": lambda *a: math.nan,
    "a huge int": lambda *a: 10**5000,
    "recurses": lambda *a: HOSTILE["recurses"](*a),
    "too many arguments": lambda a, b, c, d, e, f, g, h: 0,
    "an unprintable error": lambda *a: (_ for _ in ()).throw(Unprintable()),
}


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", HOSTILE)
def test_any_answer_gets_a_builtin_float_in_range(
    task: str, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    points = grade(task, HOSTILE[name])
    assert type(points) is float and points == 0
    assert capfd.readouterr() == ("", "")


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 40) | st.floats() | st.just("full"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("task", TASKS)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(value=values)
def test_no_value_stops_the_judging(task: str, value: Any) -> None:
    points = grade(task, lambda *a: value)
    assert type(points) is float and 0 <= points <= TASKS[task].points
    assert examine(task, lambda *a: value).status == "failed"


@pytest.mark.parametrize("answer", [None, 3, "text", Equal(), TASKS])
def test_what_is_no_function_earns_nothing(answer: object) -> None:
    assert grade("n45.1", answer) == 0.0


def test_output_and_warnings_cost_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    solve = reference(TASKS["n45.1"])

    def talkative(kept: Any) -> Any:
        print("looking at", kept)
        print("hm", file=sys.stderr)
        sys.stderr.write("is this right?")
        logging.getLogger("mine").warning("or this?")
        return solve(kept)

    assert grade("n45.1", talkative) == TASKS["n45.1"].points
    assert capfd.readouterr() == ("", "")


def test_a_loop_that_swallows_everything_ends_the_wait() -> None:
    began = time.monotonic()

    def swallows(kept: Any) -> None:
        while time.monotonic() < began + 7:  # so that it does not slow the tests after it
            try:
                while time.monotonic() < began + 7:
                    pass
            except BaseException:
                continue

    assert grade("n45.1", swallows) == 0.0
    assert time.monotonic() - began < 6


def _cell(text: str | None, points: float = 3) -> nbformat.NotebookNode:
    outputs = [nbformat.v4.new_output("display_data", {"text/plain": "the table"})]
    if text is not None:
        outputs.append(nbformat.v4.new_output("execute_result", {"text/plain": text}))
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    cell.metadata.nbgrader = {"grade": True, "solution": False, "points": points}
    return cell


@pytest.mark.parametrize("text", [None, "np.float64(0.0)", "-1.0", "nan"])
def test_nbgrader_gives_full_points_for_what_grade_never_returns(text: str | None) -> None:
    earned, _ = determine_grade(_cell(text))
    assert earned == 3 or math.isnan(earned)


def test_nbgrader_fails_at_the_smallest_excess() -> None:
    with pytest.raises(ValueError, match="greater"):
        determine_grade(_cell(repr(3.0000000000000004)))


@pytest.mark.parametrize("task", TASKS)
def test_nbgrader_reads_each_sum_of_points_as_it_is(task: str) -> None:
    full = grade(task, reference(TASKS[task]))
    assert full == TASKS[task].points
    assert determine_grade(_cell(repr(full), full)) == (full, full)


def test_the_engine_agrees_with_the_reference() -> None:
    solve = reference(TASKS["n45.1"])
    for recipe in RECIPES.values():
        if any(part.bytes_per_block for part in recipe.parts):
            continue
        kept = [
            (part.category, {4: "fp32", 2: "fp16", 1: "int8"}[part.bytes]) for part in recipe.parts
        ]
        assert solve(kept) == recipe.by_category()


def _cases(task: str) -> list[Any]:
    probes = hidden_check(TASKS[task]).probes
    return [case for probe in probes for case in cases_of(TASKS[task], probe)]


def test_the_engine_agrees_on_what_a_rank_stores() -> None:
    for case in _cases("n45.2"):
        assert reference(TASKS["n45.2"])(*case) == engine_on_rank(*case)


def test_the_engine_agrees_on_the_smallest_number_of_ranks() -> None:
    for *case, limit in _cases("n45.3"):
        if limit <= 10**6:
            assert reference(TASKS["n45.3"])(*case, limit) == engine_fewest(*case, limit)


def test_the_engine_agrees_on_the_peak_and_finds_no_better_interval() -> None:
    for layers, layer, checkpoint, limit in _cases("n45.4"):
        table = intervals(layers, layer, checkpoint)
        fits = {row.interval: row.peak_bytes for row in table if row.peak_bytes <= limit}
        best = reference(TASKS["n45.4"])(layers, layer, checkpoint, limit)
        assert (best is None) is (not fits)
        if best:
            again = {k: (layers - (layers % k or k), peak, k) for k, peak in fits.items()}
            assert min(again.values()) == (best["recomputed"], best["peak"], best["interval"])


def test_the_engine_agrees_on_every_address_and_hole() -> None:
    for capacity, area, actions in _cases("n45.5"):
        addresses, holes = reference(TASKS["n45.5"])(capacity, area, actions)
        steps = run(capacity, [Action(*action) for action in actions], area)
        blocks = [step.heap.find(step.action.name) for step in steps]
        placed = [block and block.start for block in blocks]
        assert addresses == ([*placed[:-1], "full"] if steps[-1].failure else placed)
        assert holes == [(hole.start, hole.size) for hole in steps[-1].heap.holes]


@pytest.mark.parametrize("task", TASKS)
def test_cases_are_the_same_for_every_submission(task: str) -> None:
    for probe in hidden_check(TASKS[task]).probes:
        assert cases_of(TASKS[task], probe) == cases_of(TASKS[task], probe) != []


@pytest.mark.parametrize("task", TASKS)
def test_all_names_that_are_switched_off_exist(task: str) -> None:
    for name in hidden_check(TASKS[task]).blocked:
        resolve(name)


def test_an_engine_function_imported_before_is_switched_off() -> None:
    recipe = engine_recipe("mixed-adam")
    with blocked(hidden_check(TASKS["n45.1"]).blocked, "n45.1"):
        for use in (lambda: by_category(recipe), lambda: recipe.bytes_per_parameter):
            with pytest.raises(RuntimeError, match=r"n45\.1 asks you to write"):
                use()
    assert sum(by_category(recipe).values()) == recipe.bytes_per_parameter


def test_what_was_switched_off_comes_back_after_an_error() -> None:
    with pytest.raises(KeyError), blocked(hidden_check(TASKS["n45.1"]).blocked, "n45.1"):
        raise KeyError
    assert by_category(engine_recipe("mixed-adam"))


def test_methods_closures_and_remembered_results_are_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import functools
    import types

    class Thing:
        @classmethod
        def made(cls) -> int:
            return 1

        @functools.cached_property
        def kept(self) -> int:
            return 2

        def closed(self) -> type:
            return __class__  # type: ignore[name-defined]

    module = types.ModuleType("thing")
    module.Thing = Thing  # type: ignore[attr-defined]
    module.remembered = functools.cache(lambda x: x)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "thing", module)
    module.remembered(1)
    names = ["thing:Thing.made", "thing:Thing.kept", "thing:Thing.closed", "thing:remembered"]
    thing = Thing()
    uses = [Thing.made, lambda: thing.kept, thing.closed, lambda: module.remembered(1)]
    with blocked(names, "n0.0"):
        for use in uses:
            with pytest.raises(RuntimeError, match="switched off"):
                use()
    assert [use() for use in uses] == [1, 2, Thing, 1]


def test_feedback_names_criterion_kind_and_hint_but_no_answer() -> None:
    task = TASKS["n45.1"]
    assessment = assess("n45.1", lambda kept: dict.fromkeys(reference(task)(kept), 7))
    for text in (as_text(assessment), as_html(assessment)):
        for criterion in task.criteria:
            assert criterion.name in text
        assert "an int of another value" in text and "7" in text
        assert task.criteria[0].hint in text
    assert "<b>" not in as_html(assess("n45.1", lambda kept: "<b>"))


def test_a_failed_call_gets_no_hint_about_values() -> None:
    assessment = assess("n45.1", lambda kept: 1 / 0)
    assert {verdict.hint for verdict in assessment.verdicts} == {""}
    assert "ZeroDivisionError" in as_text(assessment)
