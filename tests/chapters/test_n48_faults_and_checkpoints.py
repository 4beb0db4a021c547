"""What the pages on faults, hybrid sharding and checkpoints say: the lecture's values, formulas."""

import math

import pytest
from chapters.execute import Executed, execute

from shardbook.explorers.notebook import Shown

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def faults() -> Executed:
    return execute("n48_silent_faults.md")


@pytest.fixture(scope="module")
def hybrid() -> Executed:
    return execute("n48_between_all_and_nothing.md")


@pytest.fixture(scope="module")
def saving() -> Executed:
    return execute("n48_stopping_and_starting.md")


def rows_of(page: Executed, start: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if caption.startswith(start))


def test_the_forgotten_gather_trains_on_and_the_replicas_differ(faults: Executed) -> None:
    """(S23)"""
    start, end, healthy = (float(faults.said[name]) for name in ("f_start", "f_loss", "f_healthy"))
    assert healthy * 1.5 < end < start
    assert 0.02 < float(faults.said["f_spread"]) < 0.2
    assert "same-weights: step 0, rank 1" in faults.printed


def test_each_silent_fault_is_seen_by_the_checks_that_compare_what_it_breaks(
    faults: Executed,
) -> None:
    """(S70)"""
    rows = {row[0]: row[3:] for row in rows_of(faults, "Silent faults")}
    spoke = {fault: [cell != "–" for cell in cells] for fault, cells in rows.items()}
    by_word = {
        word: next(s for fault, s in spoke.items() if word in fault)
        for word in ("gathered", "weights are reduced", "own gradient", "summed", "rows", "bit")
    }
    # columns: distinct data, same weights, state at rest, joint gradient
    assert by_word == {
        "gathered": [False, True, False, True],
        "weights are reduced": [False, False, False, True],
        "own gradient": [False, False, False, True],
        "summed": [False, False, False, True],
        "rows": [True, False, False, True],
        "bit": [False, False, True, False],
    }


