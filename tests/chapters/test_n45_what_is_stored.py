"""What the page "What is stored" says, against formulas and ZeRO's Table 1 written out here."""

import pytest
from chapters.execute import Executed, execute

#: bytes of one parameter: weights, gradients, master weights, momentum, variance (ZeRO §3.1)
MIXED = (2, 2, 4, 4, 4)

#: ZeRO, Table 1: ranks → model → stages 1 / 2 / 3 in GB, as printed
TABLE_1 = """\
1    | 120 / 120 / 120   | 2048 / 2048 / 2048 | 16000 / 16000 / 16000
4    | 52.5 / 41.3 / 30  | 896 / 704 / 512    | 7000 / 5500 / 4000
16   | 35.6 / 21.6 / 7.5 | 608 / 368 / 128    | 4750 / 2875 / 1000
64   | 31.4 / 16.6 / 1.88 | 536 / 284 / 32    | 4187 / 2218 / 250
256  | 30.4 / 15.4 / 0.47 | 518 / 263 / 8     | 4046 / 2054 / 62.5
1024 | 30.1 / 15.1 / 0.12 | 513 / 257 / 2     | 4011 / 2013 / 15.6
"""
SIZES = (7.5, 128, 1000)


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n45_what_is_stored.md")


def rows(page: Executed, start: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if caption.startswith(start))


def answer(page: Executed, start: str) -> str:
    return next(text for asked, text in page.questions().items() if asked.startswith(start))


def on_a_rank(billions: float, ranks: int, stage: int) -> float:
    """GB by ZeRO §5.4: 16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N, 16Ψ/N."""
    kept = (16, 4, 2, 0)[stage]
    return billions * (kept + (16 - kept) / ranks)


def test_a_file_of_14_gb_does_not_train_on_80(page: Executed) -> None:
    said = page.said
    assert (said["model_file"], said["states"], said["over"]) == ("14 GB", "112 GB", "32 GB")
    assert answer(page, "A 14 GB model file").startswith("No")
    assert answer(page, "Mixed precision computes") == "No smaller at all."
    lines = ("weights", "gradients", "master", "momentum", "variance")
    assert tuple(int(said[f"b_{name}"]) for name in lines) == MIXED
    assert (said["b_all"], said["b_rest"], said["b_optimizer"]) == ("16", "14", "12")


def test_recipes_differ_in_what_they_keep(page: Executed) -> None:
    """12, 16, 18 and 20 bytes, and the 8-bit recipe with one FP32 scale for 2,048 elements (S2)"""
    found = {row[0]: row[1:7] for row in rows(page, "Bytes per parameter")}
    assert found["Mixed precision, Adam"] == ("2", "2", "4", "4", "4", "16")
    moment = 1 + 4 / 2048
    assert found["Mixed precision, 8-bit Adam"] == (
        "2",
        "2",
        "4",
        f"{moment:.4g}",
        f"{moment:.4g}",
        f"{8 + 2 * moment:.3f}",
    )
    assert sorted({row[-1] for row in found.values()}) == ["10.004", "12", "16", "18", "20", "8"]
    for row in found.values():
        assert sum(map(float, row[:5])) == pytest.approx(float(row[5]), abs=0.001)
    said = page.said
    sums = ("b_no_master", "b_fp32_gradients", "b_resident")
    assert [said[name] for name in sums] == ["12", "18", "20"]
    # faded: SGD with momentum and master weights is no row of the table, though its sum is
    assert said["faded_sum"] == str(2 + 2 + 4 + 4)
    assert ("2", "2", "4", "4", "0", "12") not in found.values()
    # blank: two lines save alike
    assert (said["bits_8"], said["bits_8_moment"]) == ("10.004", "1.002")
    assert said["bits_8_saved"] == f"{4 - moment:.3f}"
    assert moment < 4  # so the master weights are the largest line


def test_eight_billion_on_four_ranks(page: Executed) -> None:
    said = page.said
    for stage in range(4):
        assert said[f"stage_{stage}"] == f"{on_a_rank(8, 4, stage):g} GB"
    assert answer(page, "8B parameters on 4 ranks") == "32 GB"
    assert answer(page, "Stage 1 on 4 ranks stores") == f"To {4 * 8} GB."
    assert (said["floor_1"], said["floor_2"], said["floor_1_large"]) == ("4", "2", "32 GB")
    for count, *sizes in rows(page, "GB on one rank, 8B"):
        assert sizes == [f"{on_a_rank(8, int(count), stage):.4g}" for stage in range(4)]


def test_padding_is_two_elements_of_the_last_rank(page: Executed) -> None:
    parameters = 3168 + 3 * 9312 + 1552
    piece = 10_886  # ⌈32,656 / 3⌉
    said = page.said
    assert (said["pad_all"], said["pad_ranks"]) == (f"{parameters:,}", "3")
    assert 3 * (piece - 1) < parameters <= 3 * piece
    assert said["pad_piece"] == f"{piece:,}"
    assert said["pad_count"] == str(3 * piece - parameters) == "2"
    assert said["pad_last"] == f"{parameters - 2 * piece:,}"
    assert f"{2 * piece:,} B, {2 * parameters - 4 * piece:,} owned + 4 padding" in page.printed


def test_table_1_as_computed_and_as_printed(page: Executed) -> None:
    """(S4)"""
    found = {row[0]: row[1:] for row in rows(page, "GB on one rank, computed")}
    worst = 0.0
    for line in TABLE_1.splitlines():
        ranks, *models = (part.strip() for part in line.split("|"))
        for cell, printed, billions in zip(found[ranks], models, SIZES, strict=True):
            for stage, (shown, paper) in enumerate(
                zip(cell.split(" / "), printed.split(" / "), strict=True), start=1
            ):
                exact = on_a_rank(billions, int(ranks), stage)
                assert shown == f"{exact:.5g} ({paper})"
                worst = max(worst, abs(exact - float(paper)) / float(paper))
    said = page.said
    assert said["cells"] == "54"
    # relative to what is printed; of the computed value it would be 2.40%
    assert said["worst"] == f"{worst:.2%}" == "2.34%"
    assert (said["worst_printed"], said["worst_computed"]) == ("0.12", "0.117188")


def test_stage_1_does_not_save_three_quarters(page: Executed) -> None:
    said = page.said
    assert said["at_eight"] == f"{1 - (4 + 12 / 8) / 16:.1%}"
    assert said["at_most"] == "75%"


def test_exercises(page: Executed) -> None:
    said = page.said
    assert [said[f"e{stage}"] for stage in range(4)] == [
        f"{on_a_rank(13, 64, stage):.6g} GB" for stage in range(4)
    ]
    assert said["left"] == f"{80 - on_a_rank(13, 64, 1):.4g} GB"
    # "so N is nine"
    assert on_a_rank(1, 9, 2) == pytest.approx(2 * on_a_rank(1, 9, 3))


def test_the_page_asks_enough(page: Executed) -> None:
    assert len(page.questions()) >= 3 + 4
    assert sum(text.startswith("From N44") for text in page.questions()) == 2
