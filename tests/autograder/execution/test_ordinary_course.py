"""Any nbgrader course: asserts in the check's process, the student's names as stand-ins."""

from pathlib import Path

import pytest
import submissions as made
from shardgrade.grading.result import SubmissionResult

pytestmark = pytest.mark.xdist_group("ordinary course")

GIVEN = """
import numpy as np
from fractions import Fraction
TOLERANCE = 1e-6
def close(a, b): return abs(a - b) < TOLERANCE
class Node:
    def __init__(self, value, *children): self.value, self.children = value, children
"""

#: name → (the answer, the test, what is expected of 2 points)
HONEST: dict[str, tuple[str, str, float]] = {
    "plain value": ("def f(x): return x + 1", "assert f(2) == 3", 2),
    "wrong value": ("def f(x): return x", "assert f(2) == 3", 0),
    "a name that is a value": ("answer = {'a': (1, 2)}", "assert answer == {'a': (1, 2)}", 2),
    "no such name": ("x = 1", "assert f(2) == 3", 0),
    "tuples stay tuples": ("def f(): return (1, [2])", "assert f() == (1, [2])", 2),
    "big ints": ("def f(n): return 3 ** n", "assert f(5000) == 3 ** 5000", 2),
    "sets and ranges": ("def f(): return {1}, range(3)", "assert f() == ({1}, range(3))", 2),
    "nan": ("def f(): return float('nan')", "import math\nassert math.isnan(f())", 2),
    "fractions": ("def f(x): return x / 3", "assert f(Fraction(1)) == Fraction(1, 3)", 2),
    "arrays keep their dtype": (
        "def f(x): return (x * 2).astype(np.float32)",
        "y = f(np.arange(6).reshape(2, 3))\n"
        "assert y.dtype == np.float32 and y.shape == (2, 3)\n"
        "np.testing.assert_allclose(y[1], [6, 8, 10])",
        2,
    ),
    "arguments changed in place": (
        "def f(x, y): x.append(4); y[0] = 9",
        "a, b = [1], np.zeros(2)\nf(a, b)\nassert a == [1, 4] and b[0] == 9",
        2,
    ),
    "keyword arguments": ("def f(a, *, b=1): return a - b", "assert f(3, b=2) == 1", 2),
    "functions of the test": (
        "def f(g, a, b): return g(a) + g(b)",
        "assert f(lambda x: x ** 2, 2, 3) == 13",
        2,
    ),
    "objects of the test": (
        "def f(model, x): return model.predict(x)",
        "class Model:\n    def predict(self, x): return x + 7\nassert f(Model(), 1) == 8",
        2,
    ),
    "functions that return functions": (
        "def f(n):\n    def g(x): return n + x\n    return g",
        "assert f(3)(4) == 7",
        2,
    ),
    "generators": (
        "def f(n):\n    for i in range(n): yield i * i",
        "assert list(f(4)) == [0, 1, 4, 9]",
        2,
    ),
    "classes": (
        "class Vec:\n    def __init__(self, x): self.x = x\n"
        "    def __add__(self, o): return Vec(self.x + o.x)\n"
        "    def __eq__(self, o): return isinstance(o, Vec) and self.x == o.x\n"
        "    def __len__(self): return 1\n    def __repr__(self): return f'Vec({self.x})'",
        "v = Vec(1) + Vec(2)\nassert v == Vec(3) and v.x == 3 and len(v) == 1\n"
        "assert isinstance(v, Vec) and repr(v) == 'Vec(3)'\nassert v != Vec(4)",
        2,
    ),
    "given classes": (
        "def depth(n): return 1 + max([depth(c) for c in n.children], default=0)",
        "assert depth(Node(1, Node(2, Node(3)), Node(4))) == 3",
        2,
    ),
    "given functions": ("def f(): return 1 / 3", "assert close(f(), 0.33333333)", 2),
    "built-in exceptions": (
        "def f(x):\n    if x < 0: raise ValueError('no')\n    return x",
        "try: f(-1)\nexcept ValueError as error: assert str(error) == 'no'\nelse: assert False",
        2,
    ),
    "the student's exceptions": (
        "class Empty(LookupError): pass\ndef f(): raise Empty('none left')",
        "try: f()\nexcept Empty as error: assert 'none left' in str(error)\nelse: assert False",
        2,
    ),
    "assertRaises": (
        "def f(): raise KeyError(3)",
        "import unittest\nunittest.TestCase().assertRaises(KeyError, f)",
        2,
    ),
    "printed output": (
        "def f(): print('hello')",
        "import io, contextlib\nout = io.StringIO()\n"
        "with contextlib.redirect_stdout(out): f()\nassert out.getvalue() == 'hello\\n'",
        2,
    ),
    "state that stays": (
        "kept = []\ndef f(x): kept.append(x); return len(kept)",
        "f(1); f(1)\nassert f(1) == 3",
        2,
    ),
    "partial credit": ("def f(x): return x", "1.5", 1.5),
    "partial credit above the maximum": ("def f(x): return x", "2.0000000000000004", 2),
    "partial credit below nothing": ("def f(x): return x", "-1", 0),
    "partial credit that is nan": ("def f(x): return x", "float('nan')", 0),
    "partial credit from numpy": ("def f(x): return x", "np.float64(0.5)", 0.5),
    "a last value that is no number": ("def f(x): return x", "'done'", 2),
    "stderr costs nothing": (
        "import warnings\ndef f():\n    warnings.warn('hm')\n    return 1",
        "assert f() == 1",
        2,
    ),
    "magics": ("%matplotlib inline\n!pip install x\n%time x = 3", "%time\nassert x == 3", 2),
    "asynchronous": ("import asyncio\nx = await asyncio.sleep(0, 5)", "assert x == 5", 2),
}


