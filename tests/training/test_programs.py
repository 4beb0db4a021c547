import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.training.programs import (
    COMMUNICATION,
    STEP_ACTIONS,
    UNIT_ACTIONS,
    Action,
    Options,
    parse,
    program,
)
from shardbook.training.strategies import STRATEGIES, strategy


def text(name, **options):
    return ", ".join(str(a) for a in program(STRATEGIES[name], 2, Options(**options)))


@hypothesis_settings(derandomize=True, deadline=None)
@given(st.sampled_from(sorted(UNIT_ACTIONS)), st.integers(0, 10**6))
def test_an_action_and_its_text_are_inverses(kind, unit):
    assert parse(str(Action(kind, unit))) == Action(kind, unit)


@pytest.mark.parametrize("kind", STEP_ACTIONS)
def test_an_action_without_a_unit_and_its_text_are_inverses(kind):
    assert parse(kind) == Action(kind)


@pytest.mark.parametrize("bad", ["", "forward", "forward x", "forward -1", "loss 3", "jump 2", "3"])
def test_other_texts_are_no_actions(bad):
    with pytest.raises(InputError, match="action"):
        parse(bad)


def test_the_strategies_differ_in_these_actions_only():
    """(S24)"""
    start, end = "load, forward 0, forward 1, loss, ", ", clear"
    updates, gathers = "update 0, update 1", "update 0, all-gather 0, update 1, all-gather 1"
    ar = "backward 1, all-reduce 1, backward 0, all-reduce 0, "
    rs = ar.replace("all-reduce", "reduce-scatter")
    kept = (
        "backward 1, reduce-scatter 1, keep-shard 1, backward 0, reduce-scatter 0, keep-shard 0, "
    )
    assert text("dp") == start + ar + updates + end
    assert text("zero1-all-reduce") == start + ar + gathers + end
    assert text("zero1") == start + rs + gathers + end
    assert text("zero2") == start + kept + gathers + end
    assert text("zero3") == (
        "load, unshard 0, forward 0, reshard 0, unshard 1, forward 1, reshard 1, loss, "
        "unshard 1, backward 1, reduce-scatter 1, keep-shard 1, reshard 1, "
        "unshard 0, backward 0, reduce-scatter 0, keep-shard 0, reshard 0, " + updates + end
    )


def test_the_last_units_weights_may_be_kept_for_backward():
    kept = text("zero3", regather_last=False)
    assert "unshard 1, forward 1, loss, backward 1" in kept
    assert kept.count("unshard") == text("zero3").count("unshard") - 1


def test_without_reshard_or_with_whole_model_gathers_each_unit_is_gathered_once():
    for options in ({"reshard_after_forward": False}, {"gather_whole_model": True}):
        actions = text("zero3", **options)
        assert actions.count("unshard") == 2
        assert actions.count("reshard") == 2
    assert "unshard 0, unshard 1, forward 0" in text("zero3", gather_whole_model=True)


def test_accumulation_reduces_once_or_each_time():
    once, each = (text("zero2", micro_batches=3, reduce_each=r) for r in (False, True))
    assert (once.count("reduce-scatter"), each.count("reduce-scatter")) == (2, 6)
    assert once.count("backward") == each.count("backward") == 6


def test_hybrid_sharding_also_sums_over_the_groups_once_a_step():
    options = Options(micro_batches=2, reduce_each=True)
    actions = [str(a) for a in program(STRATEGIES["zero3"], 1, options, replicas=2)]
    assert actions.count("all-reduce 0") == 1
    assert actions.index("all-reduce 0") > max(
        i for i, a in enumerate(actions) if a == "keep-shard 0"
    )


def test_every_action_is_explained_and_communication_is_among_them():
    assert set(UNIT_ACTIONS) | set(STEP_ACTIONS) >= COMMUNICATION


@pytest.mark.parametrize("name", ["zero1", "zero3"])
def test_only_data_parallelism_sums_the_whole_model(name):
    with pytest.raises(InputError, match="reduce_whole_model"):
        text(name, reduce_whole_model=True)


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="zero1-all-reduce"):
        strategy("zero4")
