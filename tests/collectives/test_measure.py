"""Counting and pricing against formulas, real arrays and a plain second implementation."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.bandwidth import ring_seconds
from shardbook.collectives.build import ALGORITHMS, plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import Link, Network, flat, two_level
from shardbook.collectives.plan import Plan, Rounds, Transfer
from shardbook.collectives.ring import ring_all_reduce
from shardbook.collectives.run import run_on_vectors
from shardbook.errors import InputError
from shardbook.numbers.units import GIB

PAIRS = [(collective, name) for name, done in ALGORITHMS.items() for collective in done]


def plainly(plan, network, width):
    """Seconds and bytes per link, by looking at each port of each round on its own."""
    links, seconds = Counter(), 0.0
    for moves in plan.rounds:
        times = [0.0]
        ports = Counter()
        for move in moves:
            size = plan.chunks[move.chunk].size * width
            links[move.source, move.target] += size
            if network.node(move.source) == network.node(move.target):
                ports["rank out", move.source] += size
                ports["rank in", move.target] += size
            else:
                ports["card out", network.card(move.source)] += size
                ports["card in", network.card(move.target)] += size
        for (kind, number), size in ports.items():
            card = kind.startswith("card")
            link = network.between if card else network.inside
            slower = dict(network.slow).get(-1 - number if card else number, 1)
            times.append(link.latency + slower * size / link.bandwidth)
        seconds += max(times)
    return seconds, dict(links)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.sampled_from(PAIRS),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(0, 100),
    st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2), (4, 3), (4, 4), (3, 2)]),
    st.integers(1, 4),
    st.dictionaries(st.integers(-8, 7), st.floats(1, 100), max_size=2),
)
def test_one_pass_agrees_with_a_plain_count(pair, n, elements, node, width, slow):
    """Slow ports and network cards included (S70)."""
    network = two_level(Link(1e-6, 3e9), Link(5e-6, 1e9), *node)
    network = replace(network, slow=tuple(slow.items()))
    plan = plan_of(*pair, n, elements)
    measured = measure(plan, network, width)
    seconds, links = plainly(plan, network, width)
    assert measured.seconds == pytest.approx(seconds, rel=1e-12, abs=1e-18)
    assert measured.links == links
    assert measured.rounds == len(list(plan.rounds))
    assert measured.transfers == sum(len(moves) for moves in plan.rounds)
    assert sum(measured.sent) == sum(measured.received) == sum(links.values())
    crossing = sum(size for (a, b), size in links.items() if network.node(a) != network.node(b))
    assert measured.between_bytes == crossing
    assert measured.inside_bytes == sum(links.values()) - crossing


@pytest.mark.parametrize("pair", PAIRS)
def test_counted_bytes_are_those_that_real_arrays_send(pair):
    plan = plan_of(*pair, 4, 10)
    sent, received = Counter(), Counter()

    def log(number, move, array):
        sent[move.source] += array.nbytes
        received[move.target] += array.nbytes

    sizes = dict.fromkeys(plan.ranks, 0)
    for chunk in plan.chunks:
        for rank in chunk.sources:
            sizes[rank] += chunk.size
    run_on_vectors(plan, [np.ones(size, np.float32) for size in sizes.values()], log)
    measured = measure(plan, flat(0, 1), element_bytes=4)
    assert measured.sent == tuple(sent[rank] for rank in plan.ranks)
    assert measured.received == tuple(received[rank] for rank in plan.ranks)


def test_four_ranks_one_gib():
    """Document E: 1.5 GiB per card and 32.2 ms at 50 GB/s (S64)."""
    measured = measure(ring_all_reduce(4, GIB), flat(0, 50e9))
    assert measured.sent == (3 * GIB // 2,) * 4
    assert f"{measured.seconds * 1000:.1f}" == "32.2"


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 20), st.integers(0, 1000), st.sampled_from([0, 1e-6, 1e-3]))
def test_ring_time_is_the_closed_form_where_chunks_are_even(n, chunk, latency):
    measured = measure(ring_all_reduce(n, n * chunk), flat(latency, 7.0))
    assert measured.seconds == pytest.approx(ring_seconds(n, n * chunk, latency, 7.0), rel=1e-12)


def test_an_uneven_ring_waits_for_its_longest_chunk():
    assert measure(ring_all_reduce(3, [5, 1, 0]), flat(0, 1)).seconds == 4 * 5


def test_the_roots_port_is_shared():
    naive = measure(plan_of("all-reduce", "naive", 5, 100), flat(1, 10))
    assert naive.round_seconds == (1 + 4 * 100 / 10,) * 2


def test_links_are_full_duplex():
    both = ((Transfer(0, 1, 0, False), Transfer(1, 0, 1, False)),)
    plan = plan_of("all-gather", "ring", 2, 20)
    assert measure(Plan("swap", plan.ranks, plan.chunks, both), flat(0, 1)).seconds == 10


def test_ranks_that_share_a_network_card_wait_for_each_other():
    link = Link(0, 1)
    plan = plan_of("all-reduce", "hierarchical", 8, 800, 4)
    times = [measure(plan, two_level(link, link, 4, cards)).seconds for cards in (4, 2, 1)]
    inside = 6 * 200
    assert times == [inside + 2 * 100, inside + 2 * 200, inside + 2 * 400]


def test_neighbours_share_a_card():
    network = two_level(Link(0, 1), Link(0, 1), 8, 3)
    assert [network.card(rank) for rank in range(9)] == [0, 0, 0, 1, 1, 1, 2, 2, 3]


def test_a_node_ordered_ring_crosses_on_one_edge_and_a_mixed_one_on_all():
    network = two_level(Link(0, 1), Link(0, 1), 4)
    ordered = measure(ring_all_reduce(8, 80), network)
    mixed = measure(ring_all_reduce([0, 4, 1, 5, 2, 6, 3, 7], 80), network)
    assert ordered.node_egress() == {0: 140, 1: 140}
    assert mixed.node_egress() == {0: 4 * 140, 1: 4 * 140}
    assert mixed.inside_bytes == 0


def test_rounds_are_made_one_by_one():
    alive = []

    def rounds():
        for k in range(50):
            alive.append(k)
            yield (Transfer(0, 1, 0, False),)
            assert alive.pop() == k

    plan = plan_of("broadcast", "naive", 2, 10)
    lazy = Plan("broadcast", plan.ranks, plan.chunks, Rounds(rounds, ()))
    assert measure(lazy, flat(0, 1)).seconds == 500


@pytest.mark.parametrize(
    "make",
    [
        lambda: flat(-1, 1),
        lambda: flat(0, 0),
        lambda: flat(0, float("nan")),
        lambda: two_level(Link(0, 1), Link(0, 1), 0),
        lambda: Network(Link(0, 1), Link(0, 1), ranks_per_node=4),
        lambda: replace(flat(0, 1), slow=((0, 0.5),)),
        lambda: measure(ring_all_reduce(2, 2), flat(0, 1), element_bytes=0),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()
