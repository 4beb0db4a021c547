"""Mistakes of the source documents that real runs settle: M12, M14, M20, M21, M29 and M33.

``claimed`` values and what a claim is about are the documents'; every other value is computed
here, most of them by one step of training. Documents: B is the lecture on ZeRO and FSDP, C the
illustrated notes, D the extension lesson.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from shardbook.collectives.groups import process_groups
from shardbook.corrections import Correction, Figure
from shardbook.errors import one_of
from shardbook.training.device import Name
from shardbook.training.programs import Options
from shardbook.training.replicas import example, local_update, numeric_gradient, replicated_update
from shardbook.training.settings import Settings
from shardbook.training.strategies import STRATEGIES
from shardbook.training.trainer import RankReport, Trainer

_RANKS: Final = 4


def _step(settings: Settings) -> RankReport:
    return Trainer(settings).step().ranks[0]


def _psi(settings: Settings, sent: int) -> float:
    """Bytes sent by a rank, in units of Ψ elements, without the ring's factor (N − 1)/N."""
    unit = Fraction(settings.padded_parameters * settings.dtype.itemsize)
    return float(sent / unit * Fraction(settings.ranks, settings.ranks - 1))


def _m12() -> Correction:
    data, weights = example()
    joint = local_update(data, weights)
    outputs = weights.shape[1]
    first = float(joint.gradient[0, 0])
    numeric = numeric_gradient(data, weights, 0, 0)
    ranks = 3
    alike = replicated_update(data, weights, ranks, weigh_rows=False)
    weighed = replicated_update(data, weights, ranks)
    wrong, right = (
        float(np.abs(update.gradient - joint.gradient).max()) for update in (alike, weighed)
    )
    return Correction(
        "M12",
        "D",
        "The gradient of mean(output²) is 2XᵀXW/B; replicas average their gradients, and the"
        " result is the joint batch's.",
        "The mean goes over rows and columns, but only the rows are divided by; and shards of"
        " unequal size are averaged as if they were equal.",
        (
            Figure("gradient, first element", "", -1.2658, first * outputs, first),
            Figure(
                f"error of the averaged gradient, {len(data)} rows on {ranks} ranks",
                "",
                0,
                wrong * outputs,
                right,
            ),
        ),
        (
            f"A central difference gives {numeric:.4f} for the first element; 2XᵀXW/B gives"
            f" {first * outputs:.4f}, {outputs} times (the outputs) as much.",
            f"{ranks} shards of {len(data)} rows are not equal: averaged alike they are off by"
            f" {wrong * outputs:.2f} (in D's scale), weighed by their rows by {right:.0e}.",
        ),
    )


def _m14() -> Correction:
    axes = {"TP": 2, "PP": 2, "DP": 2}
    groups = process_groups(axes)
    world = sum(len(group) for group in groups["DP"])
    # Ranks that differ in their DP coordinate only form a DP group: its size is the shards' number.
    shards = len(groups["DP"][0])
    return Correction(
        "M14",
        "D",
        "With data, tensor and pipeline parallelism every GPU sees a different data shard.",
        "What is true of data parallelism alone is carried over to all axes.",
        (Figure(f"data shards on {world} GPUs, TP 2, PP 2, DP 2", "", world, world, shards),),
        (
            f"Only the DP coordinate decides which rows a rank reads: {shards} shards.",
            f"Ranks {groups['TP'][0]} are one TP group and work on the same rows, as do the"
            f" stages {groups['PP'][0]} of one pipeline.",
        ),
    )


def _m20() -> Correction:
    def traffic(name: str) -> float:
        settings = Settings(strategy=name, ranks=_RANKS)
        return _psi(settings, _step(settings).sent_bytes)

    dp, one, two, three = (traffic(name) for name in ("dp", "zero1", "zero2", "zero3"))
    # 80 parameters, once as four layers and once as one
    deep = Settings(ranks=_RANKS, layers=(4, 4, 4, 4, 4))
    flat = Settings(ranks=_RANKS, layers=(9, 8))
    layers = len(deep.units)
    by_depth = [_step(settings) for settings in (deep, flat)]
    bytes_ratio = by_depth[0].sent_bytes / by_depth[1].sent_bytes
    rounds_ratio = by_depth[0].rounds / by_depth[1].rounds
    return Correction(
        "M20",
        "C",
        "ZeRO-1 needs no communication at all, ZeRO-2 one reduce-scatter more, a higher stage is"
        " always slower, and ZeRO-3's cost grows with layers × times.",
        "The gradients that data parallelism sends anyway are left out, and the number of"
        " messages is taken for their volume.",
        (
            Figure("ZeRO-1 sends, per rank and step", "Ψ", 0, one - dp, one),
            Figure("ZeRO-2 sends more than ZeRO-1", "Ψ", 1, 1, two - one),
            Figure("ZeRO-3 sends, per rank and step", "Ψ", 3, three, three),
            Figure(f"ZeRO-3's bytes, {layers} layers for 1", "×", layers, layers, bytes_ratio),
        ),
        (
            f"Counted: data parallelism {dp:g}Ψ, ZeRO-1 {one:g}Ψ, ZeRO-2 {two:g}Ψ, ZeRO-3"
            f" {three:g}Ψ (times (N − 1)/N).",
            f"{deep.parameters} parameters as {layers} layers send {bytes_ratio:g} times the bytes"
            f" that they send as one, in {rounds_ratio:g} times the rounds: only the latency grows.",
        ),
    )


