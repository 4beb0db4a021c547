"""What the page about groups and wires says: against sums written out here."""

import re

import pytest
from chapters.execute import CHAPTERS, Executed, execute

FAST, SLOW = 450e9, 50e9
ACTIVATIONS = 1.5 * 4 * 8192 * 4096 * 2 * 32
GRADIENTS = 12 * 4096**2 * 2 * 32 / 4


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("beyond_groups.md")


def rows(page: Executed, part: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if part in caption)


def answer(page: Executed, part: str) -> str:
    return next(text for question, text in page.questions().items() if part in question)


def test_six_axes_in_one_table(page: Executed) -> None:
    """(S63)"""
    table = rows(page, "The axes of parallelism")
    names = [row[0].split(",")[0] for row in table]
    assert names == ["TP", "CP", "EP", "FSDP", "PP", "DP"]


def test_one_axis_alone_on_eight_cards(page: Executed) -> None:
    """Who cuts states, who cuts activations, who sends most and least (S63)."""
    table = {row[0].split(",")[0]: row[1:] for row in rows(page, "One axis alone")}
    sizes = {name: [_bytes(cell) for cell in row] for name, row in table.items()}
    assert {name for name in sizes if sizes[name][0] < 0.3 * sizes["DP"][0]} == {"FSDP", "TP", "PP"}
    assert {name for name in sizes if sizes[name][1] < 0.3 * sizes["DP"][1]} == {"TP", "CP"}
    assert sizes["PP"][1] == sizes["DP"][1]
    assert max(sizes, key=lambda name: sizes[name][2]) == "TP"
    assert min(sizes, key=lambda name: sizes[name][2]) == "PP"
    assert sizes["FSDP"][2] == pytest.approx(1.5 * sizes["DP"][2], rel=0.01)


def _bytes(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"GB": 1e9, "MB": 1e6}[unit]


def test_groups_of_two_nodes_of_four(page: Executed) -> None:
    """(S61)"""
    assert "TP (0, 1, 2, 3) (4, 5, 6, 7)\nDP (0, 4) (1, 5) (2, 6) (3, 7)\n" in page.printed
    assert "rank 6: {'TP': 2, 'DP': 1}" in page.printed
    assert answer(page, "rank 0's TP group") == "(0, 2, 4, 6)."


def test_the_wrong_order_by_hand(page: Executed) -> None:
    """(S61)"""
    good, bad = (
        ACTIVATIONS / FAST + GRADIENTS / SLOW,
        ACTIVATIONS / SLOW + GRADIENTS / FAST,
    )
    assert answer(page, "In the wrong order") == f"{bad / good:.2g} times."
    table = [(row[0].split(",")[0], *row[1:]) for row in rows(page, "2 × 4 cards")]
    activations, gradients = f"{ACTIVATIONS / 1e9:.1f} GB", f"{GRADIENTS / 1e9:.2f} GB"
    assert table == [
        ("TP", "2 of 2", activations, "0 B", f"{ACTIVATIONS / FAST * 1e3:.1f} ms"),
        ("DP", "0 of 4", "0 B", gradients, f"{GRADIENTS / SLOW * 1e3:.1f} ms"),
        ("DP", "4 of 4", gradients, "0 B", f"{GRADIENTS / FAST * 1e3:.2f} ms"),
        ("TP", "0 of 2", activations, activations, f"{ACTIVATIONS / SLOW * 1e3:.0f} ms"),
    ]


def test_where_the_order_stops_to_matter_for_bytes(page: Executed) -> None:
    """6th against 3h² a layer: half as many tokens as the width."""
    assert page.said["equal"] == f"{4096 // 2:,}"
    assert page.said["shared"] == f"{4 * GRADIENTS / SLOW * 1e3:.0f} ms"
    assert page.said["two_rings"] == f"{ACTIVATIONS / 2 / SLOW * 1e3:.0f} ms"


def test_what_is_read_and_what_is_summed(page: Executed) -> None:
    """Only the data place cuts the batch: replicas, not ranks (S60, S62)."""
    assert answer(page, "Into how many parts") == f"{16_384 // 8 // 16}."
    assert (page.said["batch"], page.said["too_many"]) == (str(2 * 4 * 2), str(2 * 4 * 8))
    assert (page.said["cp_dp"], page.said["cp_joined"]) == ("(0, 4)", "(0, 2, 4, 6)")


