"""Programs of array operations and cuts handed in as data: read, run, counted; any gets a verdict."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.labs.handed_tensor_cuts import (
    Cut,
    needless_input,
    read_cut,
    unequal_share,
    unlike_parts,
    wrong_output,
)
from shardbook.labs.handed_tensor_heads import HeadCut, read_heads, sum_copies, unequal_heads
from shardbook.labs.handed_tensor_layers import (
    attention_layer,
    mlp_stack,
    sequence_stack,
    word_loss,
)
from shardbook.labs.handed_tensor_programs import (
    Ran,
    Start,
    gelu,
    gelu_slope,
    norm,
    norm_back,
    read_phase,
    run_phases,
)
from shardbook.labs.handed_tensor_results import (
    all_reduce_bytes,
    kept_whole,
    other_exchanges,
    run_handed,
    sent_bytes,
    too_many_products,
    too_many_sent,
    wrong_arrays,
)
from shardbook.labs.values import Fault
from shardbook.training.splitting.blocks import ATTENTION_AXES, attention
from shardbook.training.splitting.tensor_parallel import pair
from shardbook.training.splitting.vocabulary import cross_entropy
from shardbook.training.splitting.wires import Wires


def ran(arrays, forward, backward=(), weights=(), heads=None):
    start = Start(tuple(arrays), frozenset(weights), ({},) * len(arrays), heads)
    phases = [read_phase(name, list(texts)) for name, texts in (("f", forward), ("b", backward))]
    assert not any(isinstance(phase, Fault) for phase in phases), phases
    return run_phases(start, *phases)


def on_two_ranks(text, first, second):
    done = ran([{"a": np.array(first)}, {"a": np.array(second)}], [text])
    assert isinstance(done, Ran)
    return [arrays["c"].tolist() for arrays in done.after["forward"]]


ONE, TWO = [[1.0, 5.0], [3.0, 4.0]], [[10.0, 2.0], [30.0, 40.0]]


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("c = all_reduce(a)", [[[11, 7], [33, 44]]] * 2),
        ("c = all_reduce_max(a)", [[[10, 5], [30, 40]]] * 2),
        ("c = all_gather(a)", [[[1, 5], [3, 4], [10, 2], [30, 40]]] * 2),
        ("c = all_gather_columns(a)", [[[1, 5, 10, 2], [3, 4, 30, 40]]] * 2),
        ("c = reduce_scatter(a)", [[[11, 7]], [[33, 44]]]),
        ("c = all_to_all(a)", [[[1, 5, 10, 2]], [[3, 4, 30, 40]]]),
        ("c = a.T @ a", [[[10, 17], [17, 41]], [[1000, 1220], [1220, 1604]]]),
        ("c = rowsum(a)", [[[6], [7]], [[12], [70]]]),
        ("c = rowmax(a)", [[[5], [4]], [[10], [40]]]),
        ("c = colsum(a)", [[[4, 9]], [[40, 42]]]),
    ],
)
def test_each_operation_by_pencil(text, results):
    assert on_two_ranks(text, ONE, TWO) == results


@settings(derandomize=True, deadline=None, max_examples=60)
@given(z=st.floats(-6, 6))
def test_the_slope_is_the_derivative_of_the_gelu(z):
    wanted = z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    above, below = gelu(np.array(z + 1e-5)), gelu(np.array(z - 1e-5))
    assert math.isclose(float(gelu(np.array(z))), wanted, rel_tol=1e-12, abs_tol=1e-15)
    assert abs(float(gelu_slope(np.array(z))) - float(above - below) / 2e-5) < 1e-8


def slope_of(loss, array):
    """The gradient by differences; ``loss`` reads the array anew."""
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        before, values = array[place], []
        for step in (1e-5, -1e-5):
            array[place] = before + step
            values.append(loss())
        array[place] = before
        gradient[place] = (values[0] - values[1]) / 2e-5
    return gradient


def test_norm_back_is_the_derivative_of_norm():
    stream = np.random.default_rng(3)
    x, gradient = stream.standard_normal((2, 3, 4))
    wanted = slope_of(lambda: float((norm(x) * gradient).sum()), x)
    np.testing.assert_allclose(norm_back(x, gradient), wanted, atol=1e-8)


def check_gradients(layer, output, forward):
    """What one device is said to compute: y by a formula, gradients by differences."""
    arrays = dict(layer.start.arrays[0])
    dy = layer.start.arriving[0].get("dy", 1.0)
    np.testing.assert_allclose(forward(arrays), layer.expected["forward"][0][output], atol=1e-9)
    for name, gradient in layer.expected["backward"][0].items():
        array = arrays[name.removeprefix("d_") if name != "dx" else "x"]
        wanted = slope_of(lambda: float((forward(arrays) * dy).sum()), array)
        np.testing.assert_allclose(gradient, wanted, atol=1e-6, err_msg=name)


def mlp_forward(arrays, blocks, normed=False):
    y = arrays["x"]
    for n in range(blocks):
        into = y
        if normed:
            into = y / np.sqrt((y**2).mean(axis=1, keepdims=True) + 1e-5) * arrays[f"gain{n}"]
        hidden = gelu(into @ arrays[f"up{n}"] + arrays.get(f"up_bias{n}", 0.0))
        if f"gate{n}" in arrays:
            hidden = hidden * (into @ arrays[f"gate{n}"])
        y = y + hidden @ arrays[f"down{n}"] + arrays[f"down_bias{n}"]
    return y


@pytest.mark.parametrize("gated", [False, True])
def test_the_mlps_gradients_are_its_derivatives(gated):
    check_gradients(mlp_stack(2, gated, 1), "y", lambda arrays: mlp_forward(arrays, 2))


def test_the_sequences_gradients_are_its_derivatives():
    layer = sequence_stack(2, 1, tokens=3)
    check_gradients(layer, "y", lambda arrays: mlp_forward(arrays, 2, normed=True))


def attention_forward(arrays, heads, group):
    """Head by head and token by token."""
    q, k, v = (arrays["x"] @ arrays[name] for name in ("wq", "wk", "wv"))
    mixed = np.zeros_like(q)
    for head in range(heads):
        mine = slice(2 * head, 2 * head + 2)
        used = slice(2 * (head // group), 2 * (head // group) + 2)
        for token in range(len(q)):
            scores = k[: token + 1, used] @ q[token, mine] / math.sqrt(2)
            chances = np.exp(scores) / np.exp(scores).sum()
            mixed[token, mine] = chances @ v[: token + 1, used]
    return mixed @ arrays["wo"]


@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (3, 1)])
def test_the_attentions_gradients_are_its_derivatives(heads, kv_heads):
    cut = HeadCut((tuple(range(heads)),), (tuple(range(kv_heads)),), heads // kv_heads)
    forward = lambda arrays: attention_forward(arrays, heads, heads // kv_heads)  # noqa: E731
    check_gradients(attention_layer(cut, tokens=3), "y", forward)


def test_attention_is_the_engines_where_no_heads_are_shared():
    cut = HeadCut(((0, 1), (2, 3)), ((0, 1), (2, 3)), 1)
    layer = attention_layer(cut)
    first, second = layer.start.arrays
    qkv = np.stack(
        [np.concatenate([first[n], second[n]], 1).reshape(4, 4, 2) for n in ("wq", "wk", "wv")], 1
    )
    out = np.concatenate([first["wo"], second["wo"]]).reshape(4, 2, 4)
    weights, dy = {"qkv": qkv, "out": out}, layer.start.arriving[0]["dy"]
    found = pair(attention, ATTENTION_AXES, weights, np.zeros(4), first["x"], dy, 2)
    np.testing.assert_allclose(found.outputs, layer.expected["forward"][0]["y"], atol=1e-12)
    np.testing.assert_allclose(
        found.input_gradient, layer.expected["backward"][1]["dx"], atol=1e-12
    )


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_loss_is_the_engines(scale):
    """Megatron-LM's loss of a cut vocabulary as the second implementation (S55)."""
    layer = word_loss(3, scale=scale)
    parts = layer.start.arrays
    weight = np.concatenate([part["words"] for part in parts], axis=1)
    targets = np.concatenate([part["wanted"] for part in parts], axis=1).argmax(axis=1)
    found = cross_entropy(parts[0]["x"], weight, targets, 3)
    np.testing.assert_allclose(found.outputs.sum(), layer.expected["forward"][0]["loss"][0, 0])
    back = layer.expected["backward"]
    np.testing.assert_allclose(found.input_gradient, back[0]["dx"], atol=1e-9)
    joined = np.concatenate([part["d_words"] for part in back], axis=1)
    np.testing.assert_allclose(found.gradients["weight"], joined, atol=1e-9 * scale)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(ranks=st.integers(1, 6), rows=st.integers(1, 9), columns=st.integers(1, 5))
