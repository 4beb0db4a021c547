"""Points as nbgrader reads them, with a canary for each it reads wrongly; repairs one by one."""

import copy
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import submissions as made
from hypothesis import given, settings
from hypothesis import strategies as st
from shardgrade.grading import reading, repair
from shardgrade.grading.digest import digest_of
from shardgrade.grading.points import points_of
from shardgrade.grading.result import GradeRequest
from shardgrade.sandbox.engine_copy import without
from shardgrade.sandbox.limits import Limits


@pytest.mark.parametrize(
    ("value", "points"),
    [
        (None, 3),
        ("done", 3),
        (True, 3),
        ([1], 3),
        (0, 0),
        (0.5, 0.5),
        (3, 3),
        (3.0000000000000004, 3),
        (10**400, 3),
        (-(10**400), 0),
        (-1, 0),
        (-0.0, 0),
        (math.nan, 0),
        (math.inf, 0),
        (-math.inf, 0),
        (np.float64(0.5), 0.5),
        (np.float32(-1), 0),
        (np.int64(2), 2),
        (np.float64("nan"), 0),
        (Fraction(1, 2), 0.5),
    ],
)
def test_points_of_a_last_value(value: Any, points: float) -> None:
    assert points_of(value, 3) == points
    assert type(points_of(value, 3)) is float


def test_a_cell_that_must_tell_earns_nothing_by_silence() -> None:
    for value in (None, "done", True):
        assert points_of(value, 3, must_tell=True) == 0


@settings(derandomize=True, deadline=None)
@given(st.floats() | st.integers() | st.none() | st.text(), st.floats(0, 100))
def test_points_are_finite_and_in_range(value: Any, most: float) -> None:
    points = points_of(value, most)
    assert type(points) is float and 0 <= points <= most


def test_a_hidden_grade_cell_without_a_value_earns_nothing(tmp_path: Path) -> None:
    """Should `grade` ever be lost from the end of its cell, nobody gets full points for it."""
    test = "from shardgrade.checks import grade\nNone"
    source = made.notebook_of(made.answer("a", "x = 1"), made.graded("t", test, 3))
    assert made.grade_one(tmp_path, source, source).scores == {"t": 0}


SOURCE = made.notebook_of(
    made.code_cell("import math"),
    made.answer("a", "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"),
    made.graded(
        "t", "assert f()\n### BEGIN HIDDEN TESTS\nassert f() == 1\n### END HIDDEN TESTS", 1
    ),
    made.answer("b", "def g(): return 2"),
    made.graded("u", "assert g() == 2", 1),
)


def _mine() -> dict[str, Any]:
    return made.handed_in(SOURCE)


def _sources(plan: repair.Plan) -> list[str]:
    return [cell["source"] for cell in plan.notebook["cells"]]


def test_what_was_handed_out_and_answered_needs_no_repair() -> None:
    plan = repair.repair(SOURCE, _mine())
    assert plan.put_right == ()
    assert "HIDDEN" in _sources(plan)[2] and "BEGIN SOLUTION" not in _sources(plan)[1]


def test_a_solution_never_stands_in_for_an_answer() -> None:
    for mine in (made.notebook_of(), {"cells": [], "metadata": {}}):
        plan = repair.repair(SOURCE, mine)
        assert not any("return 1" in source or "return 2" in source for source in _sources(plan))


def test_own_cells_stay_where_they_were() -> None:
    mine = _mine()
    for place, text in ((5, "after"), (2, "between"), (0, "before")):
        mine["cells"].insert(place, {**made.code_cell(text), "id": text})
    plan = repair.repair(SOURCE, mine)
    texts = [text if len(text) < 8 else text.split()[0] for text in _sources(plan)]
    assert texts == ["before", "import", "def", "between", "assert", "def", "assert", "after"]
    assert plan.put_right == ()


def test_the_metadata_of_own_cells_is_not_believed() -> None:
    mine = _mine()
    mine["cells"].append({**made.graded("mine", "100", 100), "id": "x"})
    mine["cells"].append({**made.code_cell("1", tags=["in-process"]), "id": "y"})
    plan = repair.repair(SOURCE, mine)
    assert [repair.is_graded(cell) for cell in plan.notebook["cells"]].count(True) == 2
    assert not any(repair.is_in_process(cell) for cell in plan.notebook["cells"])


