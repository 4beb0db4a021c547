"""How fast schedules are simulated: ``python tests/benchmarks/bench_schedules.py``.

The budget is 2 million actions a second for interleaved 1F1B on 16 stages × 512 micro-batches ×
4 chunks (times and memory of a compiled plan), and a time that grows linearly to a million
actions. Where torch is installed, its `_simulate_comms_compute` runs side by side on a smaller
case, as it takes too long on this one. CPU time, best of several.
"""

import time
from collections.abc import Callable
from typing import Any

from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import Plan, simulate
from shardbook.schedules.pipeline import make_order, run_order


def best(call: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of a call, s."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def interleaved(ranks: int, micro_batches: int, chunks: int) -> Plan:
    """The compiled plan of an interleaved schedule."""
    return run_order(make_order("interleaved-1f1b", ranks, micro_batches, chunks)).run.plan


def torch_seconds(ranks: int, micro_batches: int, chunks: int) -> float | None:
    """PyTorch's simulator on the same order, without its lowering; None without torch."""
    try:
        from torch.distributed.pipelining import schedules
    except ImportError:
        return None
    order = make_order("interleaved-1f1b", ranks, micro_batches, chunks)
    rows = {
        rank: [schedules._Action.from_str(str(action)) for action in row]
        for rank, row in enumerate(order)
    }
    lowered = schedules._add_send_recv(rows, lambda stage: stage % ranks, ranks * chunks)
    return best(
        lambda: schedules._simulate_comms_compute(
            lowered, lambda stage: stage % ranks, ranks * chunks
        ),
        3,
    )


def main() -> None:
    """Print the budget's case, the growth and the comparison."""
    plan = interleaved(16, 512, 4)
    count = len(plan.actions)
    seconds = best(lambda: simulate(plan), 15)
    print(f"{count:,} actions: {seconds * 1e3:.1f} ms, {count / seconds / 1e6:.1f} M actions/s")
    compiling = best(lambda: compile_plan(plan.actions), 3)
    print(f"compiling them: {compiling * 1e3:.0f} ms, {compiling / count * 1e6:.1f} µs an action")
    for micro_batches in (512, 1024, 2048, 4096, 8192):
        longer = interleaved(16, micro_batches, 4)
        seconds = best(lambda plan=longer: simulate(plan), 3)  # type: ignore[misc]
        size = len(longer.actions)
        print(f"{size:>9,} actions: {seconds / size * 1e9:.0f} ns an action")
    order = make_order("1f1b", 8, 64)
    print(f"8 stages × 64, order to result: {best(lambda: run_order(order), 15) * 1e3:.1f} ms")
    theirs = torch_seconds(8, 32, 2)
    if theirs is None:
        print("PyTorch's simulator: torch is not installed")
        return
    ours = best(lambda: run_order(make_order("interleaved-1f1b", 8, 32, 2)), 5)
    print(
        f"8 stages × 32 × 2: PyTorch {theirs * 1e3:.1f} ms, ours with compiling {ours * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
