"""What the page on choosing says: against the planner, pencil and paper, and reports (S71, S72, S74)."""

import pytest
from chapters.execute import Executed, execute

from shardbook.planner.choosing import choose
from shardbook.planner.layouts import Layout
from shardbook.planner.plan import Candidate, judge
from shardbook.planner.presets import MEGATRON_TABLE, cluster_named, model_named


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("beyond_choosing.md")


def test_states_by_hand(page: Executed) -> None:
    said = page.said
    # 16 B · 8.03B; of 80 GiB 0.92 may be filled
    assert said["replica_states"] == f"{16 * 8.03:.0f} GB"
    assert said["budget"] == f"{0.92 * 80 * 2**30 / 1e9:.0f} GB"
    assert said["s_states"] == f"{16 * 70.554 / 16:.1f} GB"
    assert said["b_states"] == f"{16 * 39.07 / 64:.2f} GB"


def test_the_grid_marks_what_the_planner_takes(page: Executed) -> None:
    rows = next(rows for caption, rows in page.tables().items() if "may be filled" in caption)
    model, cluster = model_named("llama3-8b"), cluster_named("h100-80,nodes=2")
    for recompute, *cells in rows:
        for stage, cell in enumerate(cells):
            layout = Layout(data=16, stage=stage, recompute=recompute)
            made = judge(model, cluster, layout)
            assert cell.startswith("✓") == isinstance(made, Candidate)
    assert page.said["layout"] == "DP 16, stage 2, recompute selective"


def test_the_faded_and_the_blank_case(page: Executed) -> None:
    said = page.said
    assert said["f_layout"] == "DP 32, stage 1" and said["f_limit"] == "optimizer states"
    # 4Ψ + 12Ψ/32 of 7.45B, and the rest is activations and logits
    assert float(said["f_one"].removesuffix(" GB")) > 4 * 7.45 + 12 * 7.45 / 32
    blank = choose(model_named("megatron-39b"), cluster_named("a100-40,nodes=8"))
    assert blank.network_is_limit and said["b_remedy"] == blank.remedies[0].name
    assert "micro-batches" in said["b_remedy"]


def test_fitting_is_not_fast(page: Executed) -> None:
    said = page.said
    assert said["t_simple"].startswith("DP 3072, stage 3")
    assert float(said["t_times"]) > 2
    assert "TP 8" in said["t_best"] and "PP" in said["t_best"]
    assert (said["h_cards"], said["h_sequences"]) == ("16,384", "2,048")


def test_published_runs_are_within_a_quarter(page: Executed) -> None:
    caption = "Published layouts: TFLOP/s a card as reported, and as the planner computes them"
    rows = page.tables()[caption]
    assert len(rows) == 13
    for name, _, _, reported, computed, ratio, peak in rows:
        assert 0.75 <= float(ratio) <= 1.25
        assert float(computed) / float(reported) == pytest.approx(float(ratio), abs=0.01)
        assert peak.endswith("✗") == (name == "llama3-405b, 8,192 cards")
        if name in MEGATRON_TABLE:
            assert float(reported) == MEGATRON_TABLE[name][-1]


def test_runs_with_states_off_the_card_fit(page: Executed) -> None:
    """16 B a parameter of ZeRO-Infinity's lie on NVMe, 14 of ZeRO-Offload's on the host (S51)."""
    rows = next(rows for caption, rows in page.tables().items() if "off the card" in caption)
    by_name = {row[0]: row for row in rows}
    assert len(by_name) == 6 and all(float(row[1].split()[0]) < 32 for row in rows)
    assert float(by_name["ZeRO-Infinity 1T, one DGX-2"][3].split()[0]) == pytest.approx(
        16, rel=0.02
    )
    assert float(by_name["ZeRO-Offload 13B, one V100"][2].split()[0]) == pytest.approx(
        14 * 13, rel=0.04
    )
    assert [(row[4], row[0][14:17]) for row in rows if row[4] != "–"] == [
        ("43", "10T"), ("34", "20T"),
    ]  # fmt: skip
    assert 1 < float(page.said["away_low"]) < float(page.said["away_high"]) < 2


def test_the_plan_has_what_the_prompt_asks_for(page: Executed) -> None:
    text = next(x.data for x in page.shown if "**strategy**" in getattr(x, "data", ""))
    for name in ("strategy", "memory", "communication", "throughput", "simplest"):
        assert text.count(f"- **{name}**: ") == 2
    assert "**simplest**: the same" in text and "times as long" in text
    assert text.count("\\$") == text.count("$") == 2  # a price is no formula


def test_the_tool_matrix_and_the_settings(page: Executed) -> None:
    tables = page.tables()
    matrix = next(rows for caption, rows in tables.items() if caption.startswith("What each tool"))
    assert len(tables["The parts that are needed"]) > 8
    nccl = {row[1] for row in matrix}
    assert nccl == {"–"} and len(matrix) == 12
    settings = dict(tables["The same layout, as each tool spells it"])
    assert settings["DDP"].startswith("not possible")
    assert "reshard_after_forward=False" in settings["FSDP2"]
    for tool in ("FSDP2", "DeepSpeed"):
        assert tool in page.said["able"]
    assert "DDP" not in page.said["able"]


def test_renting_more_cards_makes_the_layout_simpler_at_the_same_price(page: Executed) -> None:
    """(S73)"""
    said = page.said
    assert "stage 1" in said["rent_layout"] and "stage 2" in said["own_layout"]
    assert float(said["rent_hours"]) == pytest.approx(1, abs=0.05)


def test_exercises(page: Executed) -> None:
    said = page.said
    # 16 B · 174.6B ÷ (0.92 · 80 GiB), rounded up
    assert said["x_fewest"] == str(-(-int(16 * 174.6e9) // int(0.92 * 80 * 2**30)))
    assert said["x_small_layout"].startswith("TP 2")
    # six bytes a logit: half precision and an FP32 gradient
    assert said["l_logits"] == f"{6 * 131072 * 128256 / 1e9:.0f} GB"


def test_there_are_enough_questions(page: Executed) -> None:
    questions = page.questions()
    assert len(questions) >= 9
    assert sum(text.startswith(("N44", "N45", "N46", "N47", "N48")) for text in questions) >= 2
