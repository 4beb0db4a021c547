"""ZeRO's P_a against the bytes of ring plans, counted transfer by transfer (S39)."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce
from shardbook.errors import InputError
from shardbook.ledger.activations import shape
from shardbook.planner.partitioned_checkpoints import MODES, checkpoints


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_a_block_sends_what_its_rings_send(ranks):
    model = shape(2, 64, 256, 3, 16)
    network = flat(0.0, 1.0)
    found = checkpoints(model, ranks)
    reduce = measure(ring_all_reduce(ranks, model.elements), network, 2)
    gather = measure(ring_all_gather(ranks, model.elements), network, 2)
    assert found.all_reduce_bytes == 6 * reduce.sent[0]
    assert found.gather_bytes == gather.sent[0]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(2, 64), st.integers(1, 8), st.integers(1, 4096), st.integers(1, 100))
def test_gathering_adds_a_twelfth_which_is_less_than_a_tenth(ranks, batch, sequence, layers):
    found = checkpoints(shape(batch, sequence, 64, layers), ranks)
    assert found.extra == Fraction(1, 12) < Fraction(1, 10)


def test_100b_on_16_cards_keeps_a_sixteenth():
    """ZeRO, section 6.1: batch 32, 1,024 tokens, 125 layers of width 8,192."""
    model = shape(32, 1024, 8192, 125)
    everywhere, parts, away = (checkpoints(model, 16, mode) for mode in MODES)
    assert everywhere.card_bytes == 2 * 32 * 1024 * 8192 * 125
    assert parts.card_bytes * 16 == everywhere.card_bytes
    assert (away.card_bytes, away.host_bytes) == (0, parts.card_bytes)
    assert away.copied_bytes * 125 == 2 * away.host_bytes
    assert (everywhere.gather_bytes, everywhere.copied_bytes, parts.copied_bytes) == (0, 0, 0)
    assert away.gather_bytes == parts.gather_bytes > 0


def test_one_rank_sends_nothing():
    alone = checkpoints(shape(1, 8, 8, 2), 1)
    assert (alone.all_reduce_bytes, alone.gather_bytes, alone.extra) == (0, 0, 0)


def test_what_cannot_be_partitioned_is_refused():
    with pytest.raises(InputError, match="mode"):
        checkpoints(shape(1, 8, 8, 2), 2, "nowhere")
    with pytest.raises(InputError, match="tensor parallel"):
        checkpoints(shape(1, 8, 8, 2), 0)
