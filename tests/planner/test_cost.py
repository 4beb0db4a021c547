"""Training costs against reported trainings and hand-made sums (S73, S75) (M16, M25)."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.cli import main
from shardbook.commands.cost import command
from shardbook.errors import InputError
from shardbook.planner.cost import REPORTED, rent_or_own, training_cost
from shardbook.planner.presets import CARDS, MEGATRON_TABLE, MODELS, cluster_named, model_named
from shardbook.planner.reconciliation import corrections

#: billions of parameters, as printed in the papers
PRINTED = {
    "megatron-1.7b": 1.7, "megatron-3.6b": 3.6, "megatron-7.5b": 7.5, "megatron-18b": 18.4,
    "megatron-39b": 39.1, "megatron-76b": 76.1, "megatron-145b": 145.6, "megatron-310b": 310.1,
    "megatron-530b": 529.6, "megatron-1t": 1008.0, "gpt3-175b": 175, "llama3-8b": 8.03,
    "llama3-70b": 70.6, "llama3-405b": 405, "mixtral-8x7b": 46.7,
}  # fmt: skip


def asked(*arguments):
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_llama_3_405b_takes_26_million_hours_and_92_million_dollars():
    answer = asked("--parameters", "405B", "--tokens", "15.6T", "--achieved", "400TFLOP/s")
    assert answer["card_hours"] == pytest.approx(26.3e6, rel=2e-3)
    assert answer["dollars"] == pytest.approx(92e6, rel=2e-3)


def test_reported_trainings_and_what_they_need():
    needs = {each.name: each for each in REPORTED}
    assert needs["DeepSeek-V3"].price_needed == pytest.approx(2.0)
    assert needs["DeepSeek-V3"].card_hours * 3.5 == pytest.approx(9.76e6, rel=1e-3)
    for each in REPORTED:
        cost = training_cost(each.parameters, each.tokens, 1, each.achieved_needed, 1.0)
        assert cost.card_hours == pytest.approx(each.card_hours)
        assert 0.3 < each.utilisation_needed < 0.45
    assert {row["name"] for row in asked("--reported")} == set(needs)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.integers(1, 10**4), st.floats(0.1, 10), st.floats(0.01, 1))
def test_cards_change_the_time_but_not_the_money(cards, price, share):
    one, many = (training_cost(7 * 10**9, 10**12, n, 1e15 * share, price, 700) for n in (1, cards))
    assert many.seconds * cards == pytest.approx(one.seconds)
    assert (many.dollars, many.joules) == pytest.approx((one.dollars, one.joules))


def test_energy_by_hand():
    # 6e21 FLOP at 1e15 FLOP/s are 6e6 s; 500 W × 1.2 is 600 W.
    cost = training_cost(10**9, 10**12, 10, 1e15, 1.0, 500, 1.2)
    assert cost.seconds == pytest.approx(6e5)
    assert cost.joules == pytest.approx(3.6e9)


def test_owning_costs_the_rent_at_the_break_even():
    own = rent_or_own(2.0, 30_000, 4, 0.5, 700, 0.1, 1.3)
    assert own.running_per_hour == pytest.approx(0.091)
    assert own.break_even is not None
    even = rent_or_own(2.0, 30_000, 4, own.break_even, 700, 0.1, 1.3)
    assert even.dollars_per_used_hour == pytest.approx(2.0)
    assert rent_or_own(0.05, 30_000, 4, 0.5, 700, 0.1, 1.3).break_even is None


@pytest.mark.parametrize("name", list(PRINTED))
def test_a_preset_has_the_printed_number_of_parameters(name):
    assert MODELS[name].parameters / 1e9 == pytest.approx(PRINTED[name], rel=0.032)
    assert set(PRINTED) == set(MODELS) and set(MEGATRON_TABLE) < set(MODELS)


def test_a_token_of_mixtral_uses_13_billion():
    assert MODELS["mixtral-8x7b"].active_parameters / 1e9 == pytest.approx(12.9, abs=0.05)


def test_models_and_clusters_are_written_as_pairs():
    model = model_named("layers=2,hidden=1K,heads=8,batch=8192")
    assert (model.feed_forward, model.kv_heads, model.layer_parameters) == (4000, 8, 12_000_000)
    assert model_named("llama3-8b,sequence=4096").sequence == 4096
    cluster = cluster_named("h100-80,nodes=4,cards=2,between=400Gb/s,memory=40GB,fraction=0.6")
    assert (cluster.size, cluster.between, cluster.card.memory) == (8, 50e9, 40 * 10**9)


@pytest.mark.parametrize(
    "text", ["gpt5", "", "layers=2", "llama3-8b,colour=3", "llama3-8b,layers", "llama3-8b,layers=0",
             "llama3-8b,layers=2,layers=3", "llama3-8b,heads=7", "llama3-8b,batch=1000",
             "mixtral-8x7b,active=9"],
)  # fmt: skip
def test_bad_models_are_refused(text):
    with pytest.raises(InputError):
        model_named(text)


@pytest.mark.parametrize(
    "text", ["", "nodes=2", "h200", "h100-80,nodes=0", "h100-80,fraction=2", "h100-80,x=1"]
)
def test_bad_clusters_are_refused(text):
    with pytest.raises(InputError):
        cluster_named(text)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--model", "llama3-8b"], ["--model", "llama3-8b", "--parameters", "7B", "--tokens", "1"],
     ["--parameters", "7B", "--tokens", "1T", "--card", "v100-32"],
     ["--parameters", "7B", "--tokens", "1T", "--utilisation", "1.1"],
     ["--parameters", "7B", "--tokens", "1T", "--achieved", "1000TFLOP/s"],
     ["--parameters", "7B", "--tokens", "0"],
     ["--parameters", "7B", "--tokens", "1T", "--purchase", "1", "--duty", "0"]],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["cost", *arguments])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_table_says_the_money():
    asked_for = ["--model", "llama3-405b", "--tokens", "15.6T", "--achieved", "400TFLOP/s"]
    result = CliRunner().invoke(command, [*asked_for, "--purchase", "30000"])
    assert "$92,330,703" in result.output and "owning pays" in result.output
    assert CARDS["h100-80"].price == 3.5


def test_the_mistakes_come_out_as_corrected():
    _, m16, m25, _ = corrections()
    assert m16.figures[0].as_source == pytest.approx(9.76, abs=0.01)
    assert m16.figures[0].right == pytest.approx(5.58, abs=0.01)
    pipeline, tensor = m25.figures
    assert pipeline.right == 8 * tensor.right == pytest.approx(2 * 12 * 25600**2 / 1e9)
