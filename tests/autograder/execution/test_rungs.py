"""Every rung of the ladder that works here, forced, as this user and as an unprivileged one."""

import contextlib
import importlib
import importlib.util
import json
import os
import py_compile
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import submissions as made
from shardgrade import checkout
from shardgrade.sandbox import ladder
from shardgrade.sandbox.box import Box, Warmth
from shardgrade.sandbox.limits import Limits

pytestmark = pytest.mark.xdist_group("rungs")

RUNGS = list(ladder.each_rung())
ROOT = checkout.root()
MIXED = made.notebook_of(
    made.answer("a", "def f(x): return x + 1"),
    made.graded("t1", "assert f(2) == 3", 1),
    made.answer("b", "import os\ndef g(): os._exit(1)"),
    made.graded("t2", "assert g() is None", 1),
    made.answer(
        "c", "try: open('out', 'w').write('x' * 10); h = 'own'\nexcept OSError: h = 'none'"
    ),
    made.graded("t3", "assert h == 'own'", 1),
)


def test_the_highest_rung_works_where_bubblewrap_is_installed() -> None:
    if shutil.which("bwrap"):
        assert ladder.best_rung() == "bwrap"


def test_the_lowest_rung_always_works_and_warns() -> None:
    assert "limits" in RUNGS
    assert "can read" in ladder.warning("limits")
    assert ladder.warning("bwrap") == ladder.warning("landlock") == ""


@pytest.mark.parametrize("rung", RUNGS)
def test_each_rung_grades_and_keeps_what_did_not_die(rung: str, tmp_path: Path) -> None:
    result = made.grade_one(tmp_path, MIXED, MIXED, isolation=rung)
    assert result.scores == {"t1": 1, "t2": 0, "t3": 1}
    assert result.isolation == rung
    assert any("exit code 1" in said for said in result.went_wrong)
    assert any("trust the class" in said for said in result.went_wrong) is (rung == "limits")


LIMITED = {
    "memory": "x = bytearray(2 * 10**9)",
    "time": "while True: pass",
    "processes": "import os; os.fork()",
    "a file": "open('big', 'wb').write(bytes(10**8))",
    "many files": "for i in range(20000): open(str(i), 'w').close()",
    "many files' bytes": "for i in range(200): open(str(i), 'wb').write(bytes(10**6))",
    "open files": "kept = [open('/dev/null') for _ in range(5000)]",
    "network": "import socket; socket.socket()",
    "output": "for _ in range(5): print('x' * 10**6)",
}


@pytest.mark.slow
@pytest.mark.parametrize("rung", RUNGS)
def test_each_limit_holds_and_is_told_or_raises(rung: str, tmp_path: Path) -> None:
    cells = []
    for number, code in enumerate(LIMITED.values()):
        cells.append(
            made.answer(f"a{number}", f"ended{number} = 'began'\n{code}\nended{number} = 1")
        )
        cells.append(made.graded(f"t{number}", f"assert ended{number} == 1", 1))
    source = made.notebook_of(*cells)
    limits = replace(made.LIMITS, cell_seconds=1.5, deaths=9)
    result = made.grade_one(tmp_path, source, source, isolation=rung, limits=limits)
    ended = [name for name, cell in zip(LIMITED, result.cells, strict=True) if cell.points]
    assert ended == ["output"]
    told = " ".join(result.went_wrong)
    assert "cut off" in told and "scratch folder" in told
    # The grader knows two clocks, the cell's and the supervisor's; on a busy machine the second
    # may be first. Either must name the cell that loops.
    assert {"cell a1: no result in time", "cell a1: the process hung"} & set(result.went_wrong)


@pytest.mark.parametrize("rung", RUNGS)
def test_nothing_is_left_behind(rung: str) -> None:
    with ladder.Sandbox(rung, Warmth(()), Limits()) as sandbox:
        process = sandbox._process.pid
        home = Path(sandbox._home)
        talk, interrupt = sandbox.start({"a": b"1"}, Limits(), 0)
        sandbox.end()
        for end in (talk, interrupt):
            end.close()
        assert home.is_dir()
        if rung != "bwrap":
            assert list((home / "scratch").iterdir()) == []
    assert not home.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
@pytest.mark.parametrize("rung", RUNGS)
def test_an_unprivileged_user_grades_on_each_rung(rung: str, tmp_path: Path) -> None:
    folder = Path("/tmp") / f"as-nobody-{os.getpid()}-{rung}"
    try:
        path = made.write_source(folder, MIXED, "ps.ipynb", "ps1")
        handed = folder / "submitted" / "ann" / "ps1" / "ps.ipynb"
        handed.parent.mkdir(parents=True)
        handed.write_text(json.dumps(MIXED))
        program = (
            "import os, sys; from pathlib import Path\n"
            "from shardgrade.grading.result import GradeRequest, grade_many\n"
            f"request = GradeRequest('ann', 'ps1', Path({str(handed)!r}), Path({str(path)!r}),"
            f" isolation={rung!r})\n"
            "print(os.getuid(), *(r.to_json() for r in grade_many([request], 1)))"
        )
        prefix = os.path.realpath(sys.base_prefix)
        script = str(Path(__file__).with_name("as_nobody.sh"))
        done = subprocess.run(
            ["sh", script, prefix, str(ROOT), sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=120,
            cwd="/",
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 0, done.stderr
        user, _, text = done.stdout.partition(" ")
        scores = {cell["grade_id"]: cell["points"] for cell in json.loads(text)["cells"]}
        assert user == "65534"
        assert scores == {"t1": 1, "t2": 0, "t3": 1}, text[-500:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("rung", RUNGS)
def test_a_dead_grader_leaves_no_process(rung: str, tmp_path: Path) -> None:
    program = (
        "import time; from shardgrade.sandbox.ladder import *; from shardgrade.sandbox.limits import *\n"
        f"b = Box(Warmth(())); s = Sandbox({rung!r}, Warmth(()), Limits(), box=b)\n"
        "t = s.start({}, Limits(), 0)\n"
        "print(s._process.pid, s._home, b.path.parent, flush=True); time.sleep(60)"
    )
    grader = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert grader.stdout
    process, *folders = grader.stdout.readline().split()
    grader.kill()
    grader.wait()
    grader.stdout.close()
    until = time.monotonic() + 10
    while _alive(int(process)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(int(process))
    for folder in folders:
        shutil.rmtree(folder)


def test_no_bytecode_of_what_is_blocked_is_in_the_box(tmp_path: Path) -> None:
    """Python reads compiled files first: one of a module with a blocked function would unblock it."""
    name = "shardbook.ledger.checkpointing"
    for cached in (name, "shardbook.labs.values"):
        source = importlib.import_module(cached).__file__
        assert source
        py_compile.compile(source, str(tmp_path / f"{cached}.pyc"))

    def compiled(source: str) -> str:
        return str(tmp_path / f"{'.'.join(Path(source).with_suffix('').parts[-3:])}.pyc")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.util, "cache_from_source", compiled)
        warmth = Warmth((), ((f"{name}:best_interval", "n45.4"),))
        with contextlib.closing(Box(warmth)) as box:
            there = {path.name for path in (box.path / "shardbook").rglob("*.pyc")}
            source = (box.path / "shardbook/ledger/checkpointing.py").read_text()
    assert there == {"shardbook.labs.values.pyc"}
    assert "asks you to write what best_interval does" in source


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
