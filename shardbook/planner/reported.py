"""What the papers on ZeRO, offload and FSDP report, held against the ledger and plain arithmetic.

Each check puts a reported value beside one that follows from others: card memory, bytes a
parameter, peak FLOP/s, or the engine's own timeline. A check that fails is no mistake of the paper
by itself: it tells that two of its figures belong to different runs. (S52)
"""

from dataclasses import dataclass
from typing import Final

from shardbook.ledger.stages import bytes_per_rank
from shardbook.ledger.tiers import DGX2, held, largest_by_tier
from shardbook.numbers.units import GB
from shardbook.planner.cpu_adam import CPU_ADAM
from shardbook.planner.partitioned_reads import PCIE
from shardbook.schedules.offload import OffloadStep, step_seconds

ABOUT: Final = "about"
AT_LEAST: Final = "at least"
AT_MOST: Final = "at most"
#: how far apart two values may be and still agree: papers round, and say "nearly"
TOLERANCE: Final = 0.1

#: FLOP/s in half precision, by the makers' data sheets
V100: Final = 125e12
A100: Final = 312e12
#: FLOP/s that the timeline assumes: half of the V100's
_REACHED: Final = V100 / 2
_B: Final = 10**9
_T: Final = 10**12
_TERA: Final = 1e12
_PETA: Final = 1e15


@dataclass(frozen=True, slots=True)
class Check:
    """A ``claim`` that ``computed`` is ``relation`` (about, at least, at most) ``reported``."""

    claim: str
    source: str
    unit: str
    relation: str
    reported: float
    computed: float
    how: str

    @property
    def holds(self) -> bool:
        """Whether the two agree to a tenth, or lie on the claimed side of each other."""
        if self.relation == ABOUT:
            return abs(self.computed / self.reported - 1) <= TOLERANCE
        if self.relation == AT_LEAST:
            return self.computed >= self.reported
        return self.computed <= self.reported


def lecture_step(micro_batch: int = 8, *, pipelined: bool = True) -> OffloadStep:
    """Return ZeRO-Offload's step of a 10B model as the source lecture assumes it (S45, S52).

    ``micro_batch`` sequences of 1,024 tokens, 8 FLOP a parameter and token (the forward is run
    again) at half of a V100's peak, gradients and weights over 12 GB/s, CPU-Adam's time as
    reported. One layer is 1/1,000 of the model, so that what a pipeline leaves open is small.
    """
    parameters = CPU_ADAM.parameters
    forward = 2 * parameters * micro_batch * 1024 / _REACHED
    copy = 2 * parameters / PCIE
    return OffloadStep(
        forward, 3 * forward, copy, CPU_ADAM.seconds, copy, 1000, 1000, pipelined=pipelined
    )


def checks() -> tuple[Check, ...]:
    """Return every check, from sizes to speeds (S52)."""
    return (*_sizes(), *_speeds(), *_timelines())