def _m21() -> Correction:
    settings = Settings(strategy="zero3", ranks=_RANKS)
    device = Trainer(settings).ranks[0].device
    stored = [
        len(device.get(Name("weights", number))) / unit.padded
        for number, unit in enumerate(settings.units)
    ]
    layers = sum(share > 0 for share in stored)
    return Correction(
        "M21",
        "C",
        "In ZeRO-3 only GPU k holds layer k (figure 7 of the same notes cuts layer k over all).",
        "Sharding the parameters is taken for placing whole layers, as a pipeline does.",
        (
            Figure(f"layers of {len(stored)} that rank 0 stores a part of", "", 1, 1, layers),
            Figure("part of each layer that it stores", "", 1, 1, max(stored)),
        ),
        (
            f"After the start, rank 0 of {_RANKS} holds {max(stored):g} of each of {layers} layers.",
            "Every rank runs every layer on its own rows, and gathers a layer to do so.",
        ),
    )


def _m29() -> Correction:
    regathered = Settings(strategy="zero3", ranks=_RANKS)
    kept = Settings(strategy="zero3", ranks=_RANKS, options=Options(regather_last=False))
    ring = (_RANKS - 1) / _RANKS
    again, once = (_psi(s, _step(s).sent_bytes) * ring for s in (regathered, kept))
    return Correction(
        "M29",
        "B",
        "ZeRO-3 sends 2.25 (Ψ units, N = 4); the timeline of the same lecture gathers the last"
        " unit only once.",
        "The count follows ZeRO's 3Ψ, the timeline a program that keeps the last unit from"
        " forward to backward.",
        # In B's unit, 2Ψ bytes, which are Ψ elements of FP16.
        (Figure("ZeRO-3 as the timeline runs it", "Ψ elements", 2.25, again, once),),
        (
            f"Gathering the last unit again: {again:g}; keeping it: {once:.3f}.",
            "Both are programs: PyTorch gathers it again unless reshard_after_forward is off.",
        ),
    )


def _m33() -> Correction:
    runs = [Settings(strategy=name, ranks=_RANKS) for name in STRATEGIES]
    ledgers = {_step(settings).bytes_after_backward for settings in runs}
    alone = {_step(Settings(strategy=name, ranks=1)).bytes_after_backward for name in STRATEGIES}
    return Correction(
        "M33",
        "B",
        "The trainer is said to have four strategies, and five.",
        "ZeRO-1 is run twice, as drawn and as published; counted by what they store they are four.",
        (
            Figure("strategies run", "", 4, len(ledgers), len(runs)),
            Figure(f"different ledgers, N = {_RANKS}", "", 5, len(runs), len(ledgers)),
        ),
        (
            f"{len(runs)} runs have {len(ledgers)} different ledgers after backward: both kinds"
            " of ZeRO-1 store the same and send different amounts.",
            "On one rank, where nothing is sent, the two kinds of ZeRO-1 are the same run, and four"
            f" are left; all have {len(alone)} ledger: there is nothing to shard.",
        ),
    )


_CORRECTIONS: Final[dict[str, Callable[[], Correction]]] = {
    "M12": _m12,
    "M14": _m14,
    "M20": _m20,
    "M21": _m21,
    "M29": _m29,
    "M33": _m33,
}


def correction(id: str) -> Correction:
    """Return the correction of one id, such as ``M12``. Raises InputError for another."""
    return _CORRECTIONS[one_of("correction", id, _CORRECTIONS)]()


def corrections() -> tuple[Correction, ...]:
    """Return all corrections that real runs settle, in the order of their ids."""
    return tuple(make() for make in _CORRECTIONS.values())
