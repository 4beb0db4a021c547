"""Adam on the CPU: how long an update takes, from the times that a paper measured.

Ren et al., ZeRO-Offload, USENIX ATC 2021, §5.1 and table 4, as reported for 10 billion parameters on
one DGX-2 (two Xeon 8168, one V100).
"""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import real, whole
from shardbook.ledger.stages import MOST_PARAMETERS, MOST_RANKS

#: what an update moves through memory, B a parameter: master weight, momentum, variance and
#: gradient are read (4 + 4 + 4 + 2), the first three and the half-precision weight written
TOUCHED_BYTES: Final = 28


@dataclass(frozen=True, slots=True)
class AdamTime:
    """A measured update of all ``parameters``: time in s, as reported."""

    title: str
    parameters: int
    seconds: float

    @property
    def updates_per_second(self) -> float:
        """Parameters updated in a second."""
        return self.parameters / self.seconds

    @property
    def memory_bandwidth(self) -> float:
        """B/s through memory if each parameter moves `TOUCHED_BYTES`, derived."""
        return TOUCHED_BYTES * self.updates_per_second


CPU_ADAM: Final = AdamTime("ZeRO-Offload's CPU-Adam", 10**10, 2.57)
PYTORCH_CPU: Final = AdamTime("PyTorch's Adam on the CPU", 10**10, 14.76)
PYTORCH_GPU: Final = AdamTime("PyTorch's Adam on the GPU", 10**10, 1.00)
#: the rows of the table
MEASURED: Final = (CPU_ADAM, PYTORCH_CPU, PYTORCH_GPU)


def update_seconds(parameters: int, nodes: int = 1, measured: AdamTime = CPU_ADAM) -> float:
    """Return the time in s in which ``nodes`` hosts update ``parameters``, shared evenly (S46).

    Linear in the parameters: at this size an update is bound by memory.

    Raises:
        InputError: a number out of its range.
    """
    parameters = whole("parameters", parameters, 1, MOST_PARAMETERS)
    hosts = whole("nodes", nodes, 1, MOST_RANKS)
    return parameters / hosts / measured.updates_per_second


def swap_seconds(stored_bytes: int, bandwidth: float) -> float:
    """Return the time in s to read ``stored_bytes`` of NVMe once and write them back (S15).

    ``bandwidth``: B/s of all drives of the node, one way at a time.

    Raises:
        InputError: a number out of its range.
    """
    size = whole("stored bytes", stored_bytes, 0, 10**18)
    return 2 * size / real("bandwidth", bandwidth, 1, 1e18, "B/s")


def tokens_for_slowdown(extra: float, slowdown: float, parameters: int, flops: float) -> float:
    """Return the tokens a step at which ``extra`` seconds make it ``slowdown`` slower (S15).

    A token costs 8 FLOP a parameter (forward, backward, recomputation); ``flops``: FLOP/s of all
    cards together; a ``slowdown`` of 0.5 is half as much time again.

    Raises:
        InputError: a number out of its range.
    """
    seconds = real("extra", extra, 0, 1e12, "s") / real("slowdown", slowdown, 1e-6, 1e6)
    parameters = whole("parameters", parameters, 1, MOST_PARAMETERS)
    return seconds * real("FLOP/s", flops, 1, 1e24) / (8 * parameters)
