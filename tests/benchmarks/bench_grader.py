"""The grader's budgets, side by side with stock nbgrader in one run.

    .venv/bin/python tests/benchmarks/bench_grader.py [--stock 6] [--sizes 30,100,300]

CPU is that of all processes, seconds are wall time. Stock nbgrader grades one after the other and
starts a kernel for each: its time is measured on a few submissions and, as the table says, taken
for the others.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from shardbook.labs.registry import lab_named

_CPU_BUDGET = 0.090
_CPU_RATIO = 9
_WALL_RATIO = 20
_RERUN = 3.0

_STOCK = """
import sys
from pathlib import Path
from shardgrade import execution
execution.stock(Path(sys.argv[1]), sys.argv[2], lambda record: None)
"""

_OURS = """
import json, sys
from pathlib import Path
from shardgrade.grading.result import GradeRequest, grade_many
folder, lab, source = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
homes = sorted(folder.glob(f"submitted/*/{lab}"))
requests = [GradeRequest(home.parent.name, lab, home, source) for home in homes]
results = list(grade_many(requests))
print(json.dumps([sorted({r.isolation for r in results}), sorted({r.score for r in results})]))
"""

_COMMAND = """
import sys
from shardgrade.cli import main
main(["grade", sys.argv[2], "--course", sys.argv[1]])
"""


def _measured(program: str, *arguments: str) -> tuple[float, float, str]:
    """CPU and wall seconds of a program with all its children, and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, done.stdout


def _hand_in(course: Path, lab: Any, notebook: bytes, students: range) -> None:
    for number in students:
        target = course / "submitted" / f"s{number:03}" / lab.id / lab.notebook
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(notebook)


def _solved(source: Path) -> bytes:
    """What somebody hands in who solved everything."""
    notebook = json.loads(source.read_text())
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).split("### BEGIN HIDDEN TESTS")[0]
        kept = [line for line in text.splitlines() if not line.strip().startswith("###")]
        cell["source"] = "\n".join(kept)
    return json.dumps(notebook).encode()


def _stock(course: Path, lab: Any, notebook: bytes, few: int) -> tuple[float, float]:
    """CPU and wall seconds of one more submission with stock nbgrader."""
    from shardgrade.release import release

    release(lab, course)
    _hand_in(course, lab, notebook, range(1))
    one_cpu, one_wall, _ = _measured(_STOCK, str(course), lab.id)
    _hand_in(course, lab, notebook, range(few + 1))
    cpu, wall, _ = _measured(_STOCK, str(course), lab.id)
    shutil.rmtree(course / "submitted")
    return (cpu - one_cpu) / few, (wall - one_wall) / few


@click.command()
@click.option("--lab", "lab_id", default="n45")
@click.option("--stock", "few", default=6, help="How many submissions stock nbgrader grades.")
@click.option("--sizes", default="30,100,300", help="Class sizes.")
def main(lab_id: str, few: int, sizes: str) -> None:
    """Measure both and print the table."""
    from shardgrade.release import release

    lab = lab_named(lab_id)
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder) / "course"
        source = release(lab, course).source
        notebook = _solved(source)
        before = _stock(course, lab, notebook, few)
        measured = []
        for size in map(int, sizes.split(",")):
            _hand_in(course, lab, notebook, range(size))
            measured.append((size, *_measured(_OURS, str(course), lab.id, str(source))))
        # Before and after ours: what else runs here changes meanwhile.
        after = _stock(Path(folder) / "again", lab, notebook, few)
        stock_cpu, stock_wall = (statistics.fmean(pair) for pair in zip(before, after, strict=True))
        click.echo(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        click.echo(
            f"stock nbgrader, measured on {few} twice: {1000 * stock_cpu:.0f} ms CPU "
            f"({1000 * before[0]:.0f} and {1000 * after[0]:.0f}) and {stock_wall:.2f} s a submission"
        )
        click.echo("class  CPU/submission  CPU ratio   wall   wall ratio (stock extrapolated)")
        ratios = []
        for size, cpu, wall, said in measured:
            ratio = stock_cpu * size / cpu, stock_wall * size / wall
            ratios.append(ratio)
            click.echo(
                f"{size:5}  {1000 * cpu / size:11.1f} ms  {ratio[0]:8.1f}×  {wall:5.1f} s"
                f"  {ratio[1]:8.1f}×   {said.strip()}"
            )
        click.echo(
            f"budget: ≤ {1000 * _CPU_BUDGET:.0f} ms CPU, ≥ {_CPU_RATIO}× less CPU, "
            f"≥ {_WALL_RATIO}× less wall time at 100 and more; median ratios "
            f"{statistics.median(r[0] for r in ratios):.1f}× and "
            f"{statistics.median(r[1] for r in ratios):.1f}×"
        )
        cpu, wall, _ = _measured(_COMMAND, str(course), lab.id)
        click.echo(
            f"recorded in the gradebook, {size}: {1000 * cpu / size:.1f} ms CPU, {wall:.1f} s"
        )
        cpu, wall, said = _measured(_COMMAND, str(course), lab.id)
        click.echo(
            f"again with nothing changed: {cpu:.2f} s CPU, {wall:.2f} s (budget {_RERUN:g} s); "
            f"{said.strip().splitlines()[-1]}"
        )


if __name__ == "__main__":
    main()