def test_sixteen_thousand_cards(page: Executed) -> None:
    """8 × 16 × 128, a tensor group a node (S60)."""
    table = rows(page, "16,384 cards")
    assert [row[:3] for row in table] == [
        ("TP", "2,048 of 8 ranks", "2,048"),
        ("PP", "1,024 of 16 ranks", "0"),
        ("DP", "128 of 128 ranks", "0"),
    ]
    # four all-reduces of a batch's part in each of eight layers, a ring of eight
    activations = 2 * 7 / 8 * 4 * (2**24 / 128) * 16_384 * 2 * 8
    assert table[0][3] == f"{activations / 1e9:.0f} GB"
    assert page.said["l_tp"] == f"{activations / FAST * 1e3:.0f} ms"
    # six operations a parameter and token; what is measured has the waiting in it
    assert page.said["l_step"] == f"{6 * 405.85e9 * 2**24 / 16_384 / 400e12:.2f} s"
    assert page.said["l_out"] == f"{activations / SLOW:.2f} s"
    assert page.said["v3_share"] == f"{37 / 671:.1%}"
    assert page.said["v3_nodes"] == str(64 // 8)
    assert page.said["v3_part"] == "an eighth"


def test_the_probes_on_the_page(page: Executed) -> None:
    """(S68)"""
    assert "NV4 and in the whole node SYS\n('NIC0',)\n" in page.printed
    pairs = re.search(r"inside=([\d.e+]+),inside_latency=([\d.e-]+)", page.printed)
    assert pairs
    # the largest size is nearly all bytes: M/t is within a few per mille of B
    assert float(pairs[1]) == pytest.approx(134217728 / 11131e-6, rel=5e-3)
    # two sizes give the latency: t = 2α + M/B
    slope = (11131e-6 - 724.2e-6) / (134217728 - 8388608)
    assert float(pairs[2]) == pytest.approx((724.2e-6 - 8388608 * slope) / 2, rel=0.1)


def test_the_commands_are_those_of_the_lesson() -> None:
    """(S68)"""
    text = (CHAPTERS / "beyond_groups.md").read_text(encoding="utf-8")
    for command in ("nvidia-smi topo -m", "./build/all_reduce_perf -b 8M -e 128M -f 2 -g 2"):
        assert f"`{command}`" in text
    assert text.index("two cards of a node") < text.index("one card in each of two nodes")


def test_messages_of_the_exercise(page: Executed) -> None:
    """Per layer an activation, per step the gradients (S61)."""
    said = page.said
    activation, layer = 4096 * 5120 * 2, 12 * 5120**2 * 2 / 4
    assert said["e_activation"] == f"{activation / 1e6:.1f} MB"
    assert said["e_sent"] == f"{1.5 * activation / 1e6:.1f} MB"
    assert said["e_layer"] == f"{layer / 1e6:.0f} MB"
    assert said["e_step"] == said["e_step_sent"] == f"{40 * layer / 1e9:.2f} GB"
    assert said["e_all"] == f"{1.5 * 4 * 40 * activation / 1e9:.1f} GB"
    assert said["e_in"] == f"{1.5 * 4 * 40 * activation / FAST * 1e3:.1f} ms"
    assert said["e_bad"] == f"{1.5 * 4 * 40 * activation / SLOW * 1e3:.0f} ms"


def test_two_sizes_among_eight_cards(page: Executed) -> None:
    """14 (α + M/(8B)) twice: two equations, solved here."""
    (m1, t1), (m2, t2) = (8 << 20, 146.5e-6), (128 << 20, 1079e-6)
    bandwidth = 14 / 8 * (m2 - m1) / (t2 - t1)
    latency = t1 / 14 - m1 / (8 * bandwidth)
    assert page.said["p_beta"] == f"{bandwidth / 1e9:.0f} GB/s"
    assert page.said["p_alpha"] == f"{latency * 1e6:.2f} µs"
    assert page.said["p_share"] == f"{14 * latency / t1:.0%}"
    assert page.said["p_large_share"] == f"{14 * latency / t2:.0%}"


def test_axes_that_leave_the_node(page: Executed) -> None:
    assert answer(page, "Which axes leave the node?") == "DP only."
    assert answer(page, "CP 2, DP 8") == f"{2 * 8}."
