"""Count and price ring all-reduces: CPU seconds, and nanoseconds a transfer, which stay level.

(A round of more than 700 transfers sets off Python's garbage collector: one step up, once.)

Run with `python tests/benchmarks/bench_collectives.py`. Budget: 1,024 ranks (2.1 million
transfers) in less than 2 s.
"""

import time

from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import Link, Network, flat, two_level
from shardbook.numbers.units import GIB


def best_of(network: Network, ranks: int, repeats: int = 3) -> tuple[float, int]:
    """Return the best CPU time in s, plan included, and the number of transfers."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        measured = measure(plan_of("all-reduce", "ring", ranks, GIB + 1), network)
        times.append(time.process_time() - start)
    return min(times), measured.transfers


def main() -> None:
    """Print a line for each network and number of ranks."""
    networks = {
        "flat": flat(5e-6, 50e9),
        "nodes of 8": two_level(Link(2e-6, 450e9), Link(5e-6, 50e9), 8),
    }
    for name, network in networks.items():
        for ranks in (128, 256, 512, 1024, 2048):
            seconds, transfers = best_of(network, ranks)
            each = seconds / transfers * 1e9
            print(f"{name:10}  {ranks:5} ranks  {transfers:9,} transfers  {seconds:6.3f} s", end="")
            print(f"  {each:4.0f} ns each")


if __name__ == "__main__":
    main()