def test_messages_on_one_node_and_on_two(faults: Executed) -> None:
    """32,656 FP16 gradients: three quarters, seven eighths, and half of a quarter (S70)."""
    sizes = [int(faults.said[name].replace(",", "")) for name in ("sent_4", "sent_8", "sent_twin")]
    assert sizes == [65_312 * 3 // 4, 65_312 * 7 // 8, 65_312 // 4 // 2]
    assert faults.said["act_sent"] == "4,608"  # 2 · 3/4 of 16 × 96 × 2 B
    assert (faults.said["inside"], faults.said["twins"]) == ("(0, 1, 2, 3)", "(0, 4)")


def test_a_sum_for_a_mean_is_four_times_too_long_and_adam_does_not_notice(faults: Executed) -> None:
    loss, norm = next(row[1:3] for row in rows_of(faults, "Silent faults") if "summed" in row[0])
    (wrong, right), (long, usual) = (
        [float(part.strip("()")) for part in cell.split()] for cell in (loss, norm)
    )
    assert wrong == pytest.approx(right, abs=0.002)
    assert long / usual == pytest.approx(4, rel=0.01)


def test_the_skipping_rank_is_one_call_ahead(faults: Executed) -> None:
    for rank in (0, 1, 3):
        assert (
            f"rank {rank} stands in reduce-scatter of 1,552 × float16 (gradient of unit 4)\n  and waits for 2"
            in faults.printed
        )
    assert (
        "rank 2 stands in reduce-scatter of 9,312 × float16 (gradient of unit 3)\n  and waits for 0, 1, 3"
        in faults.printed
    )


def test_the_slow_rank_never_waits_and_the_slow_network_makes_nobody_wait(faults: Executed) -> None:
    rows = {
        row[0]: [cell.split(" · ") for cell in row[1:]]
        for row in rows_of(faults, "One step in simulated time")
    }
    usual, network, data = (
        rows["nothing"],
        rows["the network"],
        rows["data on rank 2"],
    )
    assert network[0][1] != usual[0][1] and network[0][2] == network[1][2] == "0 s"
    # loading takes 100 µs, five times as long on rank 2
    assert (data[0][2], data[1][2], data[0][1]) == ("400 µs", "0 s", usual[0][1])


def test_gathering_all_at_once_or_on_one_rank_moves_the_peak(faults: Executed) -> None:
    units, psi, fp32 = [3168, 9312, 9312, 9312, 1552], 32_656, 97_968
    shards = psi * 2 // 4 + fp32
    assert faults.said["p_unit"] == "161,632"
    # all weights gathered, unit 3's full gradient after the shards of unit 4's, or later ones
    done = [sum(units[u + 1 :]) * 2 // 4 + units[u] * 2 for u in range(5)]
    held = [sum(units[: u + 1]) * 2 for u in range(5)]
    assert int(faults.said["p_whole"].replace(",", "")) == max(
        shards + h + d for h, d in zip(held, done, strict=True)
    )
    assert int(faults.said["p_save"].replace(",", "")) == shards + 12 * psi


def test_each_suspicion_has_a_metric_and_an_experiment_that_refutes_the_impostor_only(
    faults: Executed,
) -> None:
    """(S70)"""
    suspicions = rows_of(faults, "Five suspicions")
    trials = rows_of(faults, "The same experiment")
    assert [row[2:4] for row in suspicions[2:]] == [
        ("18,624 B", "65,312 B"),  # the largest unit of 9,312 FP16 weights; all 32,656
        ("161,632 B", f"{14 * 32_656 // 4 + 12 * 32_656:,} B"),
        ("1", "2"),
    ]
    assert suspicions[0][3] == "10.5 ms"  # 2 · 5 µs + 10 · 1 MiB / (1 GB/s), up to 2 % slower
    assert suspicions[1][3] == "405 µs"  # 4 · 100 µs more, up to 2 % slower
    assert "communication" in suspicions[1][4] and "waiting" in suspicions[0][4]
    for _, predicted, with_fault, _, with_impostor in trials:
        assert with_impostor.endswith(": refuted")
        assert predicted == with_fault or predicted.startswith("at most")


def test_message_sizes_are_those_computed_by_hand(faults: Executed) -> None:
    assert faults.said["act"] == f"{16 * 96 * 2:,}"
    assert faults.said["message_sum"] == f"{2 * 32_656:,}"


def test_the_ends_of_the_dial_are_data_parallelism_and_zero3(hybrid: Executed) -> None:
    text = hybrid.printed
    assert "F = 1: stored 522,496 B, peak 559,744 B,\n  sent 97,968 B" in text
    assert "F = 4: stored 130,624 B, peak 161,632 B,\n  sent 146,952 B" in text
    # gathers and reduce-scatter of halves, and an all-reduce of a half: 2Ψ elements
    assert f"F = 2: stored 261,248 B, peak 286,016 B,\n  sent {2 * 2 * 32_656:,} B" in text
    losses = [line.rsplit(" ", 1)[1] for line in text.splitlines() if "loss" in line]
    assert losses[0] == losses[2] != losses[1]


def test_group_then_replicas_is_the_sum(hybrid: Executed) -> None:
    """(S33)"""
    assert 0 < hybrid.names["whole"] < 1e-13


def test_13b_on_eight_nodes_is_the_lectures_case_and_its_thirteenth_is_bytes_of_another_kind(
    hybrid: Executed,
) -> None:
    """(S34)"""
    said = hybrid.said
    assert (said["full_card"], said["hybrid_card"], said["card_ratio"]) == (
        "75.29 GB",
        "5.58 GB",
        "13.5",
    )
    assert (said["node_ratio"], said["t_compute"]) == ("1.69", "2.53 s")
    one, eight, bad = rows_of(hybrid, "What leaves a node")
    assert (one[1], one[3], eight[3]) == ("75.3 GB", "1.51 s", "188 ms")
    assert (bad[1], bad[2]) == ("602 GB", "13.5")


def test_a_node_is_the_natural_group_and_just_beyond_it_is_the_worst(hybrid: Executed) -> None:
    rows = rows_of(hybrid, "12.7B parameters")
    leaves = {int(row[0]): float(row[4].split()[0]) for row in rows}
    assert min(leaves, key=lambda f: leaves[f]) == 8 and max(leaves, key=lambda f: leaves[f]) == 16
    for row in rows:
        assert float(row[1].split()[0]) == pytest.approx(16 * 12.746752 / int(row[0]), rel=5e-3)


def test_the_dial_shows_the_numbers_of_the_table(hybrid: Executed) -> None:
    dial = next(
        x for x in hybrid.shown if isinstance(x, Shown) and x.explorer.id == "hybrid-sharding"
    )
    in_dial = [(row[0], row[1], row[4]) for row in dial.explorer.view(dial.raw).table.rows]
    assert in_dial == [(row[0], row[1], row[4]) for row in rows_of(hybrid, "12.7B parameters")]


def test_resumed_is_never_stopped_and_every_part_left_out_shows(saving: Executed) -> None:
    """(S69)"""
    assert "same bits: True" in saving.printed
    nothing, *parts = rows_of(saving, "Resumed at step ten")
    assert nothing[1] == "none: equal bits"
    assert len(parts) == 4 and all(float(row[1]) > 0 for row in parts)


def test_a_lost_count_and_lost_moments_do_opposite_things_to_the_first_step(
    saving: Executed,
) -> None:
    """Adam with a gradient that stays alike, by its formula; 1 is the right length."""

    def length(momentum: float, variance: float, counted: int) -> float:
        """Of the update after these means, from the gradient 1 and with that number."""
        first = (0.9 * momentum + 0.1) / (1 - 0.9**counted)
        second = (0.999 * variance + 0.001) / (1 - 0.999**counted)
        return first / math.sqrt(second)

    early, late = length(1 - 0.9**10, 1 - 0.999**10, 1), length(1, 1, 1)
    assert (saving.said["full_m"], saving.said["full_v"]) == ("65%", "1%")
    assert (saving.said["long_early"], saving.said["long_late"]) == (f"{early:.1f}", f"{late:.1f}")
    assert early > 1 > late
    emptied = saving.names["step_lengths"](10_000, 10_000, emptied=True)
    assert emptied[0] == pytest.approx(length(0, 0, 10_000), rel=1e-3)
    assert max(emptied) > emptied[0] > 3


def test_a_torn_save_leaves_the_one_before_and_damage_names_the_rank(saving: Executed) -> None:
    """(S69)"""
    assert "finished checkpoints: [10]\nloads step 10" in saving.printed
    assert "the file of rank 1 is corrupt" in saving.printed
    assert "still loads step 10" in saving.printed


def test_at_another_world_size_the_state_is_the_saved_one(saving: Executed) -> None:
    """(S69)"""
    for ranks, padded in ((3, "32,658"), (5, "32,670"), (1, "32,656")):
        assert f"ranks {ranks}: equal bits True, {padded} elements with padding" in saving.printed
    assert (saving.said["from_4"], saving.said["to_4"]) == ("1,164", "1,551")  # 3 · 1552/4
    assert (saving.said["from_3"], saving.said["pad_3"]) == ("1,036", "2")  # 2 · 1554/3


def test_only_a_finished_save_is_durable(saving: Executed) -> None:
    """(S69)"""
    assert "done 8 begun 5 durable None\ndone 8 begun 5 durable 5" in saving.printed


def test_a_checkpoint_takes_twelve_bytes_a_parameter(saving: Executed) -> None:
    said = saving.said
    assert (said["b_each"], said["file"], said["each"], said["weights_file"]) == (
        "12",
        "96 GB",
        "24 GB",
        "16 GB",
    )
    assert said["gathered"] == f"{114_296 + 12 * 32_656:,}"
