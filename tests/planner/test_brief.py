"""The planner's answer in words, and published configurations against it (S71)."""

import pytest

from shardbook.planner.brief import brief
from shardbook.planner.plan import plan
from shardbook.planner.presets import cluster_named, model_named
from shardbook.planner.published import FRACTION, LLAMA_ROWS, Published, published_runs


@pytest.fixture(scope="module")
def runs() -> tuple[Published, ...]:
    return published_runs()


def test_one_fraction_meets_every_published_speed_within_a_quarter(
    runs: tuple[Published, ...],
) -> None:
    assert len(runs) == 10 + len(LLAMA_ROWS)
    assert {run.cluster.fraction for run in runs} == {FRACTION}
    for run in runs:
        assert run.ratio == pytest.approx(1, abs=0.25), run.name
        assert run.ratio == run.computed / run.reported


def test_all_fit_but_the_one_with_most_in_flight_for_which_the_bound_is_too_high(
    runs: tuple[Published, ...],
) -> None:
    for run in runs:
        over = run.peak.bytes / (0.92 * run.cluster.card.memory)
        if run.name == "llama3-405b, 8,192 cards":
            # the report keeps less than the ledger's upper bound
            assert "activations are the most" in run.unfit and 1 < over < 1.2
        else:
            assert run.unfit == "" and over <= 1


def test_the_published_degrees_are_kept(runs: tuple[Published, ...]) -> None:
    by_name = {run.name: run.layout for run in runs}
    largest = by_name["megatron-1t"]
    assert (largest.tensor, largest.pipeline, largest.data) == (8, 64, 6)
    long = by_name["llama3-405b, long sequences"]
    assert (long.tensor, long.context, long.pipeline, long.data) == (8, 16, 16, 8)
    assert all(run.layout.cards == run.cluster.size for run in runs)


def test_a_brief_has_what_the_prompt_asks_for() -> None:
    """Strategy, memory, communication, throughput: D's prompt."""
    answer = plan(model_named("megatron-18b"), cluster_named("a100-80,nodes=32"), best=5)
    said = brief(answer)
    best = answer.ranked[0]
    assert said is not None
    assert said.strategy.startswith(str(best.layout))
    assert f"{best.peak.bytes / 1e9:.1f} GB" in said.memory
    assert "a card sends" in said.communication
    rate = answer.model.batch / best.seconds
    assert f"{best.seconds:.3g} s a step" in said.throughput
    assert f"{rate:,.0f} tokens/s" in said.throughput
    assert said.simplest == "the same" or "times as long" in said.simplest
    assert len(str(said).splitlines()) == 5


def test_a_brief_of_nothing_is_none() -> None:
    text = "a100-80,memory=2GB,host_memory=1GB"
    assert brief(plan(model_named("llama3-70b"), cluster_named(text), best=1)) is None


def test_what_lies_on_the_host_is_told() -> None:
    answer = plan(model_named("llama3-70b"), cluster_named("h100-80"), best=1)
    said = brief(answer)
    assert said is not None and answer.ranked[0].layout.offload == "host"
    assert "beside it" in said.memory
