"""Replay of a real run, find the fault: against published bytes, and the faults' own definitions."""

import json
import subprocess
import sys

import pytest

from shardbook.collectives.hybrid import node_traffic
from shardbook.explorers import logs
from shardbook.explorers.registry import get
from shardbook.numbers.units import format_bytes
from shardbook.training.faults import FAULTS, HANGS
from shardbook.training.replay import runs

#: strategy → peak (B), bytes sent in a step, rounds, what stays between steps: the lecture's
GIVEN = {
    "dp": (559_744, 97_968, 30, 14 * 32_656),
    "zero1-all-reduce": (237_904, 146_952, 45, 5 * 32_656),
    "zero1": (237_904, 97_968, 30, 5 * 32_656),
    "zero2": (191_992, 97_968, 30, 5 * 32_656),
    "zero3": (161_632, 146_952, 45, 14 * 32_656 // 4),
}


def sentence(explorer: str, **state: str) -> str:
    return get(explorer).view(state).sentence


@pytest.mark.slow
def test_the_stored_logs_are_what_this_engine_makes() -> None:
    assert logs.read() == json.loads(json.dumps(runs())), (
        "stale: run `python -m shardbook.explorers.logs`, or build the book"
    )


def test_without_the_logs_and_without_numpy_the_error_says_what_to_do() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from pathlib import Path\n"
        "from shardbook.explorers import logs\n"
        "logs.FILE = Path('nowhere.json')\n"
        "try: logs.read()\n"
        "except FileNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (
        "nowhere.json is missing: make it with `python -m shardbook.explorers.logs`" in done.stdout
    )


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("strategy", GIVEN)
def test_the_replay_shows_the_lectures_peaks_and_traffic(strategy: str, rank: int) -> None:
    peak, sent, rounds, rest = GIVEN[strategy]
    log = logs.read()["strategies"][strategy]["events"][rank]
    assert sum(len(sends) for *_, sends in log) == rounds
    last = get("training-replay").view({"strategy": strategy, "rank": str(rank), "step": "52"})
    assert f"the whole step sends {sent:,} B" in last.sentence
    assert f"the peak is {peak:,} B" in last.sentence
    # the last action frees the gradients: what stays is what the step began with
    assert ("sum of what counts", f"{rest:,} B") in {row[:2] for row in last.table.rows}
    assert f"So far {sent:,} B of {sent:,} B" in last.figure
    totals = []
    for step in range(len(log)):
        state = {"strategy": strategy, "rank": str(rank), "step": str(step)}
        view = get("training-replay").view(state)
        [total] = [row[1] for row in view.table.rows if row[0] == "sum of what counts"]
        totals.append(int(total.replace(",", "").removesuffix(" B")))
        assert ("this is the peak" in view.sentence) == (
            step == totals.index(max(totals)) and total == f"{peak:,} B"
        )
    assert max(totals) == peak


def test_at_the_peak_of_zero3_are_the_lectures_inhabitants() -> None:
    rows = {row[0]: row[1] for row in get("training-replay").view({}).table.rows}
    fp32 = sum(
        int(rows[name][:-2].replace(",", "")) for name in ("master weights", "momentum", "variance")
    )
    assert (rows["weights"], fp32) == ("16,328 B", 97_968)
    assert rows["reduced gradients"] == "10,088 B"  # units 4, 3 and 2
    assert rows["gathered parameters"] == rows["gradient just computed"] == "18,624 B"


def test_in_the_ring_each_rank_sends_to_the_next_and_in_hybrid_sharding_to_its_group() -> None:
    def targets(strategy: str, rank: int) -> list[set[int]]:
        events = logs.read()["strategies"][strategy]["events"][rank]
        return [{target for target, *_ in sends} for *_, sends in events if sends]

    for rank in range(4):
        assert all(to == {(rank + 1) % 4} for to in targets("zero3", rank))
        inside, other = rank ^ 1, (rank + 2) % 4
        assert {frozenset(to) for to in targets("hybrid", rank)} == {
            frozenset({inside}),
            frozenset({other}),
        }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_begins_by_the_check_made_for_it(fault: str) -> None:
    made_for = {
        "missing-parameter-all-gather": "same-weights",
        "reduced-parameter": "joint-gradient",
        "local-gradient": "joint-gradient",
        "sum-for-mean": "joint-gradient",
        "repeated-data": "distinct-data",
        "bit-flip": "state-at-rest",
    }
    begins = 0 if fault == "sum-for-mean" else 10
    check = "call-matching" if fault in HANGS else made_for[fault]
    said = sentence("find-the-fault", run=fault)
    assert f"{check} finds in step {begins}, at rank" in said
    assert ("in step 10 the run stops" in said) == (fault in HANGS)


@pytest.mark.parametrize("run", ["healthy", "case-3"])
def test_a_healthy_run_raises_no_alarm(run: str) -> None:
    view = get("find-the-fault").view({"run": run, "step": "39"})
    assert "no check finds anything" in view.sentence and "Found by" not in view.figure
    assert [row[2] for row in view.table.rows if row[1] == "finds"] == ["nothing"] * 5


def test_switched_off_checks_and_hidden_cases_give_nothing_away() -> None:
    for run, label in get("find-the-fault").controls[0].options:  # type: ignore[union-attr]
        view = get("find-the-fault").view({"run": run, "checks": "off"})
        shown = view.sentence + view.figure + " ".join(map(" ".join, view.table.rows))
        assert "finds" not in shown and "Found by" not in shown
        if run.startswith("case-"):
            assert label.startswith("hidden")


def test_only_what_makes_ranks_differ_shows_in_the_checksums() -> None:
    for run in (*FAULTS, "case-1", "case-2", "case-5"):
        view = get("find-the-fault").view({"run": run, "step": "39"})
        parted = "not as rank 0" in {row[2] for row in view.table.rows}
        assert parted == (run in ("missing-parameter-all-gather", "case-2"))


@pytest.mark.parametrize(("nodes", "per_node"), [(8, 8), (4, 4), (1, 8), (32, 4)])
def test_the_hybrid_dial_counts_what_plans_do(nodes: int, per_node: int) -> None:
    ranks, size = nodes * per_node, 256 * 10**6
    state = {"nodes": str(nodes), "per_node": str(per_node), "parameters": str(size)}
    rows = get("hybrid-sharding").view(state).table.rows
    assert [int(row[0]) for row in rows] == [2**p for p in range(ranks.bit_length())]
    for row in rows:
        counted = node_traffic(size, ranks, int(row[0]), per_node).node_egress
        assert row[4] == format_bytes(counted, 3)
        assert row[1] == format_bytes(16 * size / int(row[0]), 3)
