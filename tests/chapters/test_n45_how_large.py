"""What the page "How large can it be" says, against papers, lectures and formulas written here."""

import pytest
from chapters.execute import Executed, execute


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n45_how_large_can_it_be.md")


def rows(page: Executed, start: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if caption.startswith(start))


def answer(page: Executed, start: str) -> str:
    return next(text for asked, text in page.questions().items() if asked.startswith(start))


def verdicts(page: Executed, start: str) -> str:
    asked = next(x for x in page.shown if hasattr(x, "options") and x.text.startswith(start))
    return " ".join(option.because for option in asked.options)


def gigabytes(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"GB": 1, "TB": 1000, "MB": 0.001}[unit]


def test_models_against_cards(page: Executed) -> None:
    """(S3)"""
    found = {row[0]: row[1:] for row in rows(page, "Models and cards")}
    for _parameters, weights, states, _card in found.values():
        assert gigabytes(states) == pytest.approx(8 * gigabytes(weights), rel=1e-3)
    assert found["BERT-large"][3] == "V100 16 GB"
    assert found["GPT-2"] == ("1.5B", "3 GB", "24 GB", "V100 32 GB")
    assert [row[3] for row in list(found.values())[2:]] == ["none"] * 5
    # 64 copies of 12 bytes for 1.5 × 10⁹ parameters, all but one of them repeated
    assert page.said["optimizers"] == f"{64 * 12 * 1.5e9 / 1e12:g} TB" == "1.152 TB"
    assert page.said["repeated"] == "1.134 TB"
    assert (page.said["optimizer_each"], page.said["optimizer"]) == ("12", "18 GB")


def test_fewest_cards_by_recipe(page: Executed) -> None:
    """70B and 405B at 12, 16, 18 and 20 B per parameter (S10, S38)"""
    assert [row[1:] for row in rows(page, "Fewest cards with 80 GB")] == [
        ("12", "11", "61"),
        ("16", "14", "81"),
        ("18", "16", "92"),
        ("20", "18", "102"),
    ]
    assert answer(page, "70B parameters at 16 bytes") == "14."
    assert "140 GB" in verdicts(page, "70B parameters at 16 bytes")
    assert page.said["quotient_bare"] == "10.5"


def test_real_models_and_their_cards(page: Executed) -> None:
    """2 + 2 + 8 B, with master weights 4 B more, and ⌈bytes ÷ 80 GB⌉ (S10)"""
    assert rows(page, "Real models") == [
        ("7B", "14", "14", "56", "84", "112", "1", "2", "2"),
        ("70B", "140", "140", "560", "840", "1120", "2", "11", "14"),
        ("405B", "810", "810", "3240", "4860", "6480", "11", "61", "81"),
    ]


def test_seven_billion_against_ranks(page: Executed) -> None:
    """The values of the illustrated notes' figure 8 (S6)"""
    found = {row[0]: row[1:] for row in rows(page, "GB on the fullest rank, 7B")}
    assert list(found)[:7] == ["1", "2", "4", "8", "16", "32", "64"]
    assert found["1"] == ("112", "112", "112", "112")
    assert found["8"] == ("112", "38.5", "26.25", "14")
    # N ≥ 98 / (24 − 14) and 112 / 24; stage 1 keeps 28 GB
    assert found["fewest for 24 GB"] == ("never", "never", "10", "5")
    assert found["fewest for 80 GB"] == ("never", "2", "2", "2")


