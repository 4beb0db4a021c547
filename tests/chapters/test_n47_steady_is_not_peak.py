"""What the page about the peak says: against the lecture's bytes and the rule on paper."""

import pytest
from chapters.execute import Executed, execute

UNITS = (3168, 9312, 9312, 9312, 1552)
PSI = sum(UNITS)


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n47_steady_is_not_peak.md")


def rows_of(page: Executed, start: str) -> dict[str, tuple[str, ...]]:
    rows = next(rows for caption, rows in page.tables().items() if caption.startswith(start))
    return {row[0]: row[1:] for row in rows}


def test_the_steady_state_and_the_peak_are_the_lectures(page: Executed) -> None:
    """(S18)"""
    assert (page.said["steady"], page.said["peak"]) == ("130,624 B", "161,632 B")
    inhabitants = rows_of(page, "The real run")
    assert inhabitants["all"] == ("130,624", "161,632")
    for state in ("master weights", "momentum", "variance"):
        assert inhabitants[f"{state}, own part"] == (f"{PSI:,}", f"{PSI:,}")
    assert inhabitants["gradients, own part"] == ("16,328", "10,088")
    assert inhabitants["gathered weights of the unit"] == ("0", "18,624")
    assert inhabitants["whole gradient of the unit"] == ("0", "18,624")
    assert page.said["reduced"] == "2, 3, 4"
    parts = [row for name, row in inhabitants.items() if name != "all"]
    for column, total in enumerate((130_624, 161_632)):
        assert sum(int(row[column].replace(",", "")) for row in parts) == total


def test_each_units_backward_is_the_lectures_and_the_rules(page: Executed) -> None:
    logged = [120_504, 152_320, 156_976, 161_632, 141_712]
    rows = rows_of(page, "The most in each unit's backward")
    assert list(rows) == ["4", "3", "2", "1", "0"]
    assert [row[1:] for row in rows.values()] == [(f"{n:,}", f"{n:,}") for n in logged]


@pytest.mark.parametrize(("ranks", "said"), [(8, "e_peak"), (2, "t_peak")])
def test_other_ranks_follow_the_rule(page: Executed, ranks: int, said: str) -> None:
    by_unit = [
        (14 * PSI + 2 * sum(UNITS[unit + 1 :])) // ranks + 4 * size
        for unit, size in enumerate(UNITS)
    ]
    assert page.said[said] == f"{max(by_unit):,} B"
    assert by_unit.index(max(by_unit)) == 1
    assert page.said["t_at"] == "backward, unit 1"
    assert page.said["floor"] == f"{4 * 9312:,} B"


def test_13b_needs_a_block_or_everything(page: Executed) -> None:
    """(S25)"""
    assert page.said["n_parameters"] == "12.75B"
    assert page.said["block_peak"] == "1.03 GB"  # 0.398 + 0.629
    assert page.said["whole_peak"] == "25.89 GB"  # 0.398 + 25.49
    assert page.said["embedding"] == f"{2 * 32_000 * 5120 / 1e6:.0f} MB"


def test_33_million_elements_are_13_percent_slower(page: Executed) -> None:
    """(S26)"""
    assert (page.said["knee"], page.said["knee_slower"]) == ("33.6 million", "13%")
    for elements, row in rows_of(page, "Gathering 4.295 GB").items():
        size = 4 * int(elements.replace(",", ""))
        assert float(row[2]) == pytest.approx(1 + 8 * 5e-6 * 450e9 / size, rel=1e-3)
    assert (page.said["half_at"], page.said["half_slower"]) == ("32 MB", "2")


def test_uneven_parts_pay_the_latency_for_every_rank(page: Executed) -> None:
    """(S27)"""
    block = 2 * 12 * 5120**2
    even = 63 * (10e-6 + block / 64 / 50e9)
    uneven = 64 * 63 * 10e-6 + block / 50e9
    assert page.said["even"] == f"{even * 1e3:.3g} ms"
    assert page.said["uneven"] == f"{uneven * 1e3:.3g} ms"
    assert page.said["even_times"] == f"{uneven / even:.1f}"


def test_each_case_overflows_in_its_own_phase(page: Executed) -> None:
    """(S12)"""
    rows = rows_of(page, "The peak of each phase")
    assert [row[-1] for row in rows.values()] == ["fits", "backward", "save"]
    assert page.said["dies"] == "backward"
    psi, block = 12_746_752_000, 2 * 12 * 5120**2
    kept = 2 * 16_384 * 5120 * 40
    backward = 16 * psi / 64 + 2 * block + kept + block
    assert rows["a unit for each block"][1] == f"{backward / 1e9:.3g} GB"
    assert page.said["all_saved"] == "51 GB"


def test_the_logits_are_the_largest_line_of_the_llama(page: Executed) -> None:
    rows = rows_of(page, "What is there as backward begins")
    assert rows["Temp"][1] == f"{2 * 4 * 2048 * 128_256 / 1e9:.3g} GB"
    assert page.said["logits"] == rows["Temp"][1]


def test_filling_unit_by_unit_needs_one_unit_and_not_the_model(page: Executed) -> None:
    """(S35)"""
    # the shards of the first four units, 2 + 4 B a parameter, and the fourth in FP32
    by_unit = 6 * sum(UNITS[:4]) // 8 + 4 * 9312
    assert page.said["i_deferred"] == f"{by_unit:,} B"
    at_once = int(page.said["i_at_once"].removesuffix(" B").replace(",", ""))
    assert at_once >= 4 * PSI > int(page.said["i_step"].removesuffix(" B").replace(",", ""))


def test_without_reshard_the_inhabitants_add_up(page: Executed) -> None:
    said = {name: int(page.said[name].removesuffix(" B").replace(",", "")) for name in (
        "x_states", "x_all", "x_gone", "x_own", "x_full", "x_peak"
    )}  # fmt: skip
    held = said["x_states"] + said["x_all"] - said["x_gone"] + said["x_own"] + said["x_full"]
    assert held == said["x_peak"] == 195_904
    assert page.said["x_at"] == "backward, unit 3"
