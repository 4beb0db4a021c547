"""Tensor parallelism against one device, numeric derivatives and counts of Megatron-LM."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.tensor import tensor_traffic
from shardbook.errors import InputError
from shardbook.training.splitting.blocks import ATTENTION_AXES, MLP_AXES, attention, mlp
from shardbook.training.splitting.tensor_parallel import linear, pair
from shardbook.training.splitting.vocabulary import cross_entropy, embedding

TOKENS, WIDTH, HIDDEN, HEADS, HEAD = 7, 5, 12, 6, 3
BLOCKS = {"mlp": (mlp, MLP_AXES), "attention": (attention, ATTENTION_AXES)}
CONFIGURATIONS = [
    (name, ranks, sequence)
    for name in BLOCKS
    for ranks in (1, 2, 3, 4, 5, 6)
    for sequence in (False, True)
]


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def case(name):
    weights = (
        {
            "up": normal(1, WIDTH, HIDDEN),
            "up_bias": normal(2, HIDDEN),
            "down": normal(3, HIDDEN, WIDTH),
        }
        if name == "mlp"
        else {"qkv": normal(1, WIDTH, 3, HEADS, HEAD), "out": normal(2, HEADS, HEAD, WIDTH)}
    )
    return weights, normal(4, WIDTH), normal(5, TOKENS, WIDTH), normal(6, TOKENS, WIDTH)


def near(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", BLOCKS)
def test_backward_of_a_block_is_the_numeric_derivative(name):
    block = BLOCKS[name][0]
    weights, _, inputs, direction = case(name)
    _, backward = block(weights, inputs)
    input_gradient, gradients = backward(direction)
    step = 1e-6
    for key, array in {**weights, "inputs": inputs}.items():
        found = input_gradient if key == "inputs" else gradients[key]
        for place in [(0,) * array.ndim, tuple(n - 1 for n in array.shape)]:
            values = []
            for sign in (1, -1):
                moved = array.copy()
                moved[place] += sign * step
                changed = {**weights, key: moved}
                x = changed.pop("inputs", inputs)
                values.append((block(changed, x)[0] * direction).sum())
            assert found[place] == pytest.approx(
                (values[0] - values[1]) / (2 * step), rel=1e-5, abs=1e-7
            )


def test_attention_is_causal():
    weights, _, inputs, _ = case("attention")
    later = inputs.copy()
    later[-1] += 1
    near(attention(weights, inputs)[0][:-1], attention(weights, later)[0][:-1])


@pytest.mark.parametrize(("name", "ranks", "sequence"), CONFIGURATIONS)
def test_a_pair_on_many_devices_is_the_pair_on_one(name, ranks, sequence):
    """(S55)"""
    block, axes = BLOCKS[name]
    weights, bias, inputs, output_gradient = case(name)
    outputs, backward = block(weights, inputs)
    input_gradient, gradients = backward(output_gradient)
    found = pair(
        block, axes, weights, bias, inputs, output_gradient, ranks, sequence_parallel=sequence
    )
    near(found.outputs, outputs + bias)
    near(found.input_gradient, input_gradient)
    near(found.gradients.pop("bias"), output_gradient.sum(axis=0))
    assert found.gradients.keys() == gradients.keys()
    for key, gradient in gradients.items():
        near(found.gradients[key], gradient)


@pytest.mark.parametrize("name", BLOCKS)
def test_one_all_reduce_each_way(name):
    """Megatron-LM, section 3: one all-reduce in the forward pass, one in the backward (S55)."""
    block, axes = BLOCKS[name]
    wires = pair(block, axes, *case(name), 3).wires
    assert wires.count() == {("forward", "all-reduce"): 1, ("backward", "all-reduce"): 1}
    assert pair(block, axes, *case(name), 1).wires.exchanges == []


def test_sequence_parallelism_sends_the_same_bytes_but_for_the_bias():
    """Korthikanti et al., section 4.2.2: all-gather and reduce-scatter are an all-reduce (S55)."""
    block, axes = BLOCKS["mlp"]
    arguments = list(case("mlp"))
    arguments[2:] = normal(5, 8, WIDTH), normal(6, 8, WIDTH)
    plain = pair(block, axes, *arguments, 4).wires
    cut = pair(block, axes, *arguments, 4, sequence_parallel=True).wires
    assert cut.count() == {
        ("forward", "all-gather"): 1,
        ("forward", "reduce-scatter"): 1,
        ("backward", "all-gather"): 1,
        ("backward", "reduce-scatter"): 1,
        ("backward", "all-reduce"): 1,
    }
    assert cut.sent("forward") == plain.sent("forward") == (2 * 3 * 8 * WIDTH * 8 // 4,) * 4
    without = [
        sum(e.sent_bytes) for e in cut.exchanges if "bias" not in e.what and e.phase == "backward"
    ]
    assert sum(without) == sum(plain.sent("backward"))


def test_measured_bytes_are_the_formula_s():
    """Two pairs a layer; float64, so 8 B a number (S55)."""
    tokens, width, ranks = 8, 12, 4
    sent = 0
    for block, axes, weights in (
        (
            mlp,
            MLP_AXES,
            {"up": normal(1, width, 48), "up_bias": normal(2, 48), "down": normal(3, 48, width)},
        ),
        (
            attention,
            ATTENTION_AXES,
            {"qkv": normal(4, width, 3, 4, 3), "out": normal(5, 4, 3, width)},
        ),
    ):
        x, gradient = normal(6, tokens, width), normal(7, tokens, width)
        sent += pair(block, axes, weights, np.zeros(width), x, gradient, ranks).wires.sent()[0]
    assert sent == tensor_traffic(tokens, width, 1, ranks, 1, element_bytes=8).tensor_bytes


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_columns_are_joined_and_rows_are_summed(ranks):
    """(S55)"""
    x, weight, gradient = normal(1, 4, 16), normal(2, 16, 24), normal(3, 4, 24)
    for cut in ("column", "row"):
        found = linear(cut, x, weight, gradient, ranks)
        near(found.outputs, x @ weight)
        near(found.input_gradient, gradient @ weight.T)
        near(found.gradients["weight"], x.T @ gradient)
    if ranks > 1:
        column, row = (linear(cut, x, weight, gradient, ranks).wires for cut in ("column", "row"))
        assert column.count() == {("backward", "all-reduce"): 1}
        assert row.count() == {("forward", "all-reduce"): 1}


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(6, 13), st.integers(1, 9), st.integers(0, 99))
def test_vocabulary_parallel_loss_is_the_loss(ranks, vocabulary, tokens, seed):
    """Largest logit anywhere, vocabulary uneven, targets on any rank (S55)."""
    x, weight = 20 * normal(seed, tokens, 3), normal(seed + 1, 3, vocabulary)
    targets = np.random.default_rng(seed).integers(0, vocabulary, tokens)
    found = cross_entropy(x, weight, targets, ranks)
    logits = x @ weight
    log_sum = np.logaddexp.reduce(logits, axis=1)
    near(found.outputs, log_sum - logits[np.arange(tokens), targets])
    error = np.exp(logits - log_sum[:, None]) - np.eye(vocabulary)[targets]
    np.testing.assert_allclose(found.input_gradient, error @ weight.T, atol=1e-9)
    np.testing.assert_allclose(found.gradients["weight"], x.T @ error, atol=1e-8)


def test_a_large_logit_on_any_rank_does_not_overflow():
    weight = np.zeros((1, 6))
    weight[0, 5] = 5000
    found = cross_entropy(np.ones((2, 1)), weight, np.array([5, 0]), 3)
    near(found.outputs, [0, 5000])
    near(found.gradients["weight"], [[-1, 0, 0, 0, 0, 1]])


def test_the_loss_sends_three_numbers_a_token_not_the_vocabulary():
    tokens, ranks = 8, 4
    wires = cross_entropy(normal(1, tokens, 3), normal(2, 3, 64), np.arange(tokens), ranks).wires
    # all-gather of a maximum a rank, two all-reduces of one number a token
    assert wires.sent("forward")[0] == 8 * (3 * tokens + 2 * 2 * 3 * tokens // 4)
    assert wires.sent("backward")[0] == 8 * 2 * 3 * tokens * 3 // 4


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_embedding_counts_a_repeated_word_twice(ranks):
    """(S55)"""
    tokens, table, gradient = np.array([0, 6, 3, 3, 1]), normal(1, 7, 4), normal(2, 5, 4)
    found = embedding(tokens, table, gradient, ranks)
    near(found.outputs, table[tokens])
    near(found.gradients["table"], np.eye(7)[tokens].T @ gradient)
    assert found.wires.count() == ({("forward", "all-reduce"): 1} if ranks > 1 else {})


@pytest.mark.parametrize(
    "make",
    [
        lambda: pair(attention, ATTENTION_AXES, *case("attention"), HEADS + 1),
        lambda: pair(mlp, MLP_AXES, *case("mlp"), TOKENS + 1, sequence_parallel=True),
        lambda: linear("diagonal", np.eye(2), np.eye(2), np.eye(2), 1),
        lambda: linear("row", np.eye(2), np.eye(2), np.eye(2), 0),
        lambda: embedding(np.array([7]), normal(1, 7, 4), normal(2, 1, 4), 2),
        lambda: cross_entropy(normal(1, 1, 2), normal(2, 2, 3), np.array([-1]), 2),
        lambda: tensor_traffic(0, 8, 1, 1, 1),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()
