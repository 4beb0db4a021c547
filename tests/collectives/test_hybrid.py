"""Hybrid sharding's step: against the formula, another implementation, and the lecture's 13B."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.hybrid import node_egress, node_traffic
from shardbook.errors import InputError
from shardbook.schedules.units import hybrid_traffic

BIG = 12_746_752_000


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


@given(st.integers(1, 24), st.integers(1, 10**6), st.data())
@settings(derandomize=True, deadline=None)
def test_a_rank_sends_what_the_fsdp_papers_formula_says(
    n: int, elements: int, data: st.DataObject
) -> None:
    f, per_node = (data.draw(st.sampled_from(divisors(n))) for _ in range(2))
    counted = node_traffic(elements, n, f, per_node)
    padded = -(-elements // n) * n
    in_group = 3 * Fraction(f - 1, f) * 2 * padded
    replicas = n // f
    assert counted.sent == in_group + 2 * Fraction(replicas - 1, replicas) * 2 * padded / f
    other = hybrid_traffic(2 * padded, n, f)
    assert counted.sent == other.within + other.between
    assert counted.rounds == 3 * (f - 1) + 2 * (replicas - 1)


@given(st.sampled_from([4, 8, 12, 16]), st.data())
@settings(derandomize=True, deadline=None)
def test_a_group_in_its_node_sends_only_the_sum_of_its_parts_out(
    n: int, data: st.DataObject
) -> None:
    per_node = data.draw(st.sampled_from(divisors(n)[:-1]))
    counted = node_traffic(n * 1000, n, per_node, per_node)
    nodes = n // per_node
    assert counted.node_egress == 2 * Fraction(nodes - 1, nodes) * 2 * n * 1000
    assert node_traffic(n * 1000, n, n, n).node_egress == 0


def test_13b_on_eight_nodes_is_the_lectures_case() -> None:
    full, node = node_traffic(BIG, 64, 64, 8), node_traffic(BIG, 64, 8, 8)
    assert round(full.sent / 1e9, 2) == round(full.node_egress / 1e9, 2) == 75.29
    assert round(node.node_egress / 8 / 1e9, 2) == 5.58
    assert full.sent / (node.node_egress / 8) == 13.5
    assert round(full.node_egress / node.node_egress, 2) == 1.69


def test_groups_of_two_nodes_send_more_than_full_sharding() -> None:
    egress = {f: node_traffic(BIG, 64, f, 8).node_egress for f in divisors(64)}
    assert max(egress, key=lambda f: egress[f]) == 16
    assert min(egress, key=lambda f: egress[f]) == 8


@pytest.mark.parametrize(
    ("shard", "per_node", "named"), [(3, 2, "shard"), (2, 3, "ranks per node"), (0, 2, "shard")]
)
def test_what_does_not_divide_the_ranks_is_refused(shard: int, per_node: int, named: str) -> None:
    with pytest.raises(InputError) as caught:
        node_traffic(100, 4, shard, per_node)
    assert caught.value.argument == named


@given(st.integers(0, 3), st.integers(0, 3), st.data())
@settings(derandomize=True, deadline=None)
def test_the_formula_for_a_node_is_what_counting_gives(a: int, b: int, data: st.DataObject) -> None:
    per_node, nodes = 2**a, 2**b
    n = per_node * nodes
    f = data.draw(st.sampled_from(divisors(n)))
    said = node_egress(2 * n * 1000, n, f, per_node)
    assert said.total == node_traffic(n * 1000, n, f, per_node).node_egress
    if f <= per_node:
        assert said.group == 0


def test_groups_of_three_nodes_follow_the_formula_too() -> None:
    for f in (1, 2, 3, 6, 12, 18, 36):
        said = node_egress(2 * 36_000, 36, f, 6)
        assert said.total == node_traffic(36_000, 36, f, 6).node_egress


def test_a_group_across_half_a_node_has_no_formula() -> None:
    with pytest.raises(InputError, match="divides 6 or a multiple"):
        node_egress(1000, 36, 4, 6)
