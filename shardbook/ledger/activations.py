"""Activations: what backward needs from forward, by layer, for a transformer.

They depend on the batch, not on the recipe, and no ZeRO stage shards them.
"""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, one_of, whole

#: bytes of an activation in FP16 or BF16
HALF: Final = 2

RECOMPUTE: Final = ("none", "selective", "full")

_MOST: Final = 10**9


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformer and its micro-batch: b sequences of s tokens, width h, layers, heads a."""

    batch: int
    sequence: int
    hidden: int
    layers: int
    heads: int

    @property
    def elements(self) -> int:
        """Elements of one s × b × h tensor."""
        return self.batch * self.sequence * self.hidden


def shape(batch: int, sequence: int, hidden: int, layers: int, heads: int = 1) -> Shape:
    """Check the sizes (whole, 1…10⁹, heads dividing hidden) and return the shape.

    Raises:
        InputError: a size is not allowed.
    """
    sizes = {
        "batch": batch,
        "sequence": sequence,
        "hidden": hidden,
        "layers": layers,
        "heads": heads,
    }
    checked = Shape(**{name: whole(name, size, 1, _MOST) for name, size in sizes.items()})
    if checked.hidden % checked.heads:
        raise InputError("heads", heads, f"give a number that divides hidden ({checked.hidden:,})")
    return checked


def lower_bound_layer_bytes(model: Shape, tensors: int = 4) -> int:
    """Bytes (B) of one layer if it kept only ``tensors`` s × b × h tensors in half precision (S8).

    A lower bound: a real layer keeps many more (see `layer_bytes`).

    Raises:
        InputError: tensors is not a whole number in 1…1,000.
    """
    return whole("tensors", tensors, 1, 1000) * HALF * model.elements


def layer_bytes(
    model: Shape,
    *,
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
) -> int:
    """Bytes (B) that one transformer layer keeps on each tensor-parallel rank, in half precision.

    s·b·h·(10 + 24/t + 5·a·s/(h·t)); with sequence parallelism everything is over t. Recomputation:
    ``selective`` drops the attention matrix, 5·a·s/h; ``full`` keeps only the layer's input, 2·s·b·h
    (Korthikanti et al., MLSys 2023, §4, equations 1 to 6 and Table 2).

    Raises:
        InputError: tensor_parallel does not divide the heads, or recompute is unknown.
    """
    one_of("recompute", recompute, RECOMPUTE)
    parallel = whole("tensor parallel", tensor_parallel, 1, _MOST)
    if model.heads % parallel:
        allowed = f"give a number that divides the heads ({model.heads:,})"
        raise InputError("tensor parallel", tensor_parallel, allowed)
    if recompute == "full":
        # The kept input is the all-reduced tensor: without sequence parallelism each rank has it.
        return HALF * model.elements // (parallel if sequence_parallel else 1)
    split = 24 * model.elements // parallel
    whole_or_split = 10 * model.elements // (parallel if sequence_parallel else 1)
    matrix = 5 * model.heads * model.sequence**2 * model.batch // parallel
    return split + whole_or_split + (matrix if recompute == "none" else 0)


def zero_activation_elements(model: Shape) -> int:
    """Elements of all activations by ZeRO's estimate, 12 · hidden · batch · sequence · layers (§3.2).

    (S13)
    """
    return 12 * model.elements * model.layers


def zero_checkpoint_bytes(model: Shape, interval: int = 1, model_parallel: int = 1) -> int:
    """Bytes (B) of the checkpoints on one rank, 2 · batch · sequence · hidden · ⌈layers/interval⌉.

    ZeRO's P_a cuts them over the ``model_parallel`` ranks, which otherwise each hold all (§6.1);
    rounded up to a whole byte.

    (S13)

    Raises:
        InputError: interval or model_parallel is not a whole positive number.
    """
    interval = whole("interval", interval, 1, _MOST)
    parallel = whole("model parallel", model_parallel, 1, _MOST)
    return -(-HALF * model.elements * -(-model.layers // interval) // parallel)