def test_the_bytes_of_an_all_reduce_are_the_rings(ranks, rows, columns):
    """2(N - 1) chunks of at most ⌈S/N⌉ numbers (Patarasuk and Yuan 2009)."""
    wires = Wires(ranks)
    wires.all_reduce("a", [np.ones((rows, columns))] * ranks)
    most = all_reduce_bytes(ranks, rows * columns)
    assert max(wires.sent()) <= most
    if rows * columns % ranks == 0:
        assert max(wires.sent()) == most


def test_copies_are_summed_head_by_head():
    cut = HeadCut(((0,), (1,), (2,)), ((0,), (0, 1), (1,)), 2)
    wires = Wires(3)
    parts = [np.array([[1.0, 2.0]]), np.array([[10.0, 20.0, 30.0, 40.0]]), np.array([[5.0, 6.0]])]
    found = sum_copies(cut, wires, "a", parts)
    assert [part.tolist() for part in found] == [[[11, 22]], [[11, 22, 35, 46]], [[35, 46]]]
    assert [one.sent_bytes for one in wires.exchanges] == [(16, 32, 16)]
    alone = HeadCut(((0,), (1,)), ((0,), (1,)), 1)
    sum_copies(alone, wires, "a", [parts[0], parts[2]])
    assert len(wires.exchanges) == 1


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (7, "the forward"),
        (["z = x @ up"] * 1000, "the forward"),
        (["z = x @ up", 3], "forward, action 2"),
        (["z = x @ up + b"], "forward, action 1"),
        (["z = x + up.T"], "forward, action 1"),
        (["z = gelu(x, y)"], "forward, action 1"),
        (["z = system(x)"], "forward, action 1"),
        (["Z = gelu(x)"], "forward, action 1"),
        (["a, b = gelu(x)"], "forward, action 1"),
        (["a, a, b = attend_back(q, k, v, d)"], "forward, action 1"),
        (["z = x"], "forward, action 1"),
        (["z = " + "x" * 200], "forward, action 1"),
    ],
)
def test_texts_that_are_no_program_are_told(value, where):
    fault = read_phase("forward", value)
    assert isinstance(fault, Fault) and fault.where == where


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        ("c = a @ d", "rank 0, forward, action 1", "no d"),
        ("c = a @ b", "rank 1, forward, action 1", "2 × 2 @ 3 × 2"),
        ("c = a + b", "rank 1, forward, action 1", "2 × 2 + 3 × 2"),
        ("c = all_reduce(b)", "rank 0, forward, action 1", "3 × 2 on rank 1"),
        ("c = norm_back(a, b)", "rank 1, forward, action 1", "3 × 2"),
        ("c = attend(a, a, a)", "forward, action 1", "none in this task"),
        ("c = sum_copies(a)", "forward, action 1", "none in this task"),
    ],
)
def test_an_action_that_cannot_be_done_is_told_with_rank_and_number(text, where, told):
    arrays = [{"a": np.ones((2, 2)), "b": np.ones((rows, 2))} for rows in (2, 3)]
    fault = ran(arrays, [text])
    assert isinstance(fault, Fault)
    assert fault.where == where and told in fault.got and text in fault.got


