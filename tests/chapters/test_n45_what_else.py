"""What the page N45.2 says, against the papers' figures and formulas written out here."""

import pytest
from chapters.execute import CHAPTERS, Executed, execute


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n45_what_else_is_stored.md")


TEXT = 2048 * 4096  # elements of one tensor: tokens × width


def test_the_activations_of_a_layer_follow_the_paper(page: Executed) -> None:
    # Korthikanti et al. §4: the parts of the page's table add up to 34, and 5as/h
    assert 11 + 19 + 4 == 34
    full = TEXT * (34 + 5 * 32 * 2048 / 4096)
    fused = TEXT * 34
    assert page.said["full"] == f"{full / 2**20:.0f} MiB" == "912 MiB"
    assert page.said["fused"] == f"{fused / 2**20:.0f} MiB" == "272 MiB"
    assert page.said["all_full_binary"] == f"{32 * full / 2**30:.1f} GiB" == "28.5 GiB"
    # one checkpoint of two bytes an element for each of 32 layers, and one layer
    assert page.said["fused_peak"] == f"{(32 * 2 * TEXT + fused) / 1e6:.0f} MB"
    assert page.said["times"] == f"{full / (8 * TEXT):.1f}" == "14.2"
    assert page.said["matrix"] == "70%"  # 80 of 114
    assert page.said["all_full"] == f"{32 * full / 1e9:.1f} GB"
    longer = 2 * TEXT * (34 + 5 * 32 * 4096 / 4096)
    answers = page.questions()
    question = next(text for text in answers if text.startswith("The texts get twice"))
    assert answers[question] == f"They grow {longer / full:.1f} times."


def test_the_lower_bound_is_four_tensors(page: Executed) -> None:
    assert (page.said["tensor"], page.said["bound"], page.said["all_bound"]) == (
        "16 MiB",
        "64 MiB",
        "2 GiB",
    )


