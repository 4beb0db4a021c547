"""States on host and NVMe: published runs fit by the planner's ledger; what leaves the card (S51)."""

import pytest

from shardbook.planner.layouts import Layout
from shardbook.planner.memory import peak_memory
from shardbook.planner.offloaded_runs import offloaded_runs
from shardbook.planner.plan import Candidate, judge, plan
from shardbook.planner.presets import MACHINES, cluster_named, model_named

RUNS = {each.name: each for each in offloaded_runs()}

#: parameters in billions and TFLOP/s a card, as reported (None: only that it ran)
REPORTED = {
    "ZeRO-Offload 13B, one V100": (13, None),
    "ZeRO-Offload 70B, one DGX-2": (70, None),
    "ZeRO-Infinity 1T, one DGX-2": (1000, None),
    "ZeRO-Infinity 10T, 32 DGX-2": (10_000, 43),
    "ZeRO-Infinity 20T, 32 DGX-2": (20_000, 34),
    "ZeRO-Infinity 32T, 32 DGX-2": (32_000, None),
}


def test_every_published_run_is_listed():
    assert list(RUNS) == list(REPORTED)


@pytest.mark.parametrize("name", list(REPORTED))
def test_a_published_run_fits_and_its_states_lie_where_reported(name):
    run, (billions, speed) = RUNS[name], REPORTED[name]
    assert isinstance(run.judged, Candidate), run.judged
    assert run.model.parameters == pytest.approx(billions * 1e9, rel=0.04)
    peak, cluster = run.judged.peak, run.cluster
    if "Offload" in name:
        # gradients and optimizer states: 2 + 12 bytes (ZeRO-Offload, ATC 2021, §4)
        held = peak.host_bytes * cluster.size
        assert held == pytest.approx(14 * run.model.parameters, rel=0.02)
        assert peak.nvme_bytes == 0
    else:
        held = peak.nvme_bytes * cluster.size
        assert held == pytest.approx(16 * run.model.parameters, rel=0.02)
        # activation checkpoints in the CPU's memory (ZeRO-Infinity, SC 2021, §5.1.2)
        assert 0 < peak.host_bytes * cluster.cards < cluster.host_memory
    if speed is None:
        assert run.reported is None
    else:
        # an upper bound, but of the right size
        assert speed == run.reported / 1e12
        assert 1 < run.computed / run.reported < 1.75


def test_without_offload_one_v100_holds_a_tenth():
    """PyTorch's data parallelism reaches 1.4B where ZeRO-Offload reaches 13B, as reported."""
    small = model_named("layers=27,hidden=2048,heads=16,sequence=1024,batch=8192,vocabulary=50257")
    large = RUNS["ZeRO-Offload 13B, one V100"].model
    one = cluster_named("dgx-2,cards=1")
    assert isinstance(judge(small, one, Layout(recompute="full")), Candidate)
    assert "does not fit the card" in judge(large, one, Layout(recompute="full"))


def test_seventy_billion_on_four_cards_needs_nvme():
    """512 GB of host memory has no room for 70B's states (M15); 2 TB of NVMe has."""
    model = model_named("llama3-70b")
    text = "h100-80,cards=4,host_memory=512GB"
    full = {"data": 4, "stage": 3, "recompute": "full"}
    without = cluster_named(text)
    reason = judge(model, without, Layout(**full, offload="host"))
    assert reason == "offloaded states do not fit the host"
    assert plan(model, without).ranked == ()
    assert judge(model, without, Layout(**full, offload="nvme")) == "the nodes have no NVMe"
    found = judge(model, cluster_named(f"{text},nvme_memory=2TB"), Layout(**full, offload="nvme"))
    assert isinstance(found, Candidate)
    assert found.peak.nvme_bytes * 4 == pytest.approx(16 * model.parameters, rel=0.01)
    # What is at hand on the card is one matrix, twice for prefetching, and its gradient.
    pieces = dict(found.peak.pieces)
    assert pieces["gathered_layers"] == 2 * 2 * model.hidden * model.feed_forward
    assert pieces["layer_gradient"] == 2 * model.hidden * model.feed_forward


def test_offload_at_each_stage_moves_what_its_paper_moves():
    model = model_named("llama3-8b")
    held = {
        stage: peak_memory(model, Layout(data=8, stage=stage, offload="host"))
        for stage in (1, 2, 3)
    }  # fmt: skip
    psi = model.parameters
    assert held[1].host_bytes * 8 == pytest.approx(12 * psi, rel=1e-6)
    assert held[2].host_bytes * 8 == pytest.approx(14 * psi, rel=1e-6)
    assert held[3].host_bytes * 8 == pytest.approx(16 * psi, rel=1e-6)
    assert dict(held[1].pieces)["gradients"] == 2 * psi
    assert dict(held[2].pieces)["weights"] == 2 * psi
    assert dict(held[3].pieces)["weights"] == 0


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (Layout(data=16, offload="host"), "offload needs sharded optimizer states"),
        (Layout(data=16, stage=2, offload="nvme"), "offload to NVMe needs stage 3"),
    ],
)
def test_offload_that_makes_no_sense_is_refused(layout, reason):
    assert judge(model_named("llama3-8b"), MACHINES["dgx-2"], layout) == reason


def test_slower_tiers_take_longer():
    model = model_named("llama3-8b,batch=1048576")
    seconds = []
    for text in ("host_bandwidth=16GB/s", "host_bandwidth=2GB/s", "host_bandwidth=200MB/s"):
        cluster = cluster_named(f"h100-80,{text},nvme_memory=10TB")
        layouts = [Layout(data=8, stage=3, recompute="full", offload=at) for at in ("host", "nvme")]
        seconds.append([judge(model, cluster, layout).seconds for layout in layouts])
    assert seconds[0][0] < seconds[1][0] < seconds[2][0]
    assert all(drive > host for host, drive in seconds)
