"""Attacks on the grader, on this machine only: each must earn nothing and read nothing.

An attack that tries to read leaves what it got in a name ``loot``; the test cell after it shows
whether there is any.
"""

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import submissions as made
from shardgrade import checkout
from shardgrade.grading.result import GradeRequest, SubmissionResult
from shardgrade.sandbox import ladder

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("attacks")]

SECRET = "the-secret-answer-is-81734"
ROOT = checkout.root()

#: each earns a point for `f(3) == 81734`, `np.testing`, `close`, or a printed answer, if it works
TEST = f"""
import numpy as np
import numpy.testing
# {SECRET}
expected = 81734
assert f(3) == expected
np.testing.assert_allclose(f(3), expected)
assert close(f(3), expected)
assert abs(f(3) - expected) < 1e-9
assert sum([f(3)]) == expected and max(f(3), 0) == expected
assert repr(f(3)) == "81734" and expected in [f(3)]
"""
SOURCE = made.notebook_of(
    made.code_cell("import numpy as np\ndef close(a, b): return bool(np.isclose(a, b))"),
    made.answer("a", "### BEGIN SOLUTION\ndef f(x): return 81734\n### END SOLUTION"),
    made.graded("t", f"### BEGIN HIDDEN TESTS\n{TEST}\n### END HIDDEN TESTS", 4),
)

EVIL = """
class Evil:
    def __eq__(self, o): return True
    __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __eq__
    def __ne__(self, o): return False
    def __hash__(self): return 1
    def __bool__(self): return True
    def __sub__(self, o): return 0.0
    __rsub__ = __add__ = __radd__ = __mul__ = __abs__ = __sub__
    def __abs__(self): return 0.0
    def __float__(self): return 81734.0
    def __int__(self): return 81734
    __index__ = __int__
    def __repr__(self): return "81734"
    __str__ = __repr__
    def __len__(self): return 1
    def __iter__(self): return iter([self])
    def __array__(self, *a, **k): raise TypeError
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
"""

#: what must earn nothing
GAINS = {
    "patched numpy.testing": (
        "import numpy.testing, numpy as np\nnp.testing.assert_allclose = lambda *a, **k: None\n"
        "np.isclose = np.allclose = lambda *a, **k: True\ndef f(x): return 0"
    ),
    "patched builtins": (
        "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.AssertionError = None\n"
        "builtins.max = builtins.sum = lambda *a: 81734\nabs = lambda x: 0\ndef f(x): return 0"
    ),
    "input hook of IPython": (
        "ip = get_ipython()\nip.input_transformers_post.append(lambda lines: ['pass\\n'])\n"
        "def f(x): return 0"
    ),
    "AST hook of IPython": (
        "import ast\nclass Drop(ast.NodeTransformer):\n"
        "    def visit_Assert(self, node): return ast.Pass()\n"
        "get_ipython().ast_transformers.append(Drop())\ndef f(x): return 0"
    ),
    "exception hook of IPython": (
        "get_ipython().set_custom_exc((AssertionError,), lambda *a, **k: None)\n"
        "import sys\nsys.excepthook = lambda *a: None\ndef f(x): return 0"
    ),
    "equal to everything": f"{EVIL}\ndef f(x): return Evil()",
    "a list of such": f"{EVIL}\ndef f(x): return [Evil()]",
    "a class in place of the function": f"{EVIL}\nf = Evil",
    "an int that lies": (
        "class Int(int):\n    def __eq__(self, o): return True\n    def __sub__(self, o): return 0\n"
        "    __hash__ = int.__hash__\ndef f(x): return Int(5)"
    ),
    "an array that lies": (
        "import numpy as np\nclass A(np.ndarray):\n    def __eq__(self, o): return True\n"
        "    def __bool__(self): return True\n    def __sub__(self, o): return 0\n"
        "def f(x): return np.zeros(1).view(A)"
    ),
    "its own helper": "def close(a, b): return True\ndef f(x): return 0",
    "exits with success": "import os\ndef f(x): os._exit(0)",
    "stops the test by an exception": "def f(x): raise SystemExit(0)",
    "raises KeyboardInterrupt": "def f(x): raise KeyboardInterrupt",
    "raises SkipTest": "import unittest\ndef f(x): raise unittest.SkipTest",
    "an object with code in it": (
        "import os\nclass P:\n    def __reduce__(self): return (eval, ('81734',))\n"
        "def f(x): return P()"
    ),
    "writes to the protocol": (
        "import os, json, struct\nreply = json.dumps({'r': 81734}).encode()\n"
        "for fd in range(3, 60):\n    try:\n"
        "        for _ in range(30): os.write(fd, struct.pack('!I', len(reply)) + reply)\n"
        "    except OSError: pass\ndef f(x): return 0"
    ),
    "a message too large": "def f(x): return 'x' * 200_000_000",
    "too many items": "def f(x): return [[]] * 5_000_000",
    "too deep": "def f(x):\n    v = []\n    for _ in range(10**5): v = [v]\n    return v",
    "contains itself": "def f(x):\n    v = {}\n    v[1] = v\n    return v",
    "an int of a million digits": "def f(x): return 1 << 4_000_000",
    "frames": (
        "import sys\ndef f(x):\n    frame, found = sys._getframe(), 0\n    while frame:\n"
        "        found = frame.f_locals.get('expected', found)\n"
        "        found = frame.f_globals.get('expected', found)\n        frame = frame.f_back\n"
        "    return found"
    ),
    "the garbage collector": (
        "import gc\ndef f(x):\n    for thing in gc.get_objects():\n"
        "        if isinstance(thing, dict) and 'expected' in thing: return thing['expected']\n"
        "    return 0"
    ),
    "lies about its shape": (
        "import shardbox.wire as w, numpy as np\nw._to_text = lambda data: ''\n"
        "def f(x): return np.zeros((10**6, 10**6), dtype='V0').astype('f8') if 0 else np.ones(9)"
    ),
}

