"""Lab tp: the references send and keep what closed forms and the engine say, and no less is known."""

from typing import Any

import numpy as np
import pytest
from shardgrade.checkout import reference

from shardbook.labs.checking import examine
from shardbook.labs.handed_tensor_heads import read_heads, unequal_heads
from shardbook.labs.handed_tensor_layers import (
    Layer,
    attention_layer,
    mlp_stack,
    sequence_stack,
    word_loss,
)
from shardbook.labs.handed_tensor_programs import Ran
from shardbook.labs.handed_tensor_results import (
    all_reduce_bytes,
    kept_whole,
    run_handed,
    sent_bytes,
    wrong_arrays,
)
from shardbook.labs.registry import TASKS
from shardbook.labs.values import Fault
from shardbook.training.splitting.blocks import MLP_AXES, mlp
from shardbook.training.splitting.tensor_parallel import linear, pair
from shardbook.training.splitting.vocabulary import cross_entropy


def answer(task: str, *case: Any) -> Any:
    return reference(TASKS[task])(*case)


def equal(layer: Layer, program: Any) -> Ran:
    done = run_handed(layer, program)
    assert isinstance(done, Ran), done
    for phase in ("forward", "backward"):
        assert wrong_arrays(done, layer, phase) is None
    return done


@pytest.mark.parametrize(("cut", "ranks"), [("column", 2), ("column", 3), ("row", 2), ("row", 4)])
def test_a_cut_linear_is_the_engines(cut: str, ranks: int) -> None:
    stream = np.random.default_rng(5)
    x, weight = stream.standard_normal((3, 12)), stream.standard_normal((12, 12))
    found = answer("tp.1", 12, 12, cut, 1, ranks)
    parts = []
    for (start, stop), ((top, bottom, left, right),) in zip(
        found["input"], found["weight"], strict=True
    ):
        parts.append(x[:, start:stop] @ weight[top:bottom, left:right])
    united = sum(parts) if found["output"] == "sum" else np.concatenate(parts, axis=1)
    engine = linear(cut, x, weight, np.zeros((3, 12)), ranks)
    np.testing.assert_allclose(united, engine.outputs, atol=1e-12)
    sums = engine.wires.count().get(("forward", "all-reduce"), 0)
    assert sums == (found["output"] == "sum")


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_a_stack_of_mlps_has_the_engines_collectives(gated: bool, ranks: int) -> None:
    """One all-reduce for each pair and direction (S55)."""
    done = equal(mlp_stack(3, gated, ranks), answer("tp.2", 3, gated))
    ones = np.ones((6, 6))
    weights = {"up": ones, "up_bias": np.ones(6), "down": ones}
    engine = pair(mlp, MLP_AXES, weights, np.ones(6), ones, ones, ranks).wires.count()
    for phase in ("forward", "backward"):
        kinds = [one.collective for one in done.exchanges if one.phase == phase]
        assert kinds == ["all-reduce"] * 3 * engine.get((phase, "all-reduce"), 0)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "ranks"),
    [(4, 4, 2), (8, 2, 4), (8, 1, 4), (6, 3, 3), (12, 4, 2), (8, 4, 8), (5, 5, 1)],
)
def test_attention_is_one_devices_and_sums_copies_only(
    heads: int, kv_heads: int, ranks: int
) -> None:
    program = answer("tp.3", heads, kv_heads, ranks)
    cut = read_heads(program, heads, kv_heads, ranks)
    assert not isinstance(cut, Fault) and unequal_heads(cut) is None
    done = equal(attention_layer(cut), program)
    kinds = [(one.phase, one.collective) for one in done.exchanges]
    sums = [("forward", "all-reduce"), ("backward", "all-reduce")] if ranks > 1 else []
    copies = [("backward", "sum_copies")] * 2 if kv_heads < ranks else []
    assert kinds == sums + copies


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_cut_by_tokens_the_bytes_are_the_engines(ranks: int) -> None:
    """A reduce-scatter and an all-gather are an all-reduce (Korthikanti et al.) (S55)."""
    done = equal(sequence_stack(1, ranks, tokens=12), answer("tp.4", 1, False))
    x = np.ones((12, 4))
    weights = {"up": np.ones((4, 12)), "up_bias": np.ones(12), "down": np.ones((12, 4))}
    for cut in (False, True):
        engine = pair(mlp, MLP_AXES, weights, np.ones(4), x, x, ranks, sequence_parallel=cut)
        assert sent_bytes(done, "forward") == max(engine.wires.sent("forward"))
    assert sent_bytes(done, "forward") == all_reduce_bytes(ranks, 12 * 4)
    assert sent_bytes(done, "backward") <= all_reduce_bytes(ranks, 12 * 4) + all_reduce_bytes(
        ranks, 4
    )


@pytest.mark.parametrize("ranks", [2, 3, 4, 6])
def test_gathered_again_a_rank_keeps_a_part_and_sends_half_a_sum_more(ranks: int) -> None:
    once, again = answer("tp.4", 2, False), answer("tp.4", 2, True)
    runs = {}
    for count in (1, ranks):
        layer = sequence_stack(2, count, tokens=12)
        runs[count] = equal(layer, once), equal(layer, again)
    assert kept_whole(runs[ranks][1], runs[1][1]) is None
    assert kept_whole(runs[ranks][0], runs[1][0])
    more = sent_bytes(runs[ranks][1], "backward") - sent_bytes(runs[ranks][0], "backward")
    assert more == 2 * all_reduce_bytes(ranks, 12 * 4) // 2


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_the_loss_sends_the_lower_bound_and_one_number(ranks: int) -> None:
    tokens = 4 * ranks
    done = equal(word_loss(ranks, tokens=tokens), answer("tp.5", ranks))
    bound = all_reduce_bytes(ranks, tokens)
    assert bound <= sent_bytes(done, "forward") <= bound + all_reduce_bytes(ranks, 1)
    assert sent_bytes(done, "backward") == all_reduce_bytes(ranks, tokens * 4)
    if ranks > 1:
        x, words = np.ones((tokens, 4)), np.ones((4, 3 * ranks))
        engine = cross_entropy(x, words, np.zeros(tokens, int), ranks)
        assert max(engine.wires.sent("forward")) >= 2 * bound


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("tokens", [1, 2, 7])
def test_the_loss_is_right_for_few_tokens_and_large_logits(scale: float, tokens: int) -> None:
    for ranks in (1, 2, 5):
        equal(word_loss(ranks, tokens=tokens, scale=scale), answer("tp.5", ranks))


def test_the_check_names_the_rank_and_the_action() -> None:
    def misspelt(blocks: int, gated: bool) -> Any:
        program = answer("tp.2", blocks, gated)
        return {**program, "forward": [*program["forward"][:2], "bent0 = gelu(zz)"]}

    finding = examine("tp.2", misspelt).finding
    assert finding and finding.fault.where == "rank 0, forward, action 3"
    assert "gelu(zz)" in finding.fault.got and "no zz" in finding.fault.got


def test_the_check_names_the_collective_that_is_too_many() -> None:
    def twice(blocks: int, gated: bool) -> Any:
        program = answer("tp.2", blocks, gated)
        return {**program, "forward": [*program["forward"], "again = all_gather(x)"]}

    finding = examine("tp.2", twice).finding
    assert finding and "again = all_gather(x)" in finding.fault.where