def test_two_versions_of_an_answer_both_run_before_the_test() -> None:
    mine = _mine()
    second = copy.deepcopy(mine["cells"][1]) | {"source": "def f(): return 7"}
    mine["cells"].append(second)
    sources = _sources(repair.repair(SOURCE, mine))
    assert sources.index("def f(): return 7") == 2


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.permutations(range(5)), st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4)))
def test_any_shuffle_loss_and_doubling_leaves_the_tests_as_they_are(
    order: list[int], lost: set[int], doubled: set[int]
) -> None:
    mine = _mine()
    cells = [mine["cells"][i] for i in order if i not in lost]
    cells += [copy.deepcopy(mine["cells"][i]) for i in doubled]
    plan = repair.repair(SOURCE, {**mine, "cells": cells})
    tests = [cell["source"] for cell in plan.notebook["cells"] if repair.is_test(cell)]
    assert tests == [SOURCE["cells"][2]["source"], SOURCE["cells"][4]["source"]]
    kept = [i for i in (1, 3) if i not in lost or i in doubled]
    sources = _sources(plan)
    assert all(mine["cells"][i]["source"] in sources for i in kept)
    ids = [cell["id"] for cell in plan.notebook["cells"]]
    assert len(set(ids)) == len(ids)


def test_a_blocked_function_has_no_body() -> None:
    source = (
        "class A:\n    @property\n    def f(self):\n        '''Say.'''\n        return 41\n\n"
        "    def g(self): return 42\n\n\ndef h(x,\n      y=2):\n    return 43\n\n\ndef k():\n    return 44\n"
    )
    copied = without(source, {"A.f": "n1.1", "A.g": "n1.1", "h": "n1.2"})
    assert not any(secret in copied for secret in ("41", "42", "43")) and "44" in copied
    space: dict[str, Any] = {}
    exec(copied, space)
    for use in (lambda: space["A"]().f, lambda: space["A"]().g(), lambda: space["h"](1)):
        with pytest.raises(RuntimeError, match=r"n1\.[12] asks you to write"):
            use()
    assert space["k"]() == 44


def test_a_result_is_used_again_only_if_all_is_the_same(tmp_path: Path) -> None:
    source, mine = tmp_path / "source" / "ps.ipynb", tmp_path / "ann" / "ps.ipynb"
    for path in (source, mine):
        path.parent.mkdir()
        path.write_text("1")
    request = GradeRequest("ann", "ps1", mine.parent, source)
    first = digest_of(request)
    assert digest_of(GradeRequest("bob", "ps1", mine.parent, source)) == first
    others = [
        GradeRequest("ann", "ps2", mine.parent, source),
        GradeRequest("ann", "ps1", mine.parent, source, seed=1),
        GradeRequest("ann", "ps1", mine.parent, source, limits=Limits(cell_seconds=1)),
        GradeRequest("ann", "ps1", mine.parent, source, isolation="limits"),
    ]
    found = {digest_of(other) for other in others}
    for path in (source, mine):
        path.write_text("2")
        found.add(digest_of(request))
        path.write_text("1")
    assert len(found | {first}) == 7
    assert GradeRequest.from_json(others[2].to_json()) == others[2]


def test_a_link_to_the_work_of_another_is_refused(tmp_path: Path) -> None:
    source = made.notebook_of(made.answer("a", "x = 1"), made.graded("t", "assert x == 1", 1))
    path = made.write_source(tmp_path, source, "ps.ipynb", "ps1")
    ann, bob = (tmp_path / "submitted" / name / "ps1" for name in ("ann", "bob"))
    for home in (ann, bob):
        home.mkdir(parents=True)
    (ann / "ps.ipynb").write_text(path.read_text())
    (bob / "ps.ipynb").symlink_to(ann / "ps.ipynb")
    requests = [GradeRequest(home.parent.name, "ps1", home, path) for home in (ann, bob)]
    results = made.grade_all(requests)
    assert results["ann"].score == 1 and results["bob"].score == 0
    assert "is a link" in results["bob"].went_wrong[0]


def test_a_file_that_can_not_be_read_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made.write_source(tmp_path, made.notebook_of(), "ps.ipynb", "ps1")
    (tmp_path / "mine.ipynb").write_text("{}")
    request = GradeRequest("ann", "ps1", tmp_path / "mine.ipynb", path)
    before, read = digest_of(request), Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self.name == "mine.ipynb":
            raise PermissionError(13, "Permission denied")
        return read(self)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        assert digest_of(request) == digest_of(request) != before
        with pytest.raises(reading.Unreadable, match="Permission denied"):
            reading.read_submission(request.submission_path)
    assert digest_of(request) == before