def _sizes() -> tuple[Check, ...]:
    infinity, zero, offload = "ZeRO-Infinity, SC 2021", "ZeRO, SC 2020", "ZeRO-Offload, ATC 2021"
    v100s = 512
    on_nvme = held("infinity-nvme", 32 * _T, DGX2, nodes=32)
    alone = held("infinity-nvme", _T, DGX2)
    with_stage_2 = bytes_per_rank(170 * _B // 16, 400 // 16, 2).fullest_rank_bytes
    split = largest_by_tier("zero-offload", DGX2, model_parallel=16)
    return (
        Check(
            "A trillion parameters need 800 V100, or 320 A100: the same memory",
            infinity, "TB", ABOUT, 800 * 32 / 1000, 320 * 80 / 1000,
            "from 320 cards of 80 GB, against 800 of 32 GB",
        ),
        Check(
            "… which holds a trillion parameters",
            infinity, "TB", AT_MOST, 800 * 32 / 1000, 20 * _T / _TERA,
            "at 20 B a parameter; what is left is for activations",
        ),
        Check(
            "A trillion parameters can be fine-tuned on one DGX-2",
            infinity, "TB", AT_MOST, DGX2.nvme_bytes / _TERA, alone.nvme / _TERA,
            "at 20 B a parameter, all on NVMe",
        ),
        Check(
            "32 trillion parameters on 512 V100, 32 nodes",
            infinity, "TB", AT_MOST, DGX2.nvme_bytes / _TERA, on_nvme.nvme / _TERA,
            "at 20 B a parameter over 32 nodes' NVMe",
        ),
        Check(
            "… which is 50 times the 650 billion of 3D parallelism",
            infinity, "×", ABOUT, 50, 32 * _T / (650 * _B),
            "one over the other",
        ),
        Check(
            "… and 650 billion fit the memory of 512 V100",
            infinity, "TB", AT_MOST, v100s * 32 / 1000, 650 * _B * 20 / _TERA,
            "at 20 B a parameter",
        ),
        Check(
            "One DGX-2 trains 700 times what PyTorch trains",
            infinity, "×", ABOUT, 700, _T / (1.4 * _B),
            "a trillion over 1.4 billion",
        ),
        Check(
            "One V100 trains 13 billion parameters, ten times PyTorch's 1.4 billion",
            offload, "×", ABOUT, 10, 13 / 1.4,
            "one over the other",
        ),
        Check(
            "70 billion on one DGX-2 with model parallelism",
            offload, "billion", AT_LEAST, 70, split.parameters / _B,
            "the largest model whose states fit; the CPU's memory is full first",
        ),
        Check(
            "170 billion on 400 V100",
            zero, "GB", AT_MOST, 32, with_stage_2 / GB,
            "stage 2, model parallel 16 (as reported), so 25 replicas: states of a card",
        ),
        Check(
            "… which is 8 times the baseline's 20 billion (as reported)",
            zero, "×", ABOUT, 8, 170 / 20,
            "one over the other",
        ),
    )  # fmt: skip


def _speeds() -> tuple[Check, ...]:
    infinity, zero, fsdp = "ZeRO-Infinity, SC 2021", "ZeRO, SC 2020", "FSDP, VLDB 2023"
    peak = 512 * V100 / _PETA
    cards = "TFLOP/s a card as reported, times 512"
    return (
        Check(
            "More than 25 PFLOP/s on 512 V100 is 40 % of their peak",
            infinity, "%", ABOUT, 40, 100 * 25 / peak,
            "from 25 over 512 times 125 TFLOP/s",
        ),
        Check(
            "… and so fast are 10 trillion parameters (43 TFLOP/s a card)",
            infinity, "PFLOP/s", AT_LEAST, 25, 43 * 512 / 1000,
            f"from 43 {cards}: the 25 are reached with fewer parameters",
        ),
        Check(
            "… and 20 trillion (34 TFLOP/s a card)",
            infinity, "PFLOP/s", AT_LEAST, 25, 34 * 512 / 1000,
            f"from 34 {cards}: fewer tokens fit, so each byte read serves fewer operations",
        ),
        Check(
            "15 PFLOP/s on 400 V100 is more than 30 % of their peak",
            zero, "%", AT_LEAST, 30, 100 * 15 * _PETA / (400 * V100),
            "from 15 over 400 times 125 TFLOP/s: 30 to the digit, so the 15 are rounded down",
        ),
        Check(
            "… 10 times the baseline, which reaches less than 5 % (as reported)",
            zero, "%", AT_MOST, 5, 100 * 15 * _PETA / 10 / (400 * V100),
            "a tenth of the same",
        ),
        Check(
            "173 TFLOP/s on an A100 is 55 %",
            fsdp, "%", ABOUT, 55, 100 * 173 * _TERA / A100,
            "from 173 over 312",
        ),
        Check(
            "186 TFLOP/s on an A100 is 60 %",
            fsdp, "%", ABOUT, 60, 100 * 186 * _TERA / A100,
            "from 186 over 312",
        ),
    )  # fmt: skip


def _timelines() -> tuple[Check, ...]:
    offload = "ZeRO-Offload, ATC 2021"
    step = lecture_step()
    serial = step_seconds(lecture_step(pipelined=False))
    late = step_seconds(step, delayed=True)
    useful = 6 * CPU_ADAM.parameters * 8 * 1024 / _TERA
    return (
        Check(
            "More than 40 TFLOP/s with 10 billion parameters on one V100",
            offload, "TFLOP/s", AT_LEAST, 40, useful / late,
            "at 6 FLOP a parameter and token over our timeline with a delayed update",
        ),
        Check(
            "A delayed update makes micro-batches of 8 at least 1.12 times as fast",
            offload, "×", AT_LEAST, 1.12, step_seconds(step) / late,
            "our timeline with pipelined uploads",
        ),
        Check(
            "… and at most 1.59 times",
            offload, "×", AT_MOST, 1.59, serial / late,
            "our timeline without pipelining",
        ),
    )  # fmt: skip
