"""Simulations without an explorer that need formulas only, as tables of plain values.

A row maps a column to a value; sizes are in B, times in s. A docstring's first line is the
table's caption.
"""

from dataclasses import asdict
from typing import Any

from shardbook.ledger.activations import shape, zero_activation_elements, zero_checkpoint_bytes
from shardbook.ledger.buffers import constant_buffer_bytes, fused_buffer_bytes
from shardbook.ledger.calculators import (
    COMPARED_MODELS,
    REAL_MODELS,
    RUNS,
    memory_calculator,
    mixed_precision_comparison,
    real_model,
)
from shardbook.ledger.published import table_1, table_2
from shardbook.ledger.tiers import DGX2, ONE_V100, SCHEMES, largest_by_tier
from shardbook.ledger.working import largest_hidden, working_bytes
from shardbook.numbers.units import GIB
from shardbook.planner.cpu_adam import MEASURED, update_seconds
from shardbook.planner.partitioned_reads import (
    CPU_PER_CARD,
    NVME_PER_CARD,
    cards_until_capped,
    owner_rate,
    partitioned_rate,
)
from shardbook.planner.published import published_runs
from shardbook.planner.reported import checks
from shardbook.schedules.cases import blocks_13b
from shardbook.schedules.fsdp import Policy, fsdp_run
from shardbook.schedules.pipeline import SCHEDULES, StageTimes, make_order, run_order
from shardbook.schedules.units import all_gather_seconds, gather_slowdown

Rows = list[dict[str, Any]]


def lesson_runs() -> Rows:
    """The lesson's runs of its memory calculator, put right (S8, S38)."""
    rows = []
    for parameters, ranks, sharding in RUNS:
        found = memory_calculator(parameters, ranks, sharding)
        rows.append(
            {
                "parameters": parameters,
                "sharding": sharding,
                **asdict(found),
                "per_rank": found.per_rank,
                "fits": found.fits,
            }
        )
    return rows


def precisions() -> Rows:
    """FP32 against half precision, without and with master weights (S9)."""
    return [asdict(mixed_precision_comparison(parameters)) for parameters in COMPARED_MODELS]


def real_models() -> Rows:
    """States of real models, and the cards they need (S10)."""
    return [asdict(real_model(parameters)) for parameters in REAL_MODELS]


def zero_table_1() -> Rows:
    """ZeRO's Table 1: states a device, computed and printed (S4)."""
    return [asdict(each) for each in table_1()]


def zero_table_2() -> Rows:
    """ZeRO's Table 2: the largest model, computed and printed (S5)."""
    return [asdict(each) for each in table_2()]


def buffers() -> Rows:
    """Fused buffers, as large as the model and of constant size (S40)."""
    sizes = (1_500_000_000, 3_000_000_000, 175_000_000_000)
    return [
        {
            "parameters": size,
            "fused_bytes": fused_buffer_bytes(size),
            "constant_bytes": constant_buffer_bytes(size),
        }
        for size in sizes
    ]


def tiling() -> Rows:
    """One operator's working memory, whole and in sixteen tiles (S43)."""
    piece = 2 * GIB
    return [
        {
            "hidden": hidden,
            "tiles": tiles,
            "working_bytes": working_bytes(hidden, tiles),
            "in_pieces_of_bytes": piece,
            "fits": hidden <= largest_hidden(piece, tiles),
        }
        for hidden in (2**13, 2**14, 2**15, 2**16)
        for tiles in (1, 16)
    ]


def zero_activations() -> Rows:
    """Activations of 100B by ZeRO's estimate: all, and checkpoints whole and cut (S13)."""
    rows = []
    for batch in (1, 32):
        model = shape(batch, 1024, 8192, 125)
        rows.append(
            {
                "batch": batch,
                "elements": zero_activation_elements(model),
                "checkpoint_bytes": zero_checkpoint_bytes(model),
                "cut_by_16_bytes": zero_checkpoint_bytes(model, model_parallel=16),
            }
        )
    return rows


def all_gather_sizes() -> Rows:
    """Even and uneven all-gathers of all sizes on eight ranks: when latency counts (S26, S27)."""
    ranks, latency, bandwidth = 8, 5e-6, 450e9
    return [
        {
            "bytes": size,
            "even_seconds": all_gather_seconds(size, ranks, latency, bandwidth),
            "uneven_seconds": all_gather_seconds(size, ranks, latency, bandwidth, even=False),
            "times_without_latency": gather_slowdown(size, ranks, latency, bandwidth),
        }
        for size in (4 * 2**power for power in range(16, 31, 2))
    ]


def rate_limiter() -> Rows:
    """13B on 64 ranks: the host's head start without and with a limit (S30, S31)."""
    units = blocks_13b()
    rows = []
    for limit in (None, 1, 2, 3):
        run = fsdp_run(units, Policy(backward_prefetch=1, limit=limit))
        rows.append(
            {
                "limit": limit,
                "seconds": run.makespan,
                "most_gathered_units": max(run.peaks.values()),
            }
        )
    return rows


def pipeline_schedules() -> Rows:
    """Four stages, eight micro-batches: bubble and memory of each schedule (S56, S57)."""
    rows = []
    for name in SCHEDULES:
        order = make_order(name, 4, 8)
        run = run_order(order, StageTimes())
        rows.append(
            {
                "schedule": name,
                "seconds": run.makespan,
                "bubble_fraction": run.bubble_fraction,
                "peak_live": " ".join(map(str, run.peak_live)),
            }
        )
    return rows


def partitioned_reads() -> Rows:
    """Each card reads its part, against an owner that broadcasts: B/s by cards (S49)."""
    return [
        {
            "tier": tier,
            "cards": cards,
            "partitioned_rate": partitioned_rate(cards, per_card),
            "owner_rate": owner_rate(),
            "cards_until_capped": cards_until_capped(per_card),
        }
        for tier, per_card in {"CPU": CPU_PER_CARD, "NVMe": NVME_PER_CARD}.items()
        for cards in (16, 32, 64, 1024)
    ]


def cpu_adam() -> Rows:
    """An update of ten billion parameters, by where it is made (S46)."""
    return [
        {
            "optimizer": each.title,
            "reported_seconds": each.seconds,
            "on_four_hosts_seconds": update_seconds(each.parameters, 4, each),
        }
        for each in MEASURED
    ]


def largest_models() -> Rows:
    """The largest model that can be trained, by scheme and node (S51)."""
    return [
        {
            "scheme": name,
            "node": node,
            "cards": held.cards,
            "parameters": found.parameters,
            "full": " ".join(found.full),
        }
        for name in SCHEMES
        for node, held in {"one V100": ONE_V100, "DGX-2": DGX2}.items()
        for found in [largest_by_tier(name, held)]
    ]


def published_throughput() -> Rows:
    """Published layouts: TFLOP/s a card as reported and as computed (S71)."""
    return [
        {
            "run": run.name,
            "cards": run.cluster.size,
            "layout": str(run.layout),
            "reported_teraflops": run.reported,
            "computed_teraflops": run.computed,
            "peak_bytes": run.peak.bytes,
        }
        for run in published_runs()
    ]


def offload_papers() -> Rows:
    """What the offload papers report, checked against each other (S52)."""
    return [{**asdict(each), "holds": each.holds} for each in checks()]