def test_an_array_that_grows_without_end_is_told():
    fault = ran([{"a": np.ones((9, 9))}] * 4, ["a = all_gather(a)"] * 30)
    assert isinstance(fault, Fault) and "far too many" in fault.got


def test_what_the_backward_reads_of_the_forward_is_kept():
    arrays = [{"x": np.ones((2, 3)), "w": np.ones((3, 5))}]
    forward = ["a = x @ w", "b = gelu(a)", "w2 = a + b", "c = gelu(b)"]
    backward = ["d = b @ w.T", "b = gelu(d)", "e = b * d", "f = x + d", "g = w2 + w2"]
    done = ran(arrays, forward, backward, weights=["w"])
    assert isinstance(done, Ran)
    assert done.kept == ("b", "x", "w2")
    assert done.products == {"forward": 1, "backward": 1}
    hidden = ran(arrays, ["w = x @ w"], ["d = w + w"], weights=["w"])
    assert isinstance(hidden, Ran) and hidden.kept == ("w",)


def test_what_is_not_a_ranks_part_is_told():
    arrays = [{"x": np.ones((2, 3))}, {"x": np.ones((2, 3))}]
    whole = ran(arrays, ["a = all_gather(x)"], ["b = a + a", "c = x + x"])
    alone = ran([{"x": np.ones((4, 3))}], ["a = all_gather(x)"], ["b = a + a", "c = x + x"])
    part = ran(arrays, ["a = all_gather(x)"], ["c = x + x"])
    assert all(isinstance(one, Ran) for one in (whole, alone, part))
    fault = kept_whole(whole, alone)
    assert fault and fault.where == "rank 0, a of the forward" and fault.got == "4 × 3"
    assert kept_whole(part, alone) is None


