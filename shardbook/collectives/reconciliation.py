"""Mistakes of the source documents that counting plans settles: M11, M23, M28, M35 and M37.

``claimed`` and the sizes a claim is about are the documents'; the other values are counted here.
Documents: B is the lecture on ZeRO and FSDP, C the illustrated notes, D the extension lesson, E
the notes on systems.
"""

from fractions import Fraction
from itertools import islice
from typing import Final

from shardbook.collectives.exchange import direct
from shardbook.collectives.groups import process_groups
from shardbook.collectives.measure import Measured, measure
from shardbook.collectives.network import Link, flat, two_level
from shardbook.collectives.plan import Plan
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from shardbook.collectives.tree import naive
from shardbook.collectives.verify import verify
from shardbook.corrections import Correction, Figure
from shardbook.numbers.units import GB

_RANKS: Final = 4
_NODES: Final = 8
_PER_NODE: Final = 8
#: 13B model of document B: 40 blocks of width 5,120, vocabulary 32,000
_WIDTH: Final = 5_120
_PARAMETERS: Final = 40 * 12 * _WIDTH**2 + 32_000 * _WIDTH
_BF16: Final = 2


def corrections() -> tuple[Correction, ...]:
    """Return the corrections, computed from plans."""
    return (_m11(), _m23(), _m28(), _m35(), _m37())


def _count(plan: Plan) -> Measured:
    return measure(plan, flat(0.0, 1.0))


def _m11() -> Correction:
    n = _RANKS
    plan = ring_all_reduce(n, n)
    counted = _count(plan)
    half = Plan(plan.collective, plan.ranks, plan.chunks, tuple(islice(plan.rounds, n - 1)))
    early = verify(half).faults
    per_rank, total = Fraction(counted.sent[0], n), Fraction(sum(counted.sent), n)
    return Correction(
        "M11",
        "D",
        "After N - 1 steps of the ring every GPU has the full average, and 2G(N - 1)/N is the"
        " total sent.",
        "The reduce-scatter is taken for the whole all-reduce, and what one GPU sends for what all"
        " send together.",
        (
            Figure(f"rounds, N = {n}", "", n - 1, len(tuple(half.rounds)), counted.rounds),
            Figure(
                f"sent by all together, N = {n}",
                "G",
                2 * (n - 1) / n,
                float(per_rank),
                float(total),
            ),
        ),
        (
            f"After {n - 1} rounds {len(early)} of {n * n} chunks are not whole where they are"
            f" wanted; first: {early[0]}.",
            f"N - 1 rounds of reduce-scatter and N - 1 of all-gather make {counted.rounds}.",
            f"Each GPU sends {float(per_rank):g} G, so all together {float(total):g} G ="
            " 2G(N - 1).",
        ),
    )


def _m23() -> Correction:
    n = _RANKS
    exchange = _count(direct("all-reduce", n, n))
    ring = _count(ring_all_reduce(n, n))
    centre = _count(naive("all-reduce", n, n))
    both_ways = Fraction(exchange.sent[0] + exchange.received[0], n)
    sent, ring_sent = Fraction(exchange.sent[0], n), Fraction(ring.sent[0], n)
    return Correction(
        "M23",
        "C",
        "A naive all-reduce moves 2(N - 1) times the data per card, a ring 2(N - 1)/N.",
        "Bytes sent and received are added for the exchange, but only those sent are counted for"
        " the ring.",
        (
            Figure(
                f"sent per card by an exchange, N = {n}",
                "M",
                2 * (n - 1),
                float(both_ways),
                float(sent),
            ),
            Figure(
                f"exchange over ring, N = {n}",
                "×",
                n,
                float(both_ways / ring_sent),
                float(sent / ring_sent),
            ),
        ),
        (
            f"Sent only: the exchange {float(sent):g} M, the ring {float(ring_sent):g} M a card:"
            " the ratio is N/2.",
            f"Sent and received: {float(both_ways):g} M against {float(2 * ring_sent):g} M: the"
            " same ratio.",
            f"Through a root: the root sends and receives {float(Fraction(centre.sent[0], n)):g} M"
            f" each, any other card {float(Fraction(centre.sent[1], n)):g} M.",
        ),
    )


def _m28() -> Correction:
    ranks = _NODES * _PER_NODE
    size = _PARAMETERS * _BF16
    link = Link(0.0, 1.0)
    network = two_level(link, link, _PER_NODE)
    columns = process_groups({"shard": _PER_NODE, "replica": _NODES})["replica"]
    # full sharding gathers the parameters twice and reduce-scatters the gradients once
    gathered = measure(ring_all_gather(ranks, size), network)
    reduced = measure(ring_reduce_scatter(ranks, size), network)
    shards = [measure(ring_all_reduce(column, size // _PER_NODE), network) for column in columns]
    full_card = 2 * gathered.sent[0] + reduced.sent[0]
    full_node = 2 * gathered.node_egress()[0] + reduced.node_egress()[0]
    hybrid_card = shards[0].sent[0]
    hybrid_node = sum(one.node_egress()[0] for one in shards)
    paper = Fraction(3 * size * (ranks - 1), ranks) / Fraction(
        2 * size * (ranks - 1), _PER_NODE * ranks
    )
    return Correction(
        "M28",
        "B",
        "Hybrid sharding of 13B on 8 nodes of 8 cuts the traffic between nodes to about 1/13.",
        "Ring bytes per card are compared; but in one ring laid node by node only one card of a"
        " node sends to another node, in hybrid sharding all do.",
        (
            Figure(
                "full over hybrid, what leaves a node",
                "×",
                13,
                full_card / hybrid_card,
                full_node / hybrid_node,
            ),
        ),
        (
            f"Per card: {full_card / GB:.2f} GB against {hybrid_card / GB:.2f} GB, a ratio of"
            f" {full_card / hybrid_card:.4g}.",
            f"Leaving a node: {full_node / GB:.1f} GB over the one edge of a node-ordered ring"
            f" against {_PER_NODE} × {hybrid_card / GB:.2f} = {hybrid_node / GB:.1f} GB.",
            f"The FSDP paper's form, 3M(W - 1)/W over 2M(W - 1)/(GW), gives {float(paper):g}.",
            "Say how the ring is laid and how many network cards carry it.",
        ),
    )


def _m35() -> Correction:
    nvlink_both_ways, infiniband = 900, 50
    one_way = nvlink_both_ways / 2
    return Correction(
        "M35",
        "D",
        "NVLink has 900 GB/s and InfiniBand 50 GB/s.",
        "The 900 GB/s count both directions, the 50 GB/s one.",
        (
            Figure("NVLink, one way", "GB/s", 900, nvlink_both_ways, one_way),
            Figure(
                "NVLink over InfiniBand",
                "×",
                18,
                nvlink_both_ways / infiniband,
                one_way / infiniband,
            ),
        ),
        (f"One way NVLink has {one_way:g} GB/s: {one_way / infiniband:g} times {infiniband}.",),
    )


def _m37() -> Correction:
    axes = {"TP": 4, "DP": 2}
    groups = process_groups(axes)
    ranks = sum(len(group) for group in groups["TP"])
    return Correction(
        "M37",
        "E",
        "“Two nodes, eight cards.”",
        "It can be read as eight cards in all or in each node.",
        (Figure("cards in all", "", 8, 2 * 8, ranks),),
        (
            f"The document's groups, TP {groups['TP']} and DP {groups['DP']}, have {ranks} ranks:"
            " write 2 × 4.",
        ),
    )