def test_faded_and_blank_cases(page: Executed) -> None:
    said = page.said
    assert (said["kept"], said["room"], said["cut"]) == ("26 GB", "54 GB", "182 GB")
    assert (said["faded_quotient"], said["faded_answer"]) == ("3.37", "4")
    # 28B: the floor 112 > 80; 392 / (80 − 56) = 16.3; 448 / 80 = 5.6
    assert [said[f"blank_{stage}"] for stage in (1, 2, 3)] == ["never", "17", "6"]
    assert said["blank_floor"] == "112 GB"
    # 12 B × 7.5e9 / 90 = 1 GB exactly, and 3 arrays of ⌈7.5e9 / 90⌉ × 4 B are 8 B more
    piece = -(-7_500_000_000 // 90)
    assert 12 * piece - 10**9 == int(said["edge_over"]) == 8
    assert (said["edge_formula"], said["edge_answer"]) == ("90", "91")
    assert said["worked_each"] == str(4 + 12 / 64) and said["worked"] == "7.642B"
    assert said["second_each"] == str(2 + 14 / 64) and said["second"] == "14.42B"
    assert said["blank_model"] == f"{4 * 80 / 5.5:.4g}B" == "58.18B"
    assert answer(page, "You have 64 cards") == "2B"


def test_table_2_exact_and_as_printed(page: Executed) -> None:
    """(S5)"""
    printed = """2B 7.6B 14.4B 128B
        4B 15.2B 28.8B 256B
        8B 30.4B 57.6B 0.5T
        16B 60.8B 115.2B 1T
        32B 121.6B 230.4B 2T"""
    found = rows(page, "Largest model, exact")
    assert [row[1] for row in found] == ["64", "128", "256", "512", "1,024"]
    for row, line in zip(found, printed.splitlines(), strict=True):
        for cell, text, each in zip(
            row[2:], line.split(), (16, 4.1875, 2.21875, 0.25), strict=True
        ):
            exact = int(row[0]) * 32 / each
            said = f"{exact:.5g}B" if exact < 1000 else f"{exact / 1000:.5g}T"
            assert cell == f"{said} ({text})"
    assert (page.said["corner_exact"], page.said["corner_printed"]) == ("122.3B", "121.6B")
    assert "0.55%" in verdicts(page, "16 parts, stage 1")


def test_what_the_measured_model_left_free(page: Executed) -> None:
    asked = next(text for text in page.questions() if text.startswith("At stage 1 the states"))
    assert f"{6.2 * 4.1875:.4g} GB of 32 GB" in asked  # 25.96
    assert f"{32 - 6.2 * 4.1875:.4g} GB?" in asked
    assert "19% of the card" in verdicts(page, "At stage 1 the states")


#: s·b·h of one sequence of 2,048 tokens at width 8,192, in GB
SBH = 2048 * 8192 / 1e9


def test_the_four_moments(page: Executed) -> None:
    """70B on 16 ranks, layer by layer, from Korthikanti et al.'s formula (S12)"""
    found = {row[0]: row[1:] for row in rows(page, "GB on one of 16 ranks")}
    full, kept, layer = (34 + 5 * 64 * 2048 / 8192) * SBH, 2 * SBH, 70 / 80
    shards, gathered, whole = 70 * 14 / 16, 2 * 2 * layer, 2 * layer
    forward, done, in_fp32 = 79 * kept + full, 79 * 2 * layer / 16, 4 * layer / 16
    expected = {
        "gathered layers": (gathered, gathered, 0, 0, 0),
        # the peak is at the first layer: only one layer's activations are left
        "activations": (forward, full, 0, 0, 0),
        "shards of gradients": (0, done, 8.75, 0, 0),
        "one layer's whole gradient": (0, whole, 0, 0, 0),
        "its piece of one layer's gradients, in FP32": (0, 0, in_fp32, 0, 0),
        "all weights": (0, 0, 0, 0, 140),
    }
    for what, sizes in expected.items():
        assert found[what] == tuple(f"{size:.4g}" if size else "0" for size in sizes)
    states = ("weights", "master weights", "momentum", "variance")
    assert [found[f"shards of {name}"] for name in states] == [
        (f"{70 * each / 16:.4g}",) * 5 for each in (2, 4, 4, 4)
    ]
    sums = tuple(f"{shards + sum(column):.4g}" for column in zip(*expected.values(), strict=True))
    assert found["sum"] == sums == ("69.31", "77.05", "70.22", "61.25", "201.2")
    assert page.said["lazy"] == f"{8 * 70 / 16:g} GB"
    assert page.said["job_left"] == f"{80 - shards - gathered - full - done - whole:.4g} GB"


def test_states_that_fit_break_in_backward(page: Executed) -> None:
    """(S12)"""
    assert answer(page, "On 14 cards the states fill 80 GB") == "In backward."
    told = verdicts(page, "On 14 cards the states fill 80 GB")
    assert all(size in told for size in ("10 GB", "78.06 GB", "87.04 GB", "80.25 GB"))
    found = {row[0]: row[1:] for row in rows(page, "GB at the peak of each moment")}
    breaks = [row[-1] for row in found.values()]
    assert breaks == [
        "backward",
        "backward",
        "none",
        "forward",
        "forward",
        "forward",
        "update",
        "save",
    ]
    assert page.said["runs_from"] == "16"
    for *sizes, first in found.values():
        over = [float(size) > 80 for size in sizes]
        names = ["forward", "backward", "update", "save"]
        assert first == (names[over.index(True)] if any(over) else "none")
    # nothing gathered twice: 140 GB of weights instead of two layers' 3.5
    whole, usual = found["16 ranks, the whole model gathered at once"], found["16 ranks"]
    assert float(whole[0]) - float(usual[0]) == pytest.approx(136.5, abs=0.1)


def test_each_claim_is_put_right_from_its_numbers(page: Executed) -> None:
    """M5 to M9, M22 and M27 (S38)"""
    for claim, told in {
        "m6": ("16 B", "112 GB"),
        "m9": ("61 cards", "81 cards", "92 cards", "102 cards"),
        "m22": ("65.6 %", "75 %", "14 GB", "112 GB"),
        "m27": ("121.6", "122.3", "0.55 %", "At stage 1"),
    }.items():
        why = page.said[f"{claim}_why"]
        assert page.said[claim] and all(number in why for number in told), (claim, why)
    asked = next(text for text in page.questions() if text.startswith("M8. "))
    assert f"a rank are {70 * 12 / 16:g} GB" in asked
    assert f"prints {70 * 12 / 16 + 70:g} GB" in asked  # 122.5: half of 140 GB of weights added
    for claim, told in {
        "M5": ("56 GB", "84 GB", "112 GB"),
        "M7": ("105 GB", "11 cards", "14 cards", "take 16"),
        "M8": ("70 GB", "52.5 GB"),
    }.items():
        right = next(
            option.because
            for shown in page.shown
            if hasattr(shown, "options") and shown.text.startswith(f"{claim}. ")
            for option in shown.options
            if option.correct
        )
        assert all(number in right for number in told), (claim, right)


def test_precisions_and_the_calculators_runs(page: Executed) -> None:
    """(S8, S9)"""
    assert [row[1:] for row in rows(page, "States in GB on one device")] == [
        (f"{16 * size}", f"{12 * size}", f"{16 * size}") for size in (7, 13, 70, 405)
    ]
    found = rows(page, "The lesson's runs")
    assert [row[1] for row in found] == ["91", "17.5", "910", "175", "122.5", "480.9", "443"]
    sizes = [(7, 1), (7, 8), (70, 1), (70, 8), (70, 16), (405, 64), (405, 128)]
    for row, (size, ranks) in zip(found, sizes, strict=True):
        for at, each in ((2, 12), (4, 16)):
            assert row[at] == f"{each * size / ranks:.4g}"
            assert row[at + 1] == ("yes" if each * size / ranks <= 80 else "no")


def test_exercises(page: Executed) -> None:
    said = page.said
    assert said["allowed"] == f"{640 / 70:.3g}"
    assert (said["sgd"], said["sgd_states"]) == ("8", "70 GB")
    assert said["eight_bit"] == f"{10 + 8 / 2048:.6g}" and said["eight_bit_states"] == "87.53 GB"
    assert said["copied"] == f"{70 * 20 / 16} GB" and said["copied_extra"] == "17.5 GB"
    assert said["copied_answer"] == "18"  # 1400 / 80 = 17.5
