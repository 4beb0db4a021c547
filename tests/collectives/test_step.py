"""The communication counter of the five strategies."""

from itertools import pairwise

import pytest

from shardbook.collectives.step import COLLECTIVES_OF, step_traffic
from shardbook.errors import InputError

WIDTHS = (32, 96, 96, 96, 96, 16)
UNITS = [a * b + b for a, b in pairwise(WIDTHS)]


@pytest.mark.parametrize(
    ("strategy", "unit", "sent", "rounds"),
    [
        ("dp", 1.5, 97_968, 30),
        ("zero1-all-reduce", 2.25, 146_952, 45),
        ("zero1", 1.5, 97_968, 30),
        ("zero2", 1.5, 97_968, 30),
        ("zero3", 2.25, 146_952, 45),
    ],
)
def test_the_mlp_on_four_ranks(strategy, unit, sent, rounds):
    traffic = step_traffic(strategy, 4, UNITS)
    assert (traffic.sent_bytes_per_rank, traffic.rounds) == (sent, rounds)
    assert traffic.sent_bytes_per_rank / (2 * sum(UNITS)) == unit


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_two_or_three_times_the_parameters_whatever_the_ranks(n):
    for strategy, names in COLLECTIVES_OF.items():
        traffic = step_traffic(strategy, n, UNITS)
        volumes = 3 if len(names) == 3 or strategy == "zero1-all-reduce" else 2
        assert traffic.sent_bytes_per_rank == volumes * 2 * traffic.padded_elements * (n - 1) // n


def test_units_are_padded_one_by_one():
    assert step_traffic("dp", 3, UNITS).padded_elements == 32_658


@pytest.mark.parametrize(
    "arguments", [("nope", 4, UNITS), ("dp", 0, UNITS), ("dp", 4, []), ("dp", 4, [0])]
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(InputError):
        step_traffic(*arguments)
