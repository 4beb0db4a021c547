"""Train the lecture's network with the five strategies: CPU and wall seconds.

Run with `python tests/benchmarks/bench_training.py`. Budget: 5 strategies × 50 steps on 4
simulated devices in less than 5 s together on 2 cores. The devices' cost grows with the number
of transfers: the second table has the CPU time for each, in which the
network's own time disappears as ranks are added.
"""

import time

from shardbook.training.settings import Settings
from shardbook.training.strategies import STRATEGIES
from shardbook.training.trainer import Trainer

STEPS = 50


def seconds(settings: Settings, steps: int) -> tuple[float, float, int]:
    """Return wall and CPU time in s, the start included, and the number of transfers."""
    wall, cpu = time.perf_counter(), time.process_time()
    reports = Trainer(settings).run(steps)
    transfers = sum(len(report.sent) for report in reports)
    return time.perf_counter() - wall, time.process_time() - cpu, transfers


def main() -> None:
    """Print both tables."""
    total = 0.0
    for name in STRATEGIES:
        wall, cpu, transfers = seconds(Settings(name, 4), STEPS)
        total += wall
        print(f"{name:18} {STEPS} steps  {wall:6.3f} s  CPU {cpu:6.3f} s  {transfers:7,} transfers")
    print(f"together           {total:6.3f} s  (budget 5 s)\n")
    for ranks in (2, 4, 8, 16, 32):
        _, cpu, transfers = seconds(Settings("zero3", ranks), 10)
        print(
            f"zero3, {ranks:3} ranks  {transfers:7,} transfers  {cpu / transfers * 1e6:5.1f} µs each"
        )


if __name__ == "__main__":
    main()