READ = """
import os
loot = []
def look(*paths):
    for path in paths:
        try:
            if os.path.isdir(path): loot.extend(f'{path}/{n}' for n in os.listdir(path))
            else:
                with open(path, 'rb') as file: loot.append(file.read()[:200])
        except OSError: pass
"""

#: what must find nothing; {source} and {root} are filled in
READS = {
    "the source notebook": "look({source!r}, os.path.dirname({source!r}))",
    "another submission": "look({other!r}, os.path.dirname({other!r}))",
    "the gradebook": "look({gradebook!r})",
    "solutions and checks": (
        "look({root!r} + '/solutions', {root!r} + '/solutions/n45_ledger.py',\n"
        "     {root!r} + '/autograder/shardgrade/checks', {root!r} + '/autograder')"
    ),
    "by importing them": (
        "for name in ('shardgrade', 'shardgrade.checks', 'solutions', 'solutions.n45_ledger'):\n"
        "    try: loot.append(__import__(name))\n    except ImportError: pass"
    ),
    "environment variables": "loot += [v for v in os.environ.values() if 'hush' in v]",
    "environments of others": (
        "for pid in os.listdir('/proc') if os.path.isdir('/proc') else ():\n"
        "    try:\n        text = open(f'/proc/{{pid}}/environ', 'rb').read()\n"
        "        loot += [b'hush'] if b'hush' in text else []\n    except OSError: pass"
    ),
    "memory of others": (
        "for pid in range(1, 50):\n    try: loot.append(open(f'/proc/{{pid}}/mem', 'rb'))\n"
        "    except OSError: pass\n"
        "loot = [f for f in loot if f.name != f'/proc/{{os.getpid()}}/mem']"
    ),
    "password file": "look('/etc/shadow', '/root/.ssh', '/home')",
    "modules for answers": (
        "import sys\nloot += [m for m in sys.modules if 'shardgrade' in m or 'solution' in m]"
    ),
    "the memory of the warm process": (
        "import gc\n"
        "loot += [t for t in gc.get_objects() if type(t) is str and 'secret-' + 'answer' in t]"
    ),
    "writes outside": (
        "for path in ('/tmp/loot', '/usr/loot', {root!r} + '/loot', '/dev/shm/loot', '/loot',\n"
        "             os.path.dirname(os.__file__) + '/loot.py', os.path.dirname({source!r}) + '/l'):\n"
        "    try: open(path, 'w').close(); loot.append(path)\n    except OSError: pass"
    ),
    "the network": (
        "import socket\ntry:\n    s = socket.create_connection(('127.0.0.1', {port}), 1)\n"
        "    loot.append(s)\nexcept OSError: pass"
    ),
    "a local socket by raw call": (
        "import ctypes\nif ctypes.CDLL(None).socket(1, 1, 0) >= 0: loot.append('socket')"
    ),
    "a process by raw call": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "pid = libc.syscall(57)\nif pid == 0: os._exit(0)\nif pid > 0: loot.append(pid)"
    ),
    "a process that stays": (
        "import subprocess\ntry: loot.append(subprocess.Popen(['sleep', '1']))\n"
        "except OSError: pass"
    ),
    "signals to others": (
        "import signal\nfor pid in (1, 2, 3, os.getppid()):\n"
        "    try: os.kill(pid, 0); loot.append(pid)\n    except OSError: pass"
    ),
    "tracing the warm process": (
        "import ctypes\nif ctypes.CDLL(None).ptrace(16, os.getppid() or 2, 0, 0) == 0:\n"
        "    loot.append('traced')"
    ),
    "raising its limits": (
        "import resource\nfor kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU):\n"
        "    try:\n        resource.setrlimit(kind, (-1, -1)); loot.append(kind)\n"
        "    except (ValueError, OSError): pass"
    ),
    "a new namespace": (
        "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000) == 0: loot.append('unshared')"
    ),
    "what the one before left": (
        "look('.')\nloot = [x for x in loot if 'mark' in x]\nopen('mark', 'w').close()"
    ),
}


def rungs() -> list[str]:
    return [rung for rung in ladder.each_rung() if rung != "limits"]


