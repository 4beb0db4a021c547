"""The explorer of the selection tree shows the planner's choice (S72)."""

import pytest

from shardbook.explorers.registry import get
from shardbook.explorers.view import View
from shardbook.numbers.units import format_bytes
from shardbook.planner.choosing import choose
from shardbook.planner.plan import Candidate, judge
from shardbook.planner.presets import cluster_named, model_named


def shown(**raw: str) -> View:
    return get("which-limit").view(raw)


@pytest.mark.parametrize(
    ("model", "cluster", "raw"),
    [
        ("llama3-8b,batch=4194304", "h100-80,nodes=2", {}),
        ("llama3-70b,batch=4194304", "h100-80", {"model": "llama3-70b", "nodes": "1"}),
        ("mixtral-8x7b,batch=2097152", "a100-40,nodes=4,between=25GB/s",
         {"model": "mixtral-8x7b", "sequence": "4096", "card": "a100-40", "nodes": "4",
          "between": "25GB/s"}),
    ],
)  # fmt: skip
def test_the_table_has_the_engines_steps(model: str, cluster: str, raw: dict[str, str]) -> None:
    choice = choose(model_named(model), cluster_named(cluster))
    rows = shown(**raw).table.rows
    for step, row in zip(choice.steps, rows, strict=False):
        assert step.peak is not None
        assert format_bytes(step.peak.bytes, 3) in row[5]
        assert row[5].startswith("yes") == step.fits
    assert choice.layout is not None
    made = judge(choice.model, choice.cluster, choice.layout)
    assert isinstance(made, Candidate)
    assert format_bytes(made.peak.bytes, 3) in shown(**raw).sentence


def test_the_path_ends_with_the_first_yes() -> None:
    figure = shown().figure
    assert figure.count("not asked") == 2
    assert "stage 1–3, recompute" in figure and "goes on" in figure
    assert shown(model="megatron-1.7b", sequence="2048", nodes="4").figure.count("not asked") == 3


def test_what_does_not_fit_says_how_many_cards_its_states_fill() -> None:
    sentence = shown(model="llama3-405b", nodes="1").sentence
    # 16 B · 405.8B ÷ (0.92 · 80 GiB)
    assert "does not fit" in sentence and "fill 83 cards" in sentence


def test_a_slow_network_is_told_with_what_would_help() -> None:
    sentence = shown(model="mixtral-8x7b", nodes="8", sequence="4096").sentence
    assert "experts over" in sentence and "would take" in sentence
    slow = shown(model="megatron-1.7b", nodes="4", sequence="2048", between="100MB/s").sentence
    assert "a replica fits" in slow and "but then cards wait" in slow


def test_fewer_sequences_than_cards_can_be_told() -> None:
    view = shown(model="llama3-405b", nodes="2048", batch="2048")
    assert "the limit is the batch" in view.sentence
    assert "the batch does not divide" in view.table.rows[0][5]
