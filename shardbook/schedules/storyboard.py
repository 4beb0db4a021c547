"""A step of each ZeRO stage, action by action, with what one rank holds meanwhile.

Source: Rajbhandari et al., "ZeRO", SC 2020, section 5; fully_shard's hooks for stage 3. Bytes a
parameter: fp16 weights 2, fp16 gradients 2, fp32 master weights and Adam's moments 12.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, whole
from shardbook.schedules.fsdp import PARAMETERS, Policy, Unit, fsdp_plan

WEIGHTS: Final = "weights"
GRADIENTS: Final = "gradients"
OPTIMIZER: Final = "optimizer"
ACTIVATIONS: Final = "activations"

_HALF: Final = 2
_MASTER_AND_MOMENTS: Final = 12
_PLAIN: Final = Policy()


#: an action's name, and what it takes and what it frees: (category, bytes)
Move = tuple[str, tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Frame:
    """One action and the bytes by category that the rank holds while it runs."""

    action: str
    held: dict[str, int]

    def __str__(self) -> str:
        sizes = ", ".join(f"{category} {size:,} B" for category, size in self.held.items())
        return f"{self.action}: {sizes}"


def storyboard(
    stage: int, units: Sequence[int], ranks: int, activations: int = 0
) -> tuple[Frame, ...]:
    """Follow one rank through a step of ZeRO ``stage`` 0 (data parallel) to 3 (S24).

    ``units``: parameters of each unit, padded to a multiple of the ranks. ``activations``: bytes
    each unit keeps from its forward to its backward, at any stage. Stage 1 is the lectures' one:
    it all-reduces gradients. Actions: AG all-gather, F, B, AR all-reduce, RS reduce-scatter.
    """
    whole("stage", stage, 0, 3)
    whole("ranks", ranks, 1, 2**20)
    whole("activations", activations, 0, 2**63)
    if not 1 <= len(units) <= 1000:
        raise InputError("units", len(units), "give from 1 to 1,000 units")
    shards = [-(-whole("units", size, 1, 10**15) // ranks) for size in units]
    parts = sum(shards)
    held = {
        WEIGHTS: _HALF * parts * (1 if stage == 3 else ranks),
        GRADIENTS: 0,
        OPTIMIZER: _MASTER_AND_MOMENTS * parts * (ranks if stage == 0 else 1),
        ACTIVATIONS: 0,
    }
    frames = []
    for action, takes, frees in _moves(stage, shards, ranks, activations):
        for category, size in takes:
            held[category] += size
        frames.append(Frame(action, dict(held)))
        for category, size in frees:
            held[category] -= size
    return tuple(frames)


def _moves(stage: int, shards: list[int], ranks: int, kept: int) -> Iterator[Move]:
    gather = stage == 3
    for unit, shard in enumerate(shards):
        full = (WEIGHTS, _HALF * shard * ranks)
        if gather:
            yield f"AG{unit}", (full,), ()
        yield f"F{unit}", ((ACTIVATIONS, kept),), (full,) if gather else ()
    for unit, shard in reversed(list(enumerate(shards))):
        full = (WEIGHTS, _HALF * shard * ranks)
        gradient, part = (GRADIENTS, _HALF * shard * ranks), (GRADIENTS, _HALF * shard)
        if gather:
            yield f"AG{unit}", (full,), ()
        yield f"B{unit}", (gradient,), ((ACTIVATIONS, kept), *((full,) if gather else ()))
        if stage >= 2:
            yield f"RS{unit}", (part,), (gradient,)
        else:
            yield f"AR{unit}", (), ()
    left = _HALF * sum(shards) * (1 if stage >= 2 else ranks)
    yield "Adam", (), ((GRADIENTS, left),)
    if stage in (1, 2):
        for unit in range(len(shards)):
            yield f"AG{unit}", (), ()


def lifecycle(unit: int, units: int, policy: Policy = _PLAIN) -> tuple[str, ...]:
    """What fully_shard's hooks do to one of ``units`` units, in the order of issue (S28).

    The pre-forward and pre-backward hooks gather it, or a neighbour's hook does ahead of them;
    the action behind which it is freed is marked. The post-backward hook reduce-scatters.
    """
    whole("unit", unit, 0, whole("units", units, 1, 10_000) - 1)
    told = []
    for action in fsdp_plan((Unit(1, 1, 1, 1),) * units, policy).actions:
        if action.name != action.name.rstrip("0123456789") + str(unit):
            continue
        if any(buffer.pool == PARAMETERS for buffer in action.takes):
            told.append(f"{action.name} → unsharded")
        elif any(buffer.pool == PARAMETERS for buffer in action.releases):
            told.append(f"{action.name} → sharded")
        else:
            told.append(action.name)
    return tuple(told)
