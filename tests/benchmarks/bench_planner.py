"""How fast the planner is: ``python tests/benchmarks/bench_planner.py``.

The budget is one second for 10,000 layouts ranked by closed forms and the best 20 simulated. Each
case runs with empty caches, as on a reader's first touch, under CPython and, by node, under
Pyodide; then again with full ones. CPU time.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from shardbook.planner.memory import _activations, _states
from shardbook.planner.plan import plan
from shardbook.planner.presets import cluster_named, model_named
from shardbook.planner.simulated import _makespan, layer_nodes, pipeline_nodes

ROOT = Path(__file__).resolve().parents[2]
CASES = (
    ("llama3-70b", "h100-80,nodes=4"),
    ("llama3-405b", "h100-80,nodes=64,nvme_memory=28TB"),
    ("megatron-1t", "a100-80,nodes=384"),
    ("mixtral-8x7b", "a100-40,nodes=4"),
    ("mixtral-8x7b", "h100-80,nodes=64,nvme_memory=28TB"),
)
LEAST = 10_000

_NODE = """
const [folder, wheel, code, cases] = process.argv.slice(1);
const { loadPyodide } = await import(folder + "/pyodide.mjs");
const { readFileSync } = await import("node:fs");
const python = await loadPyodide({ indexURL: folder + "/" });
python.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
python.globals.set("__file__", "/repository/tests/benchmarks/bench_planner.py");
python.runPython(readFileSync(code, "utf8"));
console.log(python.globals.get("measured")(cases));
"""


def node_seconds() -> float:
    """CPU time of node, which Python in it does not know."""
    import js

    used = js.process.cpuUsage()
    return float(used.user + used.system) / 1e6


def measured(cases: str) -> str:
    """Run cases given as JSON: layouts, those that fit, seconds with empty and with full caches."""
    clock = node_seconds if sys.platform == "emscripten" else time.process_time
    rows = []
    for model_text, cluster_text in json.loads(cases):
        model, cluster = model_named(model_text), cluster_named(cluster_text)
        for cached in (_states, _activations, layer_nodes, pipeline_nodes, _makespan):
            cached.cache_clear()
        times = []
        for _ in range(2):
            begin = clock()
            answer = plan(model, cluster)
            times.append(clock() - begin)
        rows.append((answer.considered, answer.fitting, *times))
    return json.dumps(rows)


def in_pyodide(cases: str) -> list[list[float]] | None:
    """The same under Pyodide; None without node."""
    node = shutil.which("node")
    if node is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder) / "shardbook.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path in sorted((ROOT / "shardbook").rglob("*.py")):
                archive.write(path, path.relative_to(ROOT))
        done = subprocess.run(
            [node, "--input-type=module", "-e", _NODE, "--",
             str(ROOT / "node_modules" / "pyodide"), str(wheel), __file__, cases],
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    rows: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def main() -> None:
    """Print each case under both Pythons, and what 10,000 layouts take at that rate."""
    cases = json.dumps(CASES)
    for name, rows in (("CPython", json.loads(measured(cases))), ("Pyodide", in_pyodide(cases))):
        if rows is None:
            print(f"{name}: node is missing")
            continue
        for (model, cluster), (layouts, fitting, cold, warm) in zip(CASES, rows, strict=True):
            print(
                f"{name}: {model} on {cluster}: {layouts:,} layouts, {fitting:,} fit: "
                f"{cold * 1e3:.0f} ms, again {warm * 1e3:.0f} ms, {layouts / cold:,.0f} a second"
            )
        most = max(rows, key=lambda row: row[0])
        print(
            f"{name}: {LEAST:,} layouts at that rate: {LEAST * most[2] / most[0]:.2f} s (budget 1 s)"
        )


if __name__ == "__main__":
    main()
