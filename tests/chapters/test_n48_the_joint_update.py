"""What the pages on the update and its cost say: the lecture's bytes, and formulas."""

import pytest
from chapters.execute import Executed, execute

pytestmark = pytest.mark.slow

FIVE = [
    "data parallel",
    "ZeRO-1 as often drawn: all-reduce, then all-gather",
    "ZeRO-1",
    "ZeRO-2",
    "ZeRO-3",
]
PSI = 32_656


@pytest.fixture(scope="module")
def updates() -> Executed:
    return execute("n48_each_owner_updates.md")


@pytest.fixture(scope="module")
def costs() -> Executed:
    return execute("n48_what_it_costs.md")


def rows_of(page: Executed, start: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if caption.startswith(start))


def plain(text: str) -> int:
    return int(text.removesuffix(" B").replace(",", ""))


def test_five_strategies_are_one_model_and_four_ledgers(updates: Executed) -> None:
    """(S16, S18, S21)"""
    rows = rows_of(updates, "50 steps on 4 ranks")
    assert [row[0] for row in rows] == FIVE
    assert len({row[1] for row in rows}) == len({row[2] for row in rows}) == 1
    assert [plain(row[3]) for row in rows] == [522_496, 228_592, 228_592, 179_608, 130_624]
    assert [float(row[4]) for row in rows] == [16, 7, 7, 5.5, 4]
    assert [plain(row[5]) for row in rows] == [559_744, 237_904, 237_904, 191_992, 161_632]
    assert (updates.said["runs"], updates.said["ledgers"]) == ("5", "4")


def test_two_owners_make_the_joint_update(updates: Executed) -> None:
    # w − 0.5 · mean of the two gradients, by hand
    assert "rank 0 knows [0.85 1.8 ]  rank 1 knows [2.8 3.7]" in updates.printed
    assert "the joint update: True" in updates.printed


def test_one_unit_is_gathered_when_the_program_stores_no_foreign_part(updates: Executed) -> None:
    """(S24)"""
    lives = dict(rows_of(updates, "The life of one unit"))
    assert lives["ZeRO-3"].count("unshard") == 2 and "all-gather" not in lives["ZeRO-3"]
    for name in FIVE[1:4]:
        assert lives[name].endswith("update → all-gather")
    assert lives["data parallel"].endswith("all-reduce → update")


def test_the_strategies_agree_at_every_world_size_and_three_ranks_pad_by_two(
    updates: Executed,
) -> None:
    """(S22)"""
    rows = {int(row[0]): row for row in rows_of(updates, "Ranks, padding")}
    assert {row[3] for row in rows.values()} == {"1"}
    for ranks, row in rows.items():
        units = [3168, 9312, 9312, 9312, 1552]
        assert plain(row[1]) == sum(-(-unit // ranks) * ranks for unit in units)
    assert plain(rows[3][1]) == 32_658


def test_each_broken_condition_costs_equality_and_order_only_from_three_ranks_on(
    updates: Executed,
) -> None:
    rows = {row[0].partition(":")[0]: row[1:] for row in rows_of(updates, "ZeRO-3 against data")}
    assert rows["nothing"] == ("equal bits", "equal bits")
    assert rows["the same order"][0] == "equal bits"
    far = {name.partition(":")[0]: by[4][0] for name, by in updates.names["fails"].items()}
    assert 0 < far["the same order"] <= 2**-10  # a step of FP16's grid between one and two
    assert far["the same numbers"] > far["the same order"]
    assert far["element by element"] > 10 * far["the same order"]


def test_the_log_counts_2_3_2_2_3_psi(costs: Executed) -> None:
    """(S20)"""
    rows = rows_of(costs, "One step on 4 ranks")
    assert [row[0] for row in rows] == FIVE
    assert [plain(row[1]) for row in rows] == [97_968, 146_952, 97_968, 97_968, 146_952]
    assert [row[2] for row in rows] == ["2Ψ", "3Ψ", "2Ψ", "2Ψ", "3Ψ"]
    assert [int(row[3]) for row in rows] == [30, 45, 30, 30, 45]


def test_the_last_unit_gathered_again_or_kept_gives_both_printed_numbers(costs: Executed) -> None:
    assert (costs.said["again"], costs.said["once"]) == ("2.25", "2.214")


def test_the_time_is_rounds_and_bytes(costs: Executed) -> None:
    seconds = costs.names["seconds"]
    for parameters, units in ((10**6, 5), (10**10, 50)):
        rounds, sent = 3 * units * 3, 3 * 3 / 4 * 2 * parameters
        assert seconds(parameters, units) == pytest.approx(rounds * 5e-6 + sent / 50e9, rel=1e-9)
    assert costs.said["t_latency"] == f"{45 * 5e-6 / (45 * 5e-6 + 146_952 / 50e9):.1%}"


def test_with_four_micro_batches_only_the_gathers_count_each_time(costs: Executed) -> None:
    rows = {
        row[0]: [cell.split("Ψ")[0] for cell in row[1:]]
        for row in rows_of(costs, "Four micro-batches")
    }
    assert rows["reduce once an update"] == ["2", "2", "2", str(4 * 2 + 1)]
    assert rows["reduce every micro-batch"] == [str(4 * 2), str(4 + 1), str(4 + 1), str(4 * 3)]
    assert rows["once; weights kept from forward to backward"][3] == str(4 + 1)
    assert (costs.said["kept_one"], costs.said["eight_psi"]) == ("2", str(8 * 2 + 1))


def test_scaled_to_8b_on_four_ranks(costs: Executed) -> None:
    # 2 · 3/4 · 16 GB and 3 · 3/4 · 16 GB, at 50 GB/s
    assert (costs.said["dp_large"], costs.said["zero3_large"]) == ("24 GB", "36 GB")
    assert (costs.said["dp_seconds"], costs.said["zero3_seconds"]) == ("480 ms", "720 ms")
    assert float(costs.said["eight_bytes"].split()[0]) == 17 * 7 / 8 * 16


def test_depth_changes_rounds_and_an_exchange_is_half_the_ranks_dearer(costs: Executed) -> None:
    said = costs.said
    assert said["deep_parameters"] == said["wide_parameters"] == "80"
    assert said["deep_bytes"] == said["wide_bytes"] == str(3 * 3 * 80 * 2 // 4)
    assert int(said["deep_rounds"]) == 4 * int(said["wide_rounds"]) == 4 * 3 * 3
    assert (said["ex_sent"], said["ring_sent"], said["ex_ratio"]) == ("3", "1.5", "2")
