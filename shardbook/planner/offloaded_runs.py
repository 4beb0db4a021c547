"""Published trainings with states on host or NVMe, put before the planner.

Layers, width, batch and model parallelism are the papers', as reported. Heads are ours, and so is
the shape of 32T, of which only the size is told. Where throughput is reported, the planner's is an
upper bound: it hides whatever the links allow. (S51, S71)
"""

from dataclasses import dataclass
from typing import Final

from shardbook.planner.layouts import Layout
from shardbook.planner.plan import Candidate, judge, model_flop
from shardbook.planner.presets import Cluster, Model, cluster_named, model_named

#: the part of a V100's peak that matrix products reach: ZeRO-Infinity counts with 70 of 125 TFLOP/s
FRACTION: Final = 70 / 125
#: forwards a step in the FLOP: one more is run again, and counted (not confirmed for every figure)
_FORWARDS: Final = 4
_SEQUENCE: Final = 1024
_OFFLOAD: Final = "Ren et al., ZeRO-Offload, ATC 2021, Table 2, as reported"
_INFINITY: Final = "Rajbhandari et al., ZeRO-Infinity, SC 2021, Table 1 and §8, as reported"


@dataclass(frozen=True, slots=True)
class OffloadedRun:
    """A training; ``reported``: FLOP/s a card, None if there is no figure to compare.

    ``judged``: the planner's candidate, or the reason why its ledger does not fit it.
    """

    name: str
    model: Model
    cluster: Cluster
    layout: Layout
    reported: float | None
    source: str
    judged: Candidate | str

    @property
    def computed(self) -> float | None:
        """FLOP/s a card by the planner; None if nothing fits."""
        if isinstance(self.judged, str):
            return None
        return model_flop(self.model, _FORWARDS) / self.judged.seconds / self.cluster.size


def offloaded_runs() -> tuple[OffloadedRun, ...]:
    """Return ZeRO-Offload's largest on one card and one DGX-2, and ZeRO-Infinity's by size (S51, S71)."""
    offload, infinity = "ZeRO-Offload", "ZeRO-Infinity"
    # One card has the host's whole link.
    alone = "dgx-2,cards=1,host_bandwidth=12GB/s"
    return (
        _run(f"{offload} 13B, one V100", alone, (65, 4096, 32), 1, 4, None),
        _run(f"{offload} 70B, one DGX-2", "dgx-2", (69, 9216, 72), 8, 8, None),
        _run(f"{infinity} 1T, one DGX-2", "dgx-2", (128, 25600, 256), 1, 7, None),
        _run(f"{infinity} 10T, 32 DGX-2", "dgx-2,nodes=32", (200, 65536, 256), 4, 8, 43e12),
        _run(f"{infinity} 20T, 32 DGX-2", "dgx-2,nodes=32", (205, 90112, 256), 8, 10, 34e12),
        _run(f"{infinity} 32T, 32 DGX-2", "dgx-2,nodes=32", (328, 90112, 256), 8, 8, None),
    )


def _run(
    name: str, text: str, shape: tuple[int, int, int], tensor: int, micro_batch: int,
    reported: float | None,
) -> OffloadedRun:  # fmt: skip
    """One pass of ``micro_batch`` sequences a replica is a step."""
    cluster = cluster_named(f"{text},fraction={FRACTION}")
    data, on_nvme = cluster.size // tensor, name.startswith("ZeRO-Infinity")
    layers, hidden, heads = shape
    model = model_named(
        f"layers={layers},hidden={hidden},heads={heads},vocabulary=50257,sequence={_SEQUENCE},"
        f"batch={_SEQUENCE * micro_batch * data}"
    )
    layout = Layout(
        tensor=tensor, data=data, stage=3 if on_nvme else 2, recompute="full",
        micro_batch=micro_batch, offload="nvme" if on_nvme else "host",
    )  # fmt: skip
    source = _INFINITY if on_nvme else _OFFLOAD
    judged = judge(model, cluster, layout)
    return OffloadedRun(name, model, cluster, layout, reported, source, judged)
