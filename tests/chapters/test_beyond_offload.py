"""What the page says about offloading: against sums written out here."""

import pytest
from chapters.execute import Executed, execute

from shardbook.planner.placements import EDGES, FORWARD_BACKWARD, STATES
from shardbook.schedules.core import simulate
from shardbook.schedules.offload import PrefetchLayer, prefetch_plan


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("beyond_offload.md")


def rows(page: Executed, part: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if part in caption)


def answer(page: Executed, part: str) -> str:
    return next(right for question, right in page.questions().items() if part in question)


def test_the_opening_sums(page: Executed) -> None:
    said = page.said
    assert (said["states"], said["cards_needed"]) == ("160 GB", str(-(-160 // 32)))
    assert answer(page, "worth keeping") == "The half-precision weights, 20 GB."


def test_every_edge_of_the_graph_is_listed(page: Executed) -> None:
    """Three states are read and written back; the sum of all edges by hand (S44)."""
    flows = rows(page, "What flows")
    assert sum(int(size) for _, _, size, _ in flows) == 4 + 2 + 2 + 3 * (4 + 4) + 4 + 2
    assert len(flows) == 11


def test_placements_by_hand(page: Executed) -> None:
    """(S44)"""
    said = page.said
    assert "p16; 4 B cross, 2 B stay" in page.printed
    assert (said["both_cross"], said["both_stay"]) == ("4", "4")
    assert (said["m_cross"], said["m_stay"]) == ("8", "12")
    assert (said["n_cross"], said["n_stay"]) == ("6", "0")
    assert (said["cheap"], said["exactly"], said["zero"], said["six"], said["at_six"]) == (
        "4", "3", "1", "6", "6",
    )  # fmt: skip
    assert answer(page, "at most four bytes") == "4: one crosses nothing, 3 cross four."


def test_a_flow_to_each_state_proves_the_bound(page: Executed) -> None:
    """Augmenting paths of one byte at a time, along edges in either direction (S44)."""

    def flow(target: str) -> int:
        room: dict[tuple[str, str], int] = {}
        for source, end, size in EDGES:
            for pair in ((source, end), (end, source)):
                room[pair] = room.get(pair, 0) + size
        sent = 0
        while True:
            came: dict[str, str] = {FORWARD_BACKWARD: ""}
            queue = [FORWARD_BACKWARD]
            for node in queue:
                for (start, end), left in room.items():
                    if start == node and left and end not in came:
                        came[end] = node
                        queue.append(end)
            if target not in came:
                return sent
            sent, node = sent + 1, target
            while came[node]:
                room[came[node], node] -= 1
                room[node, came[node]] += 1
                node = came[node]

    flows = {state: flow(state) for state in STATES}
    assert (page.said["flow"], page.said["flow_p16"]) == ("4", "6")
    assert flows == {"p16": 6, "g16": 4, "p32": 4, "m32": 4, "v32": 4}


def test_the_step_in_time(page: Executed) -> None:
    """10B, micro-batch 8 of 1,024 tokens, 62.5 TFLOP/s, 12 GB/s (S45, S46, S47)."""
    compute = 8 * 10e9 * 8192 / 62.5e12
    said = page.said
    assert said["compute"] == said["late"] == f"{compute:.2f} s"
    assert said["piped"] == f"{compute + 2.57:.2f} s"
    assert said["serial"] == f"{compute + 2.57 + 20 / 12:.2f} s"
    assert (said["gain_piped"], said["gain_serial"]) == ("1.25", "1.40")
    cpu, pytorch, gpu = rows(page, "An update of 10B")
    assert cpu[1:] == ("2.57 s", f"{10 / 2.57:.2f} billion", f"{280 / 2.57:.0f} GB/s")
    assert (pytorch[2], gpu[2]) == (f"{10 / 14.76:.2f} billion", "10.00 billion")
    assert said["gain"] == f"{14.76 / 2.57:.1f}"


def test_the_late_weight_by_hand(page: Executed) -> None:
    """w ← w − ηw, and with the weight before it (S47)."""
    assert "0.5 late      1.00   0.50   0.00  -0.25  -0.25" in page.printed
    assert "1.5 late      1.00  -0.50  -2.00  -1.25   1.75" in page.printed
    assert answer(page, "The high rate") == "Up to 1, half of what it is on time."


def test_the_delay_costs_more_at_the_high_rate(page: Executed) -> None:
    """One update is missed; the sentence about the late start holds (S47)."""
    never_low, low, low_later, never_high, high, high_later = (
        [float(cell) for cell in (row[2], row[3])] for row in rows(page, "small network")
    )
    assert [row[4] for row in rows(page, "small network")] == ["0", "1", "1"] * 2
    assert low[1] / never_low[1] < 1.1 < 1.4 < high[1] / never_high[1]
    for never, now, later in ((never_low, low, low_later), (never_high, high, high_later)):
        assert never[0] == later[0] < now[0]
        assert later[1] == pytest.approx(now[1], rel=0.05)
    assert page.said["cost_high"] == f"{high[1] / never_high[1] - 1:.0%}"


def test_efficiencies_and_the_exercise(page: Executed) -> None:
    """308 GB/s and 1.23 TB/s for 90 % (S48)."""

    def share(work: float, rate: float) -> str:
        return f"{work * rate / (work * rate + 70e12):.1%}"

    said = page.said
    assert said["b_share"] == share(1024, 70e9) == "50.6%"
    assert said["o_share"] == share(1024 * 2 / 4, 1.5e12)
    assert said["c_share"] == share(24 * 2048, 2e9)
    assert said["x_need"] == f"{9 * 70e12 / 2048 / 1e9:.0f} GB/s" == "308 GB/s"
    assert said["o_need"] == f"{9 * 70e12 / 512 / 1e12:.2f} TB/s"


def test_everyone_reads_a_part(page: Executed) -> None:
    """(S49)"""
    for cards, owner, cpu, nvme in rows(page, "arrive whole"):
        assert owner == "12 GB/s"
        assert float(cpu.split()[0]) == pytest.approx(min(3.0 * int(cards), 70), abs=0.05)
        assert float(nvme.split()[0]) == pytest.approx(min(1.6 * int(cards), 70), abs=0.5)
    assert (page.said["cpu_cap"], page.said["nvme_cap"]) == ("24", "44")


def test_the_layers_way_from_nvme(page: Executed) -> None:
    """1.61 GB over 16 cards at 1.6, 3 and 70 GB/s, then 2 FLOP a weight and token.

    Weights have two bytes, a card 2,048 tokens (S50).
    """
    layer = 2 * 12 * 8192**2
    expected = {
        "l_nvme": layer / 16 / 1.6e9,
        "l_copy": layer / 16 / 3e9,
        "l_all_gather": layer / 70e9,
        "l_compute": 2 * (layer / 2) * 2048 / 70e12,
    }
    for name, seconds in expected.items():
        assert page.said[name] == f"{seconds * 1e3:.3g} ms"
    one_way = PrefetchLayer(*expected.values())
    one, two, three = (
        simulate(prefetch_plan((one_way,) * 8, ahead)).makespan for ahead in (1, 2, 3)
    )
    assert one > two == three


def test_partitioned_checkpoints(page: Executed) -> None:
    """12 · b·s·h numbers and one more, of two bytes, times 15/16 (S39)."""
    once = 2 * 32 * 1024 * 8192 * 15 / 16
    everywhere, parts, away = rows(page, "Checkpoints of ZeRO's")
    assert everywhere[1:] == ("67.1 GB", "0 B", f"{12 * once / 1e9:.2f} GB", "0 B", "0 B")
    assert parts[1:5] == ("4.19 GB", "0 B", f"{13 * once / 1e9:.2f} GB", f"{once / 1e6:.0f} MB")
    assert away[1:3] == ("0 B", "4.19 GB")
    assert page.said["extra"] == f"{1 / 12:.1%}"


def test_largest_models_by_tier(page: Executed) -> None:
    """(S51)"""
    sizes = [row[3] for row in rows(page, "Largest model")]
    assert sizes == ["1.75B", "14B", "9.74B", "28B", "107B", "75B", "1.4T"]
    assert [row[4] for row in rows(page, "Largest model")] == ["GPU"] * 4 + ["CPU"] * 2 + ["NVMe"]


def test_70b_on_four_cards(page: Executed) -> None:
    """(S15)"""
    assert "560 GB of moments, 840 GB with master weights" in answer(page, "What is wrong")
    placed = {row[0]: row[1:] for row in rows(page, "70B parameters on 4")}
    assert placed["ZeRO-Offload"] == ("140 GB", "980 GB", "0 B", "no room: GPU and CPU")
    assert placed["ZeRO-3, optimizer on the CPU"][:2] == ("70 GB", "840 GB")
    assert [row[3] for row in placed.values()].count("fits") == 2
    swap, adam = 2 * 840 / 6.4, 7 * 2.57
    assert (page.said["swap"], page.said["adam70"]) == (f"{swap:.3g} s", f"{adam:.3g} s")
    tokens = (swap + adam) / 0.5 * 4 * 156e12 / (8 * 70e9)
    assert page.said["half_tokens"] == f"{tokens / 1000:.0f} thousand"
    assert (swap + adam) / (7 / 16) > 100  # "hundreds of times"


def test_the_papers_results(page: Executed) -> None:
    """(S52)"""
    verdicts = [row[3] for row in rows(page, "Reported results")]
    assert (page.said["examined"], page.said["failed"]) == (str(len(verdicts)), "2")
    assert verdicts.count("no") == 2
