"""What FSDP2 (fully_shard) holds on one rank, in bytes by category, before and at its peak.

Compared with PyTorch's FSDPMemTracker, whose names of categories are used, for Llama-like models:
one unit a layer and a root unit, Adam in fp32, parameters sharded by rows. Where the ranks don't
divide the rows, every rank's parameters and gradients are padded to ⌈rows / ranks⌉ rows; Adam's
moments are not.

[Note: where the peak is] The closed form is the moment the loss's backward begins, while all
activations of the forward are there: two fp32 copies of the logits beside the gathered root and
the last layer, which is gathered ahead (with reshard), or beside all parameters (without). Every
step passes this moment, so the true peak is never lower. It is higher, and at another moment,
where the logits are small beside what one layer needs: checkpointing, a small vocabulary under a
wide FFN, or few tokens. One rank alone copies its parameters and gathers nothing ahead.
"""

from dataclasses import dataclass
from math import prod
from typing import Final

from shardbook.errors import InputError, whole

_FP32: Final = 4
_BF16: Final = 2
#: bytes of a token id, and of the loss's scalar that stays
_TOKEN: Final = 8
_LOSS: Final = 4

SHARDED_PARAM: Final = "Sharded Param"
SHARDED_GRAD: Final = "Sharded Grad"
UNSHARDED_PARAM: Final = "Unsharded Param"
ALL_GATHER: Final = "All Gather"
ACTIVATION: Final = "Activation"
TEMP: Final = "Temp"
OPT_STATE: Final = "OptState"
INPUTS: Final = "Inputs"

#: bytes by category; categories of 0 bytes are left out
Bytes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Llama:
    """A Llama-like model: gated FFN of three matrices, two RMSNorms a layer, no tied weights."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "kv_heads", "ffn", "vocabulary"):
            whole(name, getattr(self, name), 1, 10**7)
        if self.width % self.heads:
            raise InputError("heads", self.heads, f"give a divisor of the width, {self.width}")

    @property
    def layer(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of a layer's nine tensors."""
        width, kv_width = self.width, self.width // self.heads * self.kv_heads
        square, narrow = (width, width), (kv_width, width)
        gated = ((self.ffn, width), (width, self.ffn), (self.ffn, width))
        return (square, narrow, narrow, square, *gated, (width,), (width,))

    @property
    def root(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the embedding, the output and the last norm."""
        return ((self.vocabulary, self.width), (self.vocabulary, self.width), (self.width,))

    @property
    def parameters(self) -> int:
        """Ψ."""
        return elements(self.root) + self.layers * elements(self.layer)

    @property
    def tensors(self) -> int:
        """The number of parameter tensors."""
        return len(self.root) + self.layers * len(self.layer)


#: the two models that were measured
TINY: Final = Llama(width=256, layers=4, heads=8, kv_heads=4, ffn=704, vocabulary=1024)
LLAMA_1B: Final = Llama(width=2048, layers=16, heads=32, kv_heads=8, ffn=8192, vocabulary=128_256)


@dataclass(frozen=True, slots=True)
class Fsdp2Memory:
    """Bytes by category between steps, after the forward, at the peak and after the backward."""

    between_steps: Bytes
    after_forward: Bytes
    peak: Bytes
    after_backward: Bytes


def elements(shapes: tuple[tuple[int, ...], ...]) -> int:
    """The number of elements of tensors of these shapes."""
    return sum(prod(shape) for shape in shapes)


def sharded_elements(shapes: tuple[tuple[int, ...], ...], ranks: int, rank: int = 0) -> int:
    """What ``rank`` stores of tensors cut by rows (dimension 0), as `torch.chunk` cuts them.

    Every rank gets ⌈rows / ranks⌉ rows while there are any; the last ranks get fewer or none.
    """
    total = 0
    for shape in shapes:
        rows, per_row = shape[0], prod(shape[1:])
        chunk = -(-rows // ranks)
        total += min(chunk, max(0, rows - rank * chunk)) * per_row
    return total


def gathered_elements(shapes: tuple[tuple[int, ...], ...], ranks: int) -> int:
    """What gathering takes: every rank's rows padded to ⌈rows / ranks⌉."""
    return sum(-(-shape[0] // ranks) * ranks * prod(shape[1:]) for shape in shapes)


def fsdp2_memory(
    model: Llama,
    ranks: int,
    *,
    activations: int,
    sequence: int = 2048,
    batch: int = 1,
    reshard: bool = True,
    mixed: bool = True,
    rank: int = 0,
) -> Fsdp2Memory:
    """Predict the bytes on ``rank`` of one step of ``batch`` × ``sequence`` tokens.

    ``activations``: bytes kept from the forward, measured or from the ledger. ``reshard``: layers
    are freed after their forward. ``mixed``: bf16 parameters and activations (else fp32). The
    peak is a closed form: see [Note: where the peak is].
    """
    whole("ranks", ranks, 1, 2**20)
    whole("rank", rank, 0, ranks - 1)
    whole("activations", activations, 0, 2**63)
    tokens = whole("sequence", sequence, 1, 2**24) * whole("batch", batch, 1, 2**20)
    width = _BF16 if mixed else _FP32
    root, layer = gathered_elements(model.root, ranks), gathered_elements(model.layer, ranks)
    shard = (root + model.layers * layer) // ranks
    moments = sharded_elements(model.root, ranks, rank)
    moments += model.layers * sharded_elements(model.layer, ranks, rank)
    held = {
        SHARDED_PARAM: _FP32 * shard,
        OPT_STATE: 2 * _FP32 * moments + _FP32 * model.tensors,
        INPUTS: 2 * _TOKEN * tokens,
    }
    kept = 0 if reshard else width * (root + model.layers * layer)
    forward = held | {UNSHARDED_PARAM: kept, ACTIVATION: activations}
    ahead = width * layer if ranks > 1 else 0
    gathered = {UNSHARDED_PARAM: width * root, ALL_GATHER: ahead} if reshard else {}
    logits = 2 * _FP32 * tokens * model.vocabulary
    backward = held | {SHARDED_GRAD: _FP32 * shard, ACTIVATION: _LOSS}
    return Fsdp2Memory(
        held, _there(forward), _there(forward | gathered | {TEMP: logits}), _there(backward)
    )


def _there(held: Bytes) -> Bytes:
    return {category: size for category, size in held.items() if size}
