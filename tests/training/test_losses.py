import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shardbook.collectives import averaging
from shardbook.errors import InputError
from shardbook.training import loss

exact = settings(derandomize=True, deadline=None)
counts = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def test_masked_rows_count_neither_in_the_sum_nor_in_the_gradient():
    outputs = np.array([[1.0, 2.0], [5.0, 5.0]])
    targets = np.array([[0.0, 0.0], [0.0, 0.0]])
    total, gradient = loss.squared_error(outputs, targets, np.array([True, False]))
    assert total == (1 + 4) / 2
    assert gradient.tolist() == [[1.0, 2.0], [0.0, 0.0]]


@exact
@given(counts, st.integers(0, 2**32 - 1))
def test_the_token_mean_is_the_joint_batchs_mean_for_any_counts(own, seed):
    """(S54)"""
    assume(sum(own))
    stream = np.random.default_rng(seed)
    values = [stream.standard_normal(count) for count in own]
    sums = [float(v.sum()) for v in values]
    assert averaging.token_mean(sums, own) == pytest.approx(np.concatenate(values).mean())
    joint = sum(
        v.sum() / averaging.divisor("token-mean", c, sum(own), len(own))
        for v, c in zip(values, own, strict=True)
    )
    assert joint == pytest.approx(np.concatenate(values).mean())


@exact
@given(counts)
def test_token_mean_weighs_every_token_alike_and_means_of_means_do_not(own):
    assume(sum(own))
    right = [share for share in averaging.token_shares(own, "token-mean") if share]
    assert right == pytest.approx([1.0] * len(right))
    if 0 not in own:
        wrong = averaging.token_shares(own, "mean-of-means")
        assert wrong == pytest.approx([sum(own) / len(own) / count for count in own])
        assert (wrong == pytest.approx([1.0] * len(own))) == (len(set(own)) == 1)
        forgotten = averaging.token_shares(own, "sum-of-means")
        assert forgotten == pytest.approx([share * len(own) for share in wrong])


def test_a_third_of_the_tokens_weighs_three_times_as_much():
    shares = averaging.token_shares([12, 12, 4, 12], "mean-of-means")
    assert shares[2] == 3 * shares[0]


def test_the_mean_of_unequal_means_is_another_number():
    assert averaging.token_mean([2.0, 8.0], [1, 8]) == pytest.approx(10 / 9)
    assert averaging.mean_of_means([2.0, 8.0], [1, 8]) == 1.5


@pytest.mark.parametrize(
    "bad",
    [
        lambda: averaging.token_mean([0.0], [0]),
        lambda: averaging.mean_of_means([1.0, 0.0], [1, 0]),
        lambda: averaging.divisor("median", 1, 1, 1),
    ],
)
def test_means_of_nothing_are_refused(bad):
    with pytest.raises(InputError):
        bad()
