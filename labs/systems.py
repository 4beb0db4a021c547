"""The budget experiment: which strategy gives most tokens for the money, and what it needs. (S67)

Compared by tokens a second and by cost a token, not by the time of a step: a larger batch or more
cards make steps that can't be compared.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from labs.config import Systems
from shardbook.collectives.bandwidth import busbw_factor
from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.planner.budget import Strategy, budget
from shardbook.planner.presets import Cluster
from shardbook.planner.traffic import sent_bytes

Row = dict[str, Any]


def run_systems(config: Systems, seed: int) -> dict[str, list[Row]]:
    """Return the tables: configurations, ledger, ring_events and rings."""
    configurations, ledger = [], []
    for cluster, strategy in _cases(config):
        row, pieces = _configuration(config, cluster, strategy, seed)
        configurations.append(row)
        ledger += pieces
    events, rings = _rings(config)
    return {
        "configurations": configurations,
        "ledger": ledger,
        "ring_events": events,
        "rings": rings,
    }


def _cases(config: Systems) -> Iterator[tuple[Cluster, Strategy]]:
    for cards in config.cards:
        for width in config.cards_per_node:
            for between in config.between:
                nodes = max(1, cards // width)
                cluster = replace(
                    config.cluster, nodes=nodes, cards=min(width, cards), between=between
                )
                if cluster.size == cards:
                    yield from ((cluster, strategy) for strategy in config.strategies)


def _configuration(
    config: Systems, cluster: Cluster, strategy: Strategy, seed: int
) -> tuple[Row, list[Row]]:
    # The slowest card's pace is drawn once for each size of cluster.
    draw = random.Random(f"{seed} {cluster.size}")
    pace = max(1 + abs(draw.gauss(0, config.spread)) for _ in range(cluster.size))
    found = budget(
        config.model,
        cluster,
        strategy,
        micro_batch=config.micro_batch,
        recompute=config.recompute,
        pace=pace,
    )
    row: Row = {
        "cards": cluster.size,
        "cards_per_node": cluster.cards,
        "between_bytes_per_second": cluster.between,
        "strategy": strategy.name,
        "reason": found.reason,
    }
    if found.peak is None:
        return row, []
    sent = sent_bytes(config.model, found.layout)
    row |= {
        "peak_bytes": found.peak.bytes,
        "fits": found.run is not None,
        "tensor_sent_bytes": sent["tensor"],
        "data_sent_bytes": sent["data"],
    }
    if found.run is not None:
        row |= {
            "micro_batches": found.run.micro_batches,
            "slowest_card": pace,
            "seconds": found.run.seconds,
            "compute_seconds": found.run.time.compute,
            "tensor_seconds": found.run.time.tensor,
            "exposed_data_seconds": found.run.time.data,
            "tokens_per_second": found.tokens_per_second,
            "dollars_per_million_tokens": found.dollars_per_million_tokens,
        }
    key = {name: row[name] for name in ("cards", "cards_per_node", "strategy")}
    pieces = found.peak.pieces
    return row, [{**key, "category": name, "bytes": size} for name, size in pieces if size]


def _rings(config: Systems) -> tuple[list[Row], list[Row]]:
    """Every transfer of an all-reduce for each message and bandwidth, and each ring's sum."""
    events: list[Row] = []
    rings: list[Row] = []
    factor = busbw_factor("all-reduce", config.ring_ranks)
    for between in config.between:
        network = flat(config.cluster.between_latency, between)
        for message in config.messages:
            plan = plan_of("all-reduce", "ring", config.ring_ranks, message)
            priced = measure(plan, network)
            start = 0.0
            for number, moves in enumerate(plan.rounds):
                end = start + priced.round_seconds[number]
                events += [
                    {
                        "message_bytes": message,
                        "bytes_per_second": between,
                        "round": number,
                        "source": move.source,
                        "target": move.target,
                        "chunk": move.chunk,
                        "adds": move.add,
                        "bytes": plan.chunks[move.chunk].size,
                        "start": start,
                        "end": end,
                    }
                    for move in moves
                ]
                start = end
            rings.append(
                {
                    "message_bytes": message,
                    "bytes_per_second": between,
                    "rounds": priced.rounds,
                    "seconds": priced.seconds,
                    "sent_bytes_per_rank": max(priced.sent),
                    "busbw": float(factor) * message / priced.seconds,
                }
            )
    return events, rings