@pytest.fixture(scope="module")
def all_in_one(tmp_path_factory: pytest.TempPathFactory) -> SubmissionResult:
    """All of `HONEST` as one long notebook: each has its own answer and test."""
    cells = [made.code_cell(GIVEN)]
    for number, (right, test, _) in enumerate(HONEST.values()):
        cells += [made.answer(f"a{number}", right), made.graded(f"t{number}", test, 2)]
        cells.append(made.code_cell("for _n in ('f', 'x', 'kept'): globals().pop(_n, None)"))
    notebook = made.notebook_of(*cells)
    return made.grade_one(tmp_path_factory.mktemp("ordinary"), notebook, notebook)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_answer_gets_its_points(name: str, all_in_one: SubmissionResult) -> None:
    cell = all_in_one.cells[list(HONEST).index(name)]
    assert cell.points == HONEST[name][2], cell.error


def test_nothing_is_told_about_an_honest_submission(all_in_one: SubmissionResult) -> None:
    assert all_in_one.put_right == all_in_one.went_wrong == ()


def test_a_test_tagged_in_process_sees_the_objects_and_the_report_says_so(tmp_path: Path) -> None:
    test = "import inspect\nassert 'return 3' in inspect.getsource(f)\nassert f.__code__"
    source = made.notebook_of(
        made.answer("a", "def f(): return 3"), made.graded("t", test, 2, tags=["in-process"])
    )
    # getsource needs the cell's text; IPython keeps it.
    result = made.grade_one(tmp_path, source, source)
    assert result.scores == {"t": 2}
    assert "in the student's process" in result.put_right[0]