def test_a_collective_too_many_or_missing_is_told():
    arrays = [{"x": np.ones((2, 2))}] * 2
    done = ran(arrays, ["y = all_reduce(x)", "z = all_reduce(y)", "u = all_gather(x)"])
    assert isinstance(done, Ran)
    assert "action 2" in other_exchanges(done, "forward", 1).where
    assert "action 3" in other_exchanges(done, "forward", 2).where
    assert other_exchanges(done, "forward", 2, "all-gather") is None
    assert "4 all-reduces" in other_exchanges(done, "forward", 4, "all-gather").expected
    assert sent_bytes(done, "forward") == 32 + 32 + 32 and sent_bytes(done, "backward") == 0
    told = too_many_sent(done, "forward", 95, drawn=True)
    assert told and told.got.count("32 B") == 3
    assert too_many_sent(done, "forward", 96) is None
    assert too_many_products(done, 0, 0) is None


def test_a_wrong_array_is_told_with_rank_and_action():
    layer = mlp_stack(1, False, 2)
    program = {"forward": ["y = x + x"], "backward": ["dx = dy @ dy.T"]}
    done = run_handed(layer, program)
    assert isinstance(done, Ran)
    fault = wrong_arrays(done, layer, "forward")
    assert fault and fault.where == "rank 0, y of forward action 1" and "off" in fault.got
    fault = wrong_arrays(done, layer, "backward", ["dx"])
    assert fault and fault.got == "5 × 5"
    fault = wrong_arrays(done, layer, "backward", ["d_up0"])
    assert fault and fault.got == "none"
    assert isinstance(run_handed(layer, {"forward": []}), Fault)


GOOD = {"input": [(0, 2), (0, 2)], "weight": [[(0, 2, 0, 2)], [(0, 2, 2, 4)]], "output": "join"}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"output": "add"}, "result['output']"),
        ({"input": [(0, 2)]}, "result['input']"),
        ({"input": [(0, 2), (0, 3)]}, "rank 1, the input"),
        ({"input": [(0, 2), (0, True)]}, "rank 1, the input"),
        ({"input": [(0, 2), 2]}, "rank 1, the input"),
        ({"input": [(0, 2), (0, 1, 2)]}, "rank 1, the input"),
        ({"weight": [[(0, 2, 0, 2)], [7]]}, "rank 1, block 0 of the weight"),
        ({"weight": [[], [(0, 2, 2, 4)]]}, "rank 0, the weight"),
        ({"weight": [[(0, 2, 0, 2)], [(0, 2, 2, 5)]]}, "rank 1, block 0 of the weight"),
        ({"weight": [[(0, 2, 0, 2)], [(0, 2, 2, 2)]]}, "rank 1, block 0 of the weight"),
        ({"input": [(0, 2), (0, 1)]}, "rank 1, block 0 of the weight"),
    ],
)
def test_data_that_is_no_cut_is_told(change, where):
    fault = read_cut({**GOOD, **change}, 2, 4, 2)
    assert isinstance(fault, Fault) and fault.where == where
    assert isinstance(read_cut({"input": []}, 2, 4, 2), Fault)


@pytest.mark.parametrize("missing", GOOD)
def test_an_entry_that_a_cut_lacks_is_told(missing):
    fault = read_cut({key: item for key, item in GOOD.items() if key != missing}, 2, 4, 2)
    assert isinstance(fault, Fault) and missing in fault.expected


def cut_of(inputs, blocks, output, rows=4, columns=4):
    return Cut(rows, columns, inputs, blocks, output)


def test_a_cut_that_gives_another_output_is_told_with_rank_and_column():
    whole = ((0, 4), (0, 4))
    halves = (((0, 4, 0, 2),), ((0, 4, 2, 4),))
    rows = (((0, 2, 0, 4),), ((2, 4, 0, 4),))
    assert wrong_output(cut_of(whole, halves, "join")) is None
    assert "rank 1" in wrong_output(cut_of(whole, halves, "sum")).where
    assert wrong_output(cut_of(((0, 2), (2, 4)), rows, "sum")) is None
    assert wrong_output(cut_of(((0, 2), (2, 4)), rows, "join")).where.startswith("rank 0, column 0")
    lacking = cut_of(whole, (halves[0], halves[0]), "join")
    assert wrong_output(lacking).where == "column 2 of the output"
    assert needless_input(cut_of(whole, rows, "sum")).where == "rank 0, the input"
    assert unequal_share(lacking).got == "some of rank 0's"
    twice = cut_of(whole, (((0, 4, 0, 2), (0, 1, 1, 2)), halves[1]), "join")
    assert unequal_share(twice).got == "blocks that overlap"
    uneven = cut_of(whole, (((0, 4, 0, 1),), ((0, 4, 1, 4),)), "join")
    assert unequal_share(uneven).got == "4 numbers"
    assert unlike_parts(cut_of(whole, halves, "join"), 2).where.startswith("rank 0, part 1")


