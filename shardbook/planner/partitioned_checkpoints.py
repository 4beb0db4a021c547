"""ZeRO's P_a: activation checkpoints cut over the tensor-parallel ranks, or moved to the CPU.

With tensor parallelism every rank of a group keeps the same checkpoint, a layer's whole input. P_a
(Rajbhandari et al., ZeRO, SC 2020, §6.1 and §8) keeps a part on each rank and gathers it for the
recomputation; P_a+cpu moves the parts to the CPU's memory and back.

Megatron's transformer block does six all-reduces of b·s·h numbers when it recomputes: two forward,
two again, two backward. An all-reduce is a reduce-scatter and an all-gather, so a rank sends
12 · (N − 1)/N · b·s·h, and the one all-gather of P_a adds (N − 1)/N · b·s·h: a twelfth.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shardbook.errors import one_of, whole
from shardbook.ledger.activations import HALF, Shape, zero_checkpoint_bytes
from shardbook.ledger.stages import MOST_RANKS

MODES: Final = ("replicated", "partitioned", "partitioned-cpu")

#: all-reduces of a block with recomputation: forward, forward again, backward, two each
ALL_REDUCES: Final = 6


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """B on one rank: kept on the card and on the host for all layers; sent and copied a block.

    ``copied_bytes`` cross PCIe, down in forward and up again in backward.
    """

    card_bytes: int
    host_bytes: int
    all_reduce_bytes: Fraction
    gather_bytes: Fraction
    copied_bytes: int

    @property
    def extra(self) -> Fraction:
        """What gathering adds to what is sent anyway; 0 if nothing is sent at all."""
        if not self.all_reduce_bytes:
            return Fraction(0)
        return self.gather_bytes / self.all_reduce_bytes


def checkpoints(model: Shape, tensor_parallel: int, mode: str = "partitioned") -> Checkpoints:
    """Return what one of `MODES` keeps, sends and copies, with a checkpoint every layer (S39).

    Half precision; a ring's bytes sent. A part is rounded up to a whole byte.

    Raises:
        InputError: an unknown mode, or a degree out of its range.
    """
    one_of("mode", mode, MODES)
    ranks = whole("tensor parallel", tensor_parallel, 1, MOST_RANKS)
    kept = zero_checkpoint_bytes(model, model_parallel=1 if mode == "replicated" else ranks)
    on_host = mode == "partitioned-cpu"
    once = Fraction(ranks - 1, ranks) * HALF * model.elements
    return Checkpoints(
        0 if on_host else kept,
        kept if on_host else 0,
        2 * ALL_REDUCES * once,
        Fraction(0) if mode == "replicated" else once,
        2 * -(-HALF * model.elements // ranks) if on_host else 0,
    )