#: name → (the answer, a test that fails as a stand-in is not the thing, what it says it needs)
APART: dict[str, tuple[str, str, str]] = {
    "source": (
        "def f(n): return 1 if n == 0 else n * f(n - 1)",
        "import inspect\nassert 'f(n - 1)' in inspect.getsource(f)",
        "the source (getsource)",
    ),
    "signature": (
        "def f(a, b=2): return a",
        "from inspect import signature\nassert list(signature(f).parameters) == ['a', 'b']",
        "the signature (signature)",
    ),
    "mocks": (
        "def helper(): return 1\ndef f(): return helper() + 1",
        "import __main__\nfrom unittest import mock\n"
        "with mock.patch.object(__main__, 'helper', lambda: 5):\n    assert f() == 6",
        "the notebook (__main__)",
    ),
    "names taken away": (
        "def helper(): return 1\ndef f(): return helper() + 1",
        "kept = helper\ndel helper\ntry:\n    f()\nexcept NameError:\n    pass\n"
        "else:\n    raise AssertionError('no use of helper')\nfinally:\n    helper = kept",
        "the notebook (another helper)",
    ),
    "names replaced": (
        "def helper(): return 1\ndef f(): return helper() + 1",
        "kept = helper\ndef helper(): return 5\nassert f() == 6\nhelper = kept",
        "the notebook (another helper)",
    ),
    "pickles": (
        "class Point:\n    pass\ndef f(): return Point()",
        "import pickle\nassert type(pickle.loads(pickle.dumps(f()))).__name__ == 'Point'",
        "the object (pickle)",
    ),
    "classes": (
        "import collections\ndef f(): return collections.UserDict(a=1)",
        "import collections\nassert isinstance(f(), collections.UserDict)",
        "an object of class UserDict",
    ),
    "objects that compute": (
        "import datetime\ndef f(): return datetime.timedelta(1)",
        "import datetime\nassert f() + datetime.timedelta(1) == datetime.timedelta(2)",
        "an object of class timedelta",
    ),
    "commands": (
        "def f(): print('hello')",
        "%%capture cap\nf()\nassert cap.stdout",
        "the notebook (an IPython command)",
    ),
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> SubmissionResult:
    cells = []
    for number, (right, test, _) in enumerate(APART.values()):
        cells += [made.answer(f"a{number}", right), made.graded(f"t{number}", test, 2)]
    notebook = made.notebook_of(*cells)
    return made.grade_one(tmp_path_factory.mktemp("apart"), notebook, notebook)


@pytest.mark.parametrize("name", APART)
def test_a_test_that_may_need_the_tag_says_so_to_the_instructor_only(
    name: str, apart: SubmissionResult, tmp_path: Path
) -> None:
    number = list(APART).index(name)
    right, test, needed = APART[name]
    cell = apart.cells[number]
    assert (cell.points, cell.needed) == (0, needed)
    line = f"cell t{number} failed: {needed} stays in the student's process"
    assert f"{line}; if the test needs it, tag the test cell in-process" in apart.went_wrong
    assert "in-process" not in apart.notebook and "in-process" not in str(cell.feedback)
    tagged = made.graded("t", test, 2, tags=["in-process"])
    if name not in ("commands", "source"):  # as above, and a test of its own
        source = made.notebook_of(made.answer("a", right), tagged)
        assert made.grade_one(tmp_path, source, source).scores == {"t": 2}


def test_an_answer_that_is_only_wrong_gets_no_such_hint(tmp_path: Path) -> None:
    wrong = {
        "assert f(2) == 3": "def f(x): return x",
        "assert isinstance(f(2), int)": "def f(x): return str(x)",
        "import unittest\nunittest.TestCase().assertRaises(KeyError, f)": "def f(): return 1",
        "import numpy as np\nnp.testing.assert_allclose(f(), [1, 2])": "def f(): return [1, 3]",
        "v = Vec(3)\nassert v.x == 4": "class Vec:\n    def __init__(self, x): self.x = x",
        "assert sorted([3, 1], key=f) == [1, 3]": "def f(x): return 1 / 0",
        "assert f() == 1": "def f(:",
        "assert g() == 1": "def f(): return 1",
    }
    cells = []
    for number, (test, mine) in enumerate(wrong.items()):
        cells += [made.answer(f"a{number}", mine), made.graded(f"t{number}", test, 1)]
        cells.append(made.code_cell("globals().pop('f', None)"))
    notebook = made.notebook_of(*cells)
    result = made.grade_one(tmp_path, notebook, notebook)
    assert {cell.grade_id: cell.needed for cell in result.cells if cell.needed} == {}
    assert result.score == 0 and result.went_wrong == ()


def test_a_submission_can_not_tag_its_tests(tmp_path: Path) -> None:
    source = made.notebook_of(
        made.answer("a", "def f(): return 3"), made.graded("t", "assert f() == 3", 2)
    )
    mine = made.notebook_of(
        made.answer("a", "class E:\n    def __eq__(self, o): return True\ndef f(): return E()"),
        made.graded("t", "assert f() == 3", 2, tags=["in-process"]),
    )
    result = made.grade_one(tmp_path, source, mine)
    assert result.scores == {"t": 0} and result.put_right == ()


def test_files_of_the_assignment_are_there(tmp_path: Path) -> None:
    source = made.notebook_of(
        made.answer("a", "text = open('data.csv').read()"),
        made.graded("t", "assert text == 'a,b'", 1),
    )
    (tmp_path / "source" / "ps1").mkdir(parents=True)
    (tmp_path / "source" / "ps1" / "data.csv").write_text("a,b")
    assert made.grade_one(tmp_path, source, source).scores == {"t": 1}


def test_a_written_answer_waits_for_a_person(tmp_path: Path) -> None:
    settings = {"grade": True, "solution": True, "locked": False, "schema_version": 3}
    essay = {
        "cell_type": "markdown",
        "metadata": {"nbgrader": {**settings, "grade_id": "essay", "points": 5}},
        "source": "YOUR ANSWER HERE",
    }
    result = made.grade_one(tmp_path, made.notebook_of(essay), made.notebook_of(essay))
    (cell,) = result.cells
    assert (cell.points, cell.max_points, cell.feedback) == (0, 5, [{"manual": True}])


def test_the_same_submission_gets_the_same_random_numbers(tmp_path: Path) -> None:
    code = "import random\nx, y = random.random(), float(np.random.rand())"
    source = made.notebook_of(
        made.code_cell("import numpy as np"), made.answer("a", code), made.graded("t", "x + y", 9)
    )
    first, second = (made.grade_one(tmp_path, source, source) for _ in range(2))
    assert first.scores == second.scores and 0 < first.score < 2