@pytest.mark.parametrize(
    ("q", "kv", "where"),
    [
        ([[0, 1]], [[0], [1]], "result['q']"),
        ([[0, 1], [2, 4]], [[0], [1]], "rank 1, 'q'"),
        ([[0, 1], [2, 2]], [[0], [1]], "rank 1, 'q'"),
        ([[0, 1], [2, 3]], [[], [1]], "rank 0, 'kv'"),
        ([[0, 1], [1, 2]], [[0], [1]], "query head 1"),
        ([[0, 1], [2, 3]], [[0], [0]], "rank 1, query head 2"),
    ],
)
def test_data_that_deals_out_no_heads_is_told(q, kv, where):
    fault = read_heads({"q": q, "kv": kv}, 4, 2, 2)
    assert isinstance(fault, Fault) and fault.where == where


def test_heads_dealt_out_badly_are_told():
    assert unequal_heads(HeadCut(((0, 1), (2, 3)), ((0,), (1,)), 2)) is None
    assert unequal_heads(HeadCut(((0, 1, 2), (3,)), ((0, 1), (1,)), 2)).where == "rank 0"
    idle = unequal_heads(HeadCut(((0, 1), (2, 3)), ((0, 1), (1,)), 2))
    assert idle.where == "rank 0, key/value head 1"
    assert unequal_heads(HeadCut(((0, 2), (1, 3)), ((0, 1), (0, 1)), 2)).got == "2"


NAMES = st.sampled_from(("x", "up0", "up_bias0", "down0", "down_bias0", "dy", "a", "b", "nothing"))
TEXTS = (
    st.builds(
        "{} = {} {} {}".format,
        st.sampled_from("ab"),
        NAMES | st.just("up0.T"),
        st.sampled_from("@+-*/"),
        NAMES | st.just("a.T"),
    )
    | st.builds(
        "{} = {}({})".format,
        st.sampled_from(("a", "b", "y", "dx")),
        st.sampled_from(
            [
                "gelu",
                "exp",
                "log",
                "rowmax",
                "colsum",
                "norm",
                "sum_copies",
                "all_reduce",
                "all_reduce_max",
                "all_gather",
                "all_gather_columns",
                "reduce_scatter",
                "all_to_all",
            ]
        ),
        NAMES,
    )
    | st.sampled_from(("a = attend(x, a, b)", "a = norm_back(x, b)", "", "a = b = x"))
)
PROGRAMS = st.fixed_dictionaries(
    {"forward": st.lists(TEXTS, max_size=8), "backward": st.lists(TEXTS, max_size=8)}
)


@settings(derandomize=True, deadline=None, max_examples=250)
@given(program=PROGRAMS | st.none() | st.lists(TEXTS), ranks=st.integers(1, 4))
def test_any_program_gets_a_verdict(program, ranks):
    layer = mlp_stack(1, False, ranks)
    done = run_handed(layer, program)
    if isinstance(done, Ran):
        for phase in ("forward", "backward"):
            fault = wrong_arrays(done, layer, phase)
            assert isinstance(fault, Fault)
            other_exchanges(done, phase, 1)
            assert (sent_bytes(done, phase) == 0) is not bool(
                [one for one in done.exchanges if one.phase == phase and any(one.sent_bytes)]
            )


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    q=st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=2, max_size=2),
    kv=st.lists(st.lists(st.integers(0, 2), max_size=3), min_size=2, max_size=2),
)
def test_any_deal_of_heads_gets_a_verdict(q, kv):
    cut = read_heads({"q": q, "kv": kv}, 4, 2, 2)
    if isinstance(cut, HeadCut):
        program = {
            "forward": ["q = x @ wq", "k = x @ wk", "a = attend(q, k, k)", "y = a @ wo"],
            "backward": ["b, c, d = attend_back(q, k, k, a)", "e = sum_copies(c)"],
        }
        assert isinstance(run_handed(attention_layer(cut), program), (Ran, Fault))
        unequal_heads(cut)
