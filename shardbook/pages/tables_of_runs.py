"""Simulations without an explorer that run on arrays, as tables of plain values.

A row maps a column to a value; sizes are in B. A docstring's first line is the table's caption.
"""

from typing import Any, Final

import numpy as np

from shardbook.collectives.hierarchical import hybrid_reduce
from shardbook.collectives.run import run_on_vectors
from shardbook.training.delayed import train_delayed
from shardbook.training.faults import FAULTS, HANGS, Fault
from shardbook.training.flat import flat_units
from shardbook.training.incident import investigate
from shardbook.training.replicas import example, replicated_update
from shardbook.training.settings import LAYERS, Settings
from shardbook.training.splitting.tensor_parallel import linear
from shardbook.training.strategies import STRATEGIES
from shardbook.training.trainer import Trainer

Rows = list[dict[str, Any]]

_STEPS: Final = 10


def five_strategies() -> Rows:
    """Ten steps of each strategy on four devices (S16, S18, S20, S21)."""
    rows = []
    for name in STRATEGIES:
        trainer = Trainer(Settings(name, 4))
        first = trainer.step().ranks[0]
        last = trainer.run(_STEPS - 1)[-1]
        rows.append(
            {
                "strategy": name,
                "after_backward_bytes": first.bytes_after_backward,
                "peak_bytes": first.peak_bytes,
                "peak_at": first.peak_at,
                "sent_bytes": first.sent_bytes,
                "rounds": first.rounds,
                "loss": last.loss,
                "weights_sha256": trainer.weights_sha256(),
            }
        )
    return rows


def padding() -> Rows:
    """The same network on one to five devices, and what padding adds (S22)."""
    rows = []
    for ranks in range(1, 6):
        units = flat_units(LAYERS, ranks)
        rows.append(
            {
                "ranks": ranks,
                "parameters": sum(unit.elements for unit in units),
                "padded_parameters": sum(unit.padded for unit in units),
                "largest_shard": max(unit.padded for unit in units) // ranks,
            }
        )
    return rows


def silent_faults() -> Rows:
    """Faults that don't crash, in ZeRO-2: what is seen, and which checks find them (S23)."""
    rows = []
    for name in FAULTS:
        if name not in HANGS:
            found = investigate(Fault(name), Settings("zero2", 4), _STEPS // 2)
            rows.append(
                {
                    "fault": name,
                    "loss": found.faulty.loss,
                    "healthy_loss": found.healthy.loss,
                    "weights_spread": found.faulty.weights_spread,
                    "found_by": " ".join(sorted({each.check for each in found.found})),
                }
            )
    return rows


def joint_gradient() -> Rows:
    """Replicas' averaged gradient against the joint batch's (S53)."""
    data, weights = example()
    updates = {ranks: replicated_update(data, weights, ranks) for ranks in (1, 2, 4, 8)}
    return [
        {
            "ranks": ranks,
            "loss": update.loss,
            "gradient_norm": update.gradient_norm,
            "same": bool(np.allclose(update.gradient, updates[1].gradient, rtol=1e-12)),
        }
        for ranks, update in updates.items()
    ]


def hybrid_sum() -> Rows:
    """Hybrid sharding's sum against the direct one, 16 ranks in FP64 (S33)."""
    stream = np.random.default_rng(0)
    vectors = [stream.standard_normal(4096) for _ in range(16)]
    pieces = np.split(np.sum(vectors, axis=0), 16)
    rows = []
    for group in (1, 2, 4, 8, 16):
        shards = run_on_vectors(hybrid_reduce(16, 4096, group), vectors)
        off = [
            float(np.abs(shards[r] - np.concatenate(pieces[r % group :: group])).max())
            for r in range(16)
        ]
        rows.append({"ranks_per_shard_group": group, "largest_difference": max(off)})
    return rows


def tensor_cuts() -> Rows:
    """One linear by columns and by rows on 1, 2, 4 and 8 ranks, against the whole (S55)."""
    stream = np.random.default_rng(7)
    x, weight, upstream = (stream.standard_normal(size) for size in ((4, 64), (64, 64), (4, 64)))
    rows = []
    for cut in ("column", "row"):
        for ranks in (1, 2, 4, 8):
            found = linear(cut, x, weight, upstream, ranks)
            rows.append(
                {
                    "cut": cut,
                    "ranks": ranks,
                    "collectives": sum(found.wires.count().values()),
                    "same": bool(
                        np.allclose(found.outputs, x @ weight, rtol=0, atol=1e-12)
                        and np.allclose(
                            found.input_gradient, upstream @ weight.T, rtol=0, atol=1e-12
                        )
                    ),
                }
            )
    return rows


def delayed_update() -> Rows:
    """Updates on time and one step late (S47)."""
    return [
        {
            "delayed_from": begin,
            "first_loss": run.losses[0],
            "last_loss": run.losses[-1],
            "most_stale": max(run.staleness),
        }
        for begin in (None, 0, 40)
        for run in [train_delayed(100, delayed_from=begin)]
    ]