@pytest.fixture(scope="module")
def gains(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SubmissionResult]:
    folder = tmp_path_factory.mktemp("gains")
    return made.grade_all(_requests(folder, GAINS, SOURCE, "auto"))


def _requests(
    folder: Path, attacks: dict[str, str], source: dict[str, Any], isolation: str
) -> Iterator[GradeRequest]:
    path = made.write_source(folder, source, "ps.ipynb", "ps1")
    limits = replace(made.LIMITS, cell_seconds=3.0)
    for name, attack in attacks.items():
        home = folder / "submitted" / name / "ps1"
        home.mkdir(parents=True)
        cells = [made.answer("a", attack), made.graded("t", "pass", 4)]
        (home / "ps.ipynb").write_text(json.dumps(made.notebook_of(*cells)))
        yield GradeRequest(name, "ps1", home, path, limits=limits, isolation=isolation)


@pytest.mark.parametrize("name", GAINS)
def test_it_earns_nothing(name: str, gains: dict[str, SubmissionResult]) -> None:
    assert gains[name].scores == {"t": 0}, gains[name].cells


def test_the_right_answer_earns_its_points(tmp_path: Path) -> None:
    # Else all attacks would fail for another reason.
    result = made.grade_one(
        tmp_path, SOURCE, made.notebook_of(made.answer("a", "f = lambda x: 81734"))
    )
    assert result.scores == {"t": 4}


@pytest.fixture(scope="module", params=rungs())
def reads(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, SubmissionResult]]:
    folder = tmp_path_factory.mktemp(f"reads-{request.param}")
    gradebook, other = folder / "gradebook.db", folder / "submitted" / "bob" / "ps1" / "ps.ipynb"
    other.parent.mkdir(parents=True)
    for file in (gradebook, other):
        file.write_text(SECRET)
    test = f"# {SECRET}\nassert loot == [], str(loot)[:300]"
    source = made.notebook_of(made.answer("a", ""), made.graded("t", test, 4))
    with socket.create_server(("127.0.0.1", 0)) as server:
        facts = {
            "source": str(folder / "source" / "ps1" / "ps.ipynb"),
            "other": str(other),
            "gradebook": str(gradebook),
            "root": str(ROOT),
            "port": server.getsockname()[1],
        }
        attacks = {name: READ + code.format(**facts) for name, code in READS.items()}
        attacks["what the one before left, again"] = attacks["what the one before left"]
        os.environ["SHARDBOOK_TEST_SECRET"] = "hush"
        try:
            yield made.grade_all(_requests(folder, attacks, source, request.param), workers=1)
        finally:
            del os.environ["SHARDBOOK_TEST_SECRET"]


@pytest.mark.parametrize("name", [*READS, "what the one before left, again"])
def test_it_reads_and_reaches_nothing(name: str, reads: dict[str, SubmissionResult]) -> None:
    assert reads[name].scores == {"t": 4}, reads[name].cells


def test_what_was_denied_is_told(reads: dict[str, SubmissionResult]) -> None:
    told = {name: " ".join(result.went_wrong) for name, result in reads.items()}
    assert "ps.ipynb was refused" in told["the source notebook"]
    assert "socket" in told["the network"]
    assert "subprocess.Popen was refused" in told["a process that stays"]


def test_the_engine_has_no_answer(tmp_path: Path) -> None:
    """Neither by calling it, nor in its source, nor in anything compiled."""
    task = made.LAB.tasks[2]
    attack = """
import glob, inspect, marshal, os, shardbook
from shardbook.ledger import fits
def smallest_ranks(*arguments):
    try: return fits.smallest_ranks(*arguments)
    except RuntimeError as error: print(error); raise
text = inspect.getsource(fits.smallest_ranks)
folder = os.path.dirname(shardbook.__file__)
def codes(code):
    yield code.co_name
    for inner in code.co_consts:
        if hasattr(inner, 'co_code'): yield from codes(inner)
everything = glob.glob(folder + '/**/*.pyc', recursive=True)
compiled = [f for f in everything if 'smallest_ranks' in codes(marshal.loads(open(f, 'rb').read()[16:]))]
print('SIZE', len(text.splitlines()), 'SWITCHED' if 'switched off' in text else 'READABLE', compiled)
"""
    source = made.source_notebook()
    mine = made.handed_in(source)
    made.cell_of(mine, task.answer_id)["source"] = attack
    path = made.write_source(tmp_path, source, made.LAB.notebook, made.LAB.id)
    home = tmp_path / "submitted" / "eve" / made.LAB.id
    home.mkdir(parents=True)
    (home / made.LAB.notebook).write_text(json.dumps(mine))
    result = made.grade_all([GradeRequest("eve", made.LAB.id, home, path)])["eve"]
    assert result.scores[task.grade_id] == 0
    assert "SWITCHED []" in result.notebook
    feedback = next(cell for cell in result.cells if cell.grade_id == task.grade_id).feedback
    assert "switched off" in feedback[0]["fault"]["got"]
