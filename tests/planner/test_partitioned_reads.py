"""Bandwidth-centric partitioning against the paper's rates and the prefetch simulator (S49)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.planner.partitioned_reads import (
    CPU_PER_CARD,
    NVME_PER_CARD,
    cards_until_capped,
    owner_rate,
    partitioned_rate,
)
from shardbook.schedules.core import simulate
from shardbook.schedules.offload import PrefetchLayer, prefetch_plan


def test_the_links_between_cards_are_the_limit_from_24_and_44_cards_on():
    assert (cards_until_capped(3.0e9), cards_until_capped(1.6e9)) == (24, 44)
    assert partitioned_rate(23, CPU_PER_CARD) == pytest.approx(69e9)
    assert partitioned_rate(24, CPU_PER_CARD) == 70e9
    assert partitioned_rate(43, NVME_PER_CARD) == pytest.approx(68.8e9)


def test_64_dgx_2_read_more_than_3_and_1_5_terabytes_a_second():
    nowhere_capped = 1e18
    assert partitioned_rate(64 * 16, CPU_PER_CARD, nowhere_capped) == pytest.approx(3.072e12)
    assert partitioned_rate(64 * 16, NVME_PER_CARD, nowhere_capped) == pytest.approx(1.6384e12)


def test_sixteen_parts_arrive_four_times_as_fast_as_an_owners_broadcast():
    assert owner_rate() == 12e9
    assert partitioned_rate(16, CPU_PER_CARD) == pytest.approx(4 * owner_rate())


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(1, 64), st.floats(0.5, 20), st.floats(1, 100))
def test_many_prefetched_layers_arrive_at_the_closed_forms_rate(cards, per_card, between):
    """The simulator's layers, of 60 B each, read, gathered and computed in no time."""
    size, layers = 60.0, 50
    layer = PrefetchLayer(size / cards / per_card, 0.0, size / between, 0.0)
    few, many = (
        simulate(prefetch_plan((layer,) * count, 3)).makespan for count in (layers, 2 * layers)
    )
    assert layers * size / (many - few) == pytest.approx(partitioned_rate(cards, per_card, between))


@pytest.mark.parametrize(
    "call",
    [
        lambda: partitioned_rate(0, 1.0),
        lambda: partitioned_rate(1, 0.0),
        lambda: owner_rate(-1.0),
        lambda: cards_until_capped(0.0),
    ],
)
def test_impossible_links_are_refused(call):
    with pytest.raises(InputError):
        call()
