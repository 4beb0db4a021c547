"""Process groups and what a wrong order costs on the slow links."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.groups import axis_traffic, process_groups
from shardbook.errors import InputError


def test_two_nodes_of_four():
    """(S61)"""
    assert process_groups({"TP": 4, "DP": 2}) == {
        "TP": ((0, 1, 2, 3), (4, 5, 6, 7)),
        "DP": ((0, 4), (1, 5), (2, 6), (3, 7)),
    }


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_groups_are_the_ranks_that_differ_in_one_coordinate(degrees):
    names = [f"axis{i}" for i in range(len(degrees))]
    # itertools.product varies its last factor fastest
    places = [place[::-1] for place in product(*(range(d) for d in reversed(degrees)))]
    groups = process_groups(dict(zip(names, degrees, strict=True)))
    for i, name in enumerate(names):
        expected = {}
        for rank, place in enumerate(places):
            expected.setdefault(place[:i] + place[i + 1 :], []).append(rank)
        assert sorted(groups[name]) == sorted(map(tuple, expected.values()))


def test_a_wrong_order_puts_tensor_parallelism_on_the_slow_link():
    """(S61)"""
    sizes = {"TP": 1000, "DP": 100}
    right = {one.axis: one for one in axis_traffic({"TP": 4, "DP": 2}, sizes, 4)}
    wrong = {one.axis: one for one in axis_traffic({"DP": 2, "TP": 4}, sizes, 4)}
    assert (right["TP"].inside_bytes, right["TP"].between_bytes) == (2 * 2 * 3 * 1000, 0)
    assert (right["DP"].inside_bytes, right["DP"].between_bytes) == (0, 4 * 2 * 100)
    assert wrong["DP"].between_bytes == 0
    # [0, 2, 4, 6] in a ring crosses twice of four times
    assert wrong["TP"].groups[0] == (0, 2, 4, 6)
    assert wrong["TP"].between_bytes == 2 * 2 * 3 * 1000 // 2


def test_an_axis_without_traffic_sends_nothing():
    (tensor, data) = axis_traffic({"TP": 2, "DP": 2}, {"DP": 8}, 2)
    assert (tensor.inside_bytes, tensor.between_bytes) == (0, 0)
    assert data.between_bytes > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: process_groups({}),
        lambda: process_groups({"TP": 0}),
        lambda: process_groups({"TP": 1 << 10, "DP": 1 << 10}),
        lambda: axis_traffic({"TP": 2}, {"DP": 1}, 2),
        lambda: axis_traffic({"TP": 2}, {"TP": 1}, 0),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()
