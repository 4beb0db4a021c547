"""The reference solutions of lab n46 agree with the engine, and its checks point at the fault."""

import pytest
from shardgrade.checkout import reference
from shardgrade.checks.judging import cases_of, hidden_check

from shardbook.collectives.bandwidth import busbw
from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.ring import ring_all_gather, ring_broadcast, ring_reduce_scatter
from shardbook.labs.checking import examine
from shardbook.labs.registry import TASKS


@pytest.mark.parametrize(
    ("task", "maker"), [("n46.1", ring_reduce_scatter), ("n46.2", ring_all_gather)]
)
def test_plans_are_the_engines_rings(task: str, maker: object) -> None:
    for order in ([0, 1], [4, 2, 9], list(range(8)), [3]):
        rounds = maker(order, 60).rounds  # type: ignore[operator]
        engine = [sorted(tuple(move)[:3] for move in moves) for moves in rounds]
        assert [sorted(moves) for moves in reference(TASKS[task])(order)] == engine


def test_ring_costs_are_what_the_engine_counts() -> None:
    task = TASKS["n46.4"]
    for probe in hidden_check(task).probes:
        for collective, sizes, latency, bandwidth in cases_of(task, probe):
            found = reference(task)(collective, sizes, latency, bandwidth)
            plan = plan_of(collective, "ring", len(sizes), sizes)
            engine = measure(plan, flat(latency, bandwidth))
            assert (found["rounds"], found["sent"]) == (engine.rounds, list(engine.sent))
            assert found["seconds"] == pytest.approx(engine.seconds)
            rate = busbw(collective, len(sizes), sum(sizes), engine.seconds)
            assert found["busbw"] == (rate and pytest.approx(rate))


def test_no_number_of_pieces_is_faster_on_the_engines_chain() -> None:
    network = flat(1e-6, 1e9)
    size = 5040  # so that all these numbers of pieces divide it
    for ranks in (2, 3, 6):
        best = reference(TASKS["n46.5"])(ranks, size, 1e-6, 1e9, 10)["seconds"]
        chains = [ring_broadcast(ranks, [size // k] * k) for k in range(1, 11)]
        assert best == pytest.approx(min(measure(chain, network).seconds for chain in chains))


def test_the_diagnosis_of_a_plan_shows_its_grid() -> None:
    finding = examine("n46.1", lambda order: [[(0, 1, 1)], [(1, 2, 1)]]).finding
    assert finding and finding.fault.where == "at the end, rank 0, chunk 0"
    assert "lacks the contributions of ranks 1, 2" in finding.fault.got and "✗" in finding.fault.got
