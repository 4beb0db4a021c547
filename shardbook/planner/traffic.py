"""What one card sends in a step of a layout, in bytes, by kind of splitting.

Rings: a reduce-scatter or an all-gather among N ranks sends (N − 1)/N of the vector, and the
vectors are half precision. Bytes are rounded to whole ones.
"""

from fractions import Fraction

from shardbook.planner.layouts import Layout, layers_of, micro_batches
from shardbook.planner.memory import split_parameters
from shardbook.planner.presets import Model

_HALF = 2


def sent_bytes(model: Model, layout: Layout) -> dict[str, int]:
    """Return tensor, context, expert, pipeline and data → bytes (B) that a card sends in a step.

    The card is of a middle pipeline rank. Data parallelism sends 2Ψ at stages 0 and 1, at stage 2
    Ψ once a micro-batch and Ψ once, at stage 3 3Ψ a micro-batch (ZeRO, SC 2020, §7).
    """
    count = micro_batches(model, layout)
    layers = max(layers_of(model, layout)) * layout.chunks
    passes = 3 if layout.recompute == "full" else 2
    tokens = Fraction(layout.micro_batch * model.sequence, layout.context)
    size = _HALF * tokens * model.hidden
    keys = 2 * size * model.kv_heads / model.heads / layout.tensor
    own = size / layout.tensor
    dense, experts = split_parameters(model, layout)
    weights = _HALF * (
        dense * _share(layout.replicas) + experts * _share(layout.replicas // layout.expert)
    )
    vectors = {0: 2, 1: 2, 2: count + 1, 3: 3 * count}[layout.stage]
    sent = {
        "tensor": count * layers * passes * 4 * size * _share(layout.tensor),
        "context": count * layers * _moves(passes, layout.context) * keys,
        "expert": count * layers * passes * 2 * own * model.active * _share(layout.expert),
        "pipeline": 2 * count * layout.chunks * own if layout.pipeline > 1 else Fraction(0),
        "data": vectors * weights,
    }
    return {name: round(value) for name, value in sent.items()}


def _moves(passes: int, ranks: int) -> int:
    """Moves of a rank's keys and values: once a pass, and their gradients as far as home.

    As `shardbook.collectives.context.ring_attention_bytes` counts them.
    """
    return passes * (ranks - 1) + ranks if ranks > 1 else 0


def _share(ranks: int) -> Fraction:
    return Fraction(ranks - 1, ranks)