def test_the_states_leave_48_gb(page: Executed) -> None:
    assert (page.said["states"], page.said["left"]) == ("32 GB", "48 GB")
    answers = page.questions()
    question = next(text for text in answers if text.startswith("48 GB are left"))
    assert answers[question] == str(int(48e9 // (32 * TEXT * 114)))
    assert page.said["n_fused"] == str(int(48e9 // (32 * TEXT * 34)))
    assert page.said["n_checkpointed"] == str(int(48e9 // (TEXT * (2 * 32 + 114))))


def test_checkpointing_gives_the_lecture_s_numbers(page: Executed) -> None:
    assert (page.said["k4_peak"], page.said["best"], page.said["best_peak"]) == (
        "384 MiB",
        "3",
        "352 MiB",
    )
    answers = page.questions()
    assert answers[next(text for text in answers if text.startswith("The same model by"))] == "1"
    assert page.said["best_full_peak"] == f"{(32 * 2 + 114) * TEXT / 1e9:.2f} GB"
    assert page.said["root"] == f"{(32 * 2 / 8) ** 0.5:.2f}"
    assert page.said["root_full"] == f"{(32 * 2 / 114) ** 0.5:.2f}"
    assert page.said["extra"] == "33%"


def test_a_short_last_group_has_every_checkpoint_but_not_the_peak(page: Executed) -> None:
    # inputs of layers 0, 3, …, 30 are kept: eleven, and the last group is layers 30 and 31
    starts = range(0, 32, 3)
    said = page.said
    assert (said["k3"], said["k3_all"], said["k3_short"]) == ("3", str(len(starts)), str(32 - 30))
    assert said["k3_start"] == f"{11 * 16 + 2 * 64} MiB" == "304 MiB"
    # backward leaves it: one checkpoint fewer, a full group
    assert said["k3_held"] == str(len(starts) - 1)
    assert said["best_peak"] == f"{10 * 16 + 3 * 64} MiB" == "352 MiB"
    asked = next(
        x for x in page.shown if hasattr(x, "options") and "Which interval needs" in x.text
    )
    right = next(option.because for option in asked.options if option.correct)
    assert right.startswith("At the peak 10 of 11 checkpoints and 3 layers are alive: 352 MiB.")


def test_selective_recomputation_repeats_a_small_part(page: Executed) -> None:
    # 4bs²h of 3 (24bsh² + 4bs²h)
    part = 4 * 2048**2 * 4096 / (3 * (24 * 2048 * 4096**2 + 4 * 2048**2 * 4096))
    assert page.said["selective"] == f"{part:.1%}"
    # GPT-3, width 12,288: the figure in print is s/6h, the share of one forward, three times ours
    assert page.said["gpt_3_forward"].startswith("2.7")
    assert page.said["gpt_3"] == f"{2048 / 3 / (6 * 12288 + 2048):.1%}"


def test_zero_s_checkpoints_are_twice_what_is_printed(page: Executed) -> None:
    elements = 125 * 8192 * 32 * 1024
    assert page.said["z_elements"] == f"{elements / 1e9:.1f}B" == "33.6B"
    assert page.said["z_bytes"] == "67.1 GB" and page.said["z_cut"] == "4.2 GB"


def test_buffers_grow_with_the_model_until_they_are_constant(page: Executed) -> None:
    # S40: 1.5B → 6 GB, 3B → 12 GB, 175B → 700 GB; DDP's bucket of 25
    rows = page.tables()["The buffer for fused gradients"]
    assert [row[1] for row in rows] == ["6 GB", "12 GB", "700 GB"]
    assert (page.said["fusing"], page.said["fused_buffer"]) == ("1.5B", "6 GB")
    assert {row[2] for row in rows} == {"25 MiB"}


def test_free_memory_is_of_no_use(page: Executed) -> None:
    said = page.said
    assert (said["free"], said["free_part"], said["hole"], said["wanted"]) == (
        "1,750",
        "44%",
        "260",
        "400",
    )
    assert said["area"] == "2,250"
    assert page.names["kept"].failure is None
    assert page.names["even"][-1].failure is None
    assert said["even_holes"] == f"100 and {4000 - 100 - 9 * 250:,}"


def test_a_run_near_the_edge_is_quoted_with_its_source() -> None:
    """(S42)"""
    text = (CHAPTERS / "n45_what_else_is_stored.md").read_text(encoding="utf-8")
    assert (
        "{quoted}`85.56% of the iteration with GPT-175B, where about 67% is usual (Zhao et al."
        in text
    )


def test_the_python_example_shows_each_step(page: Executed) -> None:
    cells = [line[15:] for line in page.printed.strip().splitlines()]
    # two bytes a cell: a 0–30, b 30–50, c 50–80, then d 50–100
    assert cells[2] == "#" * 40 + "." * 10
    assert cells[4] == "." * 15 + "#" * 10 + "." * 25
    assert cells[5] == "." * 15 + "#" * 35


def test_faded_and_blank_cases(page: Executed) -> None:
    said = page.said
    assert (said["f_first"], said["f_second"], said["f_at"]) == ("30", "50", "50")
    assert (said["b_holes"], said["b_failed"]) == ("20 and 20", "d")
    # 24 layers of 40, checkpoints of 10: at interval 6 four checkpoints and six layers
    assert (said["ex_held"], said["ex_peak"]) == ("4", f"{4 * 10 + 6 * 40} MiB")
    assert (said["ex_fits"], said["ex_two"]) == ("2 and 3", f"{12 * 10 + 2 * 40} MiB")
    assert f"{8 * 10 + 3 * 40} MiB" == said["ex_two"]
    assert said["ex_root"] == f"{(24 * 10 / 40) ** 0.5:.2f}"


def test_working_memory_grows_with_the_square_of_the_width(page: Executed) -> None:
    # S43: 4 · h · 4h bytes, 8K 1.1 GB, 64K 68.7 GB
    rows = page.tables()["Working memory of the largest product, and one of its tensors"]
    assert {row[0]: row[1] for row in rows}["8,192"] == f"{16 * 8192**2 / 2**30:g} GiB"
    assert page.said["widest"] == "64 GiB"
    assert page.said["mine"] == f"{16 * 4096**2 / 2**20:g} MiB"
    by_width = {row[0]: row for row in rows}
    assert by_width["16,384"][2] == by_width["65,536"][3] == "2 GiB"
    assert (page.said["untiled"], page.said["tiled"], page.said["gain"]) == (
        "16,384",
        "65,536",
        "4",
    )
    assert page.said["short"] == "8,192"


def test_states_of_70b_fit_no_eight_cards(page: Executed) -> None:
    answers = page.questions()
    assert answers[next(text for text in answers if text.startswith("70B"))] == "No."
    assert page.names["each"] == 16 * 70e9 / 8 > 80e9


def test_the_ledger_adds_lines_that_no_stage_cuts(page: Executed) -> None:
    rows = page.tables()["One rank of 4, 8B parameters, one text of 2,048 tokens"]
    assert [row[1] for row in rows] == [
        "32 GB",
        f"{32 * TEXT * 114 / 1e9:.1f} GB",
        f"{32 * TEXT * 34 / 1e9:.2f} GB",
        f"{TEXT * (2 * 32 + 34) / 1e6:.0f} MB",
        "32 GB",
        f"{25 * 2**20 / 1e6:.1f} MB",
        f"{16 * 4096**2 / 1e6:.0f} MB",
        # 80 GB do not hold the careless choices; the careful ones leave more than half
        f"{(32e9 + 32 * TEXT * 114 + 32e9 + 16 * 4096**2) / 1e9:.1f} GB",
        f"{(32e9 + TEXT * (2 * 32 + 34) + 25 * 2**20 + 16 * 4096**2) / 1e9:.1f} GB",
    ]
    assert float(rows[-2][1].split()[0]) > 80 > 2 * float(rows[-1][1].split()[0])


def test_the_page_asks_enough(page: Executed) -> None:
    assert len(page.questions()) >= 3 + 5
    assert sum(text.startswith("From the page before") for text in page.questions()) == 2
