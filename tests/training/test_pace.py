"""A slow rank and a slow network: which number moves, and which does not."""

import pytest

from shardbook.collectives.network import flat
from shardbook.training.pace import Pace
from shardbook.training.settings import Settings
from shardbook.training.trainer import Trainer

LATENCY, BANDWIDTH = 1e-5, 1e8


def step(strategy, ranks, *, bandwidth=BANDWIDTH, slow_load=None):
    def seconds(rank, action):
        if action.kind == "load":
            return 0.5 if rank == slow_load else 0.0
        return {"forward": 0.001, "backward": 0.002}.get(action.kind, 0.0)

    pace = Pace(flat(LATENCY, bandwidth), seconds)
    report = Trainer(Settings(strategy, ranks), pace=pace).step()
    return [rank.seconds for rank in report.ranks]


@pytest.mark.parametrize(
    ("strategy", "ranks"), [("dp", 4), ("zero3", 4), ("zero2", 8), ("zero3", 1)]
)
def test_communication_is_latency_times_rounds_plus_bytes_over_bandwidth(strategy, ranks):
    report = Trainer(Settings(strategy, ranks)).step().ranks[0]
    for seconds in step(strategy, ranks):
        expected = report.rounds * LATENCY + report.sent_bytes / BANDWIDTH
        assert seconds.communication == pytest.approx(expected)
        assert seconds.compute == pytest.approx(5 * 0.003)
        assert seconds.waiting == pytest.approx(0)


def test_a_slow_data_rank_makes_all_others_wait_and_only_them():
    """The experiment that would refute it: let another rank be slow, and it must move along.

    (S70)
    """
    for slow in (0, 2):
        times = step("zero3", 4, slow_load=slow)
        waits = [seconds.waiting for seconds in times]
        assert waits == pytest.approx([0 if rank == slow else 0.5 for rank in range(4)])
        assert len({round(seconds.total, 9) for seconds in times}) == 1
        assert [t.communication for t in times] == [t.communication for t in step("zero3", 4)]


def test_a_slow_network_makes_communication_longer_and_nobody_wait():
    """The experiment that would refute it: with one rank there is no difference (S70)."""
    quick, slow = step("zero3", 4), step("zero3", 4, bandwidth=BANDWIDTH / 10)
    sent_seconds = 146_952 / BANDWIDTH
    for before, after in zip(quick, slow, strict=True):
        assert after.communication - before.communication == pytest.approx(9 * sent_seconds)
        assert after.waiting == pytest.approx(0)
    assert step("zero3", 1)[0].total == step("zero3", 1, bandwidth=1.0)[0].total


def test_without_a_pace_nothing_takes_time():
    assert Trainer(Settings("dp", 2)).step().ranks[0].seconds.total == 0
