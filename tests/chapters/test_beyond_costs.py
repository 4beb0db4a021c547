"""What the page on costs says: against reports and pencil and paper (S73, S75)."""

import pytest
from chapters.execute import Executed, execute

from shardbook.explorers.notebook import Shown


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("beyond_costs.md")


def test_the_bill_by_hand(page: Executed) -> None:
    said = page.said
    seconds = 6 * 1e9 * 1e10 / 150e12
    assert said["t_flop"] == "60 × 10¹⁸"
    assert float(said["t_cards"]) == round(seconds / 3600) == 111
    assert said["t_length"] == f"{seconds / 3600 / 8:.3g} h" == "13.9 h"
    assert said["t_twice"] == f"{seconds / 3600 / 16:.3g} h"
    assert float(said["t_money"]) == round(2 * seconds / 3600) == 222
    assert said["quarter"] == "25%"


def test_the_large_model_as_in_the_source(page: Executed) -> None:
    said = page.said
    # 26.3M h and $92M at 400 TFLOP/s (S75)
    assert (said["hours"], said["dollars"]) == ("26.3 million", "92 million")
    assert said["share"] == f"{400 / 989.4:.1%}"
    assert said["length"] == f"{26.325e6 / 16384 / 24:.0f} days"
    assert said["gwh"] == f"{26.325e6 * 0.7 * 1.3 / 1e6:.3g}"
    # attention's 4sh FLOP a layer and token beside 24h² (N45), Llama 3's sequences
    assert said["attention"] == f"{4 * 8192 * 16384 / (24 * 16384**2):.0%}"


def test_the_explorer_shows_the_numbers_of_the_text(page: Executed) -> None:
    shown = next(x for x in page.shown if isinstance(x, Shown))
    sentence = shown.explorer.view(shown.raw).sentence
    for number in ("26.3M card-hours", "67 days on 16,384 cards", "$92.2M of rent"):
        assert number in sentence


def test_what_the_reports_need(page: Executed) -> None:
    llama, deepseek = page.tables()["Reported trainings, and what each needs"]
    # 6 · 405e9 · 15.6e12 over 30.84M h, and 6 · 37e9 · 14.8e12 over 2.788M h
    assert llama[5:] == (f"{100 / 30.84:.2f}", "341", "35%")
    assert deepseek[5:] == ("2.00", "327", "33%")
    assert page.said["more"] == f"{30.84 / 26.325 - 1:.0%}"
    # 2.788M h × $2 = $5.58M; × 3.5 = $9.76M (M16)
    assert "$5.58M" in page.said["m16_why"] and "$9.76M" in page.said["m16_why"]


def test_rent_or_own_by_hand(page: Executed) -> None:
    said = page.said
    hours, running = 4 * 365 * 24, 0.7 * 1.3 * 0.1
    assert (said["each_hour"], said["running"]) == (f"{40000 / hours:.2f}", f"{running:.3f}")
    assert said["owned"] == f"{40000 / hours / 0.8 + running:.2f}"
    assert said["even"] == f"{40000 / hours / (3.5 - running):.0%}"
    assert said["even_cheap"] == f"{40000 / hours / (2 - running):.0%}"
    assert said["even_shorter"] == f"{80000 / hours / (3.5 - running):.0%}"


def test_exercises_and_states(page: Executed) -> None:
    said = page.said
    hours = 6 * 70e9 * 1e12 / (0.35 * 312e12) / 3600
    assert said["x_hours"] == f"{hours / 1e6:.3g} million"
    assert said["x_length"] == f"{hours / 512 / 24:.0f} days"
    # 12B on 8 ranks: 4Ψ + 12Ψ/8, 2Ψ + 14Ψ/8 and 16Ψ/8; only the last fits into 32 GiB
    stages = (4 * 12 + 18, 2 * 12 + 21, 24)
    named = (said["stage_one"], said["stage_two"], said["stage_three"])
    assert named == tuple(f"{size} GB" for size in stages)
    assert stages[2] < 32 * 2**30 / 1e9 < min(stages[:2])


def test_there_are_enough_questions(page: Executed) -> None:
    assert len(page.questions()) >= 8
