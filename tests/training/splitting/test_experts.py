"""Expert parallelism against a dense computation of all experts on all tokens."""

import numpy as np
import pytest

from shardbook.collectives.experts import capacity
from shardbook.errors import InputError
from shardbook.training.splitting.experts import expert_parallel, route, softmax

WIDTH, HIDDEN = 4, 3


def case(experts, tokens, seed=0):
    stream = np.random.default_rng(seed)
    weights = {
        "router": stream.standard_normal((WIDTH, experts)),
        "up": stream.standard_normal((experts, WIDTH, HIDDEN)),
        "up_bias": stream.standard_normal((experts, HIDDEN)),
        "down": stream.standard_normal((experts, HIDDEN, WIDTH)),
    }
    return weights, stream.standard_normal((tokens, WIDTH)), stream.standard_normal((tokens, WIDTH))


def mask_by_hand(weights, inputs, k, groups, factor):
    """Chosen and kept, one token after the other; capacity for each group of tokens."""
    experts = weights["router"].shape[1]
    mask = np.zeros((len(inputs), experts))
    for rows in np.array_split(np.arange(len(inputs)), groups):
        most = len(inputs) if factor is None else capacity(len(rows), experts, k, factor)
        taken = np.zeros(experts, dtype=int)
        for choice in range(k):
            for row in rows:
                expert = np.argsort(-(inputs[row] @ weights["router"]))[choice]
                if taken[expert] < most:
                    mask[row, expert] = 1
                    taken[expert] += 1
    return mask


def dense(weights, inputs, mask):
    """Every expert computes every token; the mask leaves out what routing leaves out."""
    gates = softmax(inputs @ weights["router"]) * mask
    hidden = np.tanh(np.einsum("th,ehf->etf", inputs, weights["up"]) + weights["up_bias"][:, None])
    return np.einsum("te,etf,efh->th", gates, hidden, weights["down"])


def numeric(loss, array):
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        before = array[place]
        values = []
        for step in (1e-5, -1e-5):
            array[place] = before + step
            values.append(loss())
        array[place] = before
        gradient[place] = (values[0] - values[1]) / 2e-5
    return gradient


@pytest.mark.parametrize(
    ("experts", "tokens", "k", "expert_ranks", "data_ranks", "factor"),
    [
        (4, 9, 2, 1, 1, None),
        (4, 9, 2, 2, 1, None),
        (5, 11, 2, 3, 1, None),  # uneven experts and tokens
        (4, 9, 1, 4, 1, 1.0),
        (4, 12, 2, 2, 2, None),
        (6, 13, 3, 3, 2, 0.7),
        (3, 8, 3, 1, 4, 1.25),
        (8, 8, 1, 4, 2, 0.0),  # everything is dropped
    ],
)
def test_experts_on_many_ranks_are_the_dense_layer(
    experts, tokens, k, expert_ranks, data_ranks, factor
):
    """(S58)"""
    weights, inputs, gradient = case(experts, tokens)
    found = expert_parallel(weights, inputs, gradient, k, expert_ranks, data_ranks, factor)
    mask = mask_by_hand(weights, inputs, k, expert_ranks * data_ranks, factor)
    np.testing.assert_allclose(found.outputs, dense(weights, inputs, mask), atol=1e-12)

    def loss():
        return (dense(weights, inputs, mask) * gradient).sum()

    np.testing.assert_allclose(found.input_gradient, numeric(loss, inputs), atol=1e-7)
    for name, array in weights.items():
        np.testing.assert_allclose(found.gradients[name], numeric(loss, array), atol=1e-7)
    assert found.dropped == tokens * k - mask.sum()
    assert sum(found.rows) == mask.sum()


def test_four_all_to_alls_of_rows_and_one_of_counts():
    """GShard, algorithm 1: dispatch and combine; backward the same (S58)."""
    found = expert_parallel(*case(4, 16), 2, expert_ranks=2, data_ranks=2)
    for links in found.wires["EP"]:
        assert links.count() == {("forward", "all-to-all"): 3, ("backward", "all-to-all"): 2}
    for links in found.wires["DP"]:
        assert links.count() == {("backward", "all-reduce"): 3}
    assert [links.ranks for links in found.wires["DP"]] == [(0, 2), (1, 3)]


def test_only_rows_for_other_ranks_are_sent():
    weights, inputs, gradient = case(2, 6)
    found = expert_parallel(weights, inputs, gradient, 1, 2)
    first = (inputs @ weights["router"]).argmax(axis=1)
    away = [int((first[:3] == 1).sum()), int((first[3:] == 0).sum())]
    sent = next(e for e in found.wires["EP"][0].exchanges if e.what == "rows to experts").sent_bytes
    assert sent == tuple(8 * WIDTH * rows for rows in away)


def test_first_choices_go_before_second_ones():
    probabilities = np.array([[0.6, 0.4, 0], [0.3, 0.5, 0.2], [0.1, 0.8, 0.1]])
    routing = route(probabilities, 2, most=2)
    assert routing.chosen.tolist() == [[0, 1], [1, 0], [1, 0]]
    # expert 1 is full with the first choices of tokens 1 and 2, so token 0's second one is dropped
    assert routing.kept.tolist() == [[True, False], [True, True], [True, False]]


@pytest.mark.parametrize(
    "settings",
    [{"k": 0}, {"k": 5}, {"expert_ranks": 5}, {"data_ranks": 9}, {"capacity_factor": -1}],
)
def test_bad_input_is_refused(settings):
    with pytest.raises(InputError):
        expert_parallel(*case(4, 8), **{"k": 1, "expert_ranks": 2, **settings})
