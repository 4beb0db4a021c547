"""Bandwidths as nccl-tests counts them, the ring model, the global batch."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from shardbook.collectives.bandwidth import algbw, busbw, busbw_factor, ring_seconds
from shardbook.collectives.batch import data_replicas, global_batch
from shardbook.collectives.build import plan_of
from shardbook.collectives.contract import COLLECTIVES
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.errors import InputError
from shardbook.numbers.units import GIB, parse_rate

FACTORS = json.loads((Path(__file__).parent / "data" / "busbw_factors.json").read_text())


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 1000])
def test_factors_are_those_of_nccl_tests(collective, n):
    """(S65)"""
    formula = FACTORS["busbw_factor"][collective.replace("-", "_")]
    assert busbw_factor(collective, n) == eval(formula, {"n": Fraction(n)})


@pytest.mark.parametrize("collective", ["all-reduce", "reduce-scatter", "all-gather"])
def test_a_rings_bus_bandwidth_is_the_link_bandwidth(collective):
    """What busbw is for: it does not depend on the number of ranks (S65)."""
    for n in (2, 4, 8, 32):
        seconds = measure(plan_of(collective, "ring", n, GIB), flat(0, 50e9)).seconds
        assert busbw(collective, n, GIB, seconds) == pytest.approx(50e9)


def test_direct_all_to_all_has_the_link_bandwidth_too():
    seconds = measure(plan_of("all-to-all", "direct", 8, GIB), flat(0, 50e9)).seconds
    assert busbw("all-to-all", 8, GIB, seconds) == pytest.approx(50e9)


def test_no_time_has_no_bandwidth():
    assert algbw(10, 0.0) is None
    assert busbw("all-reduce", 1, 10, 0.0) is None


def test_document_es_ring():
    """(S64)"""
    fast = float(parse_rate("rate", "400Gb/s"))
    assert fast == 50e9
    assert f"{ring_seconds(4, GIB, 0, fast):.4f}" == "0.0322"
    assert f"{ring_seconds(4, 10**9, 0, fast):.4f}" == "0.0300"
    assert ring_seconds(4, 0, 1e-3, fast) == pytest.approx(6e-3)
    assert ring_seconds(1, GIB, 1, 1) == 0


def test_the_global_batch_counts_replicas_not_ranks():
    """(S62)"""
    replicas = data_replicas(64, tensor=4, pipeline=2)
    assert replicas == 8
    assert global_batch(2, 16, replicas) == 256
    assert global_batch(2, 16, data_replicas(64)) == 2048


@pytest.mark.parametrize(
    "make",
    [
        lambda: data_replicas(10, tensor=4),
        lambda: data_replicas(0),
        lambda: global_batch(0, 1, 1),
        lambda: global_batch(1, 1.5, 1),
        lambda: busbw_factor("nope", 2),
        lambda: busbw_factor("all-reduce", 0),
        lambda: algbw(-1, 1.0),
        lambda: ring_seconds(4, 1, 0, 0),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()


def test_indivisible_ranks_name_the_degrees():
    with pytest.raises(InputError, match="tensor 4 × pipeline 2 = 8"):
        data_replicas(12, tensor=4, pipeline=2)
