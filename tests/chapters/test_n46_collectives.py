"""What the page says about collectives: against papers, published factors and pencil and paper."""

import pytest
from chapters.execute import Executed, execute

from shardbook.explorers.registry import get


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n46_collectives.md")


def rows_of(page: Executed, start: str) -> list[tuple[str, ...]]:
    return next(rows for caption, rows in page.tables().items() if caption.startswith(start))


def test_the_grids_are_what_each_collective_promises(page: Executed) -> None:
    grid = page.names["grid"]
    every = {(rank, column) for rank in range(4) for column in range(4)}
    diagonal, top = {(i, i) for i in range(4)}, {(0, i) for i in range(4)}
    places = {
        "all-reduce": (every, every),
        "reduce-scatter": (every, diagonal),
        "all-gather": (diagonal, every),
        "all-to-all": (every, every),
        "broadcast": (top, every),
        "reduce": (every, top),
        "gather": (diagonal, top),
        "scatter": (top, diagonal),
    }
    for name, (before, after) in places.items():
        assert set(grid(name, 0)) == before, name
        assert set(grid(name, 99)) == after, name
    before, after = grid("all-to-all", 0), grid("all-to-all", 99)
    assert all(before[i, j][0] == after[j, i][0] for i, j in every), "rows become columns"
    assert grid("reduce-scatter", 0)[2, 1][0] == "b₂"
    assert grid("reduce-scatter", 99)[2, 2] == ("Σc", "solid")
    assert grid("all-reduce", 99)[3, 0] == ("Σa", "hatched")


def test_reduce_scatter_then_all_gather_prints_the_sum(page: Executed) -> None:
    # 4 · k + 1 + 10 + 100 + 1000 at place k
    assert "[1111 1115 1119 1123 1127 1131 1135 1139] True" in page.printed


def test_a_ring_sends_two_n_minus_one_over_n(page: Executed) -> None:
    for row in rows_of(page, "All-reduce: what a rank sends"):
        n = int(row[0])
        assert row[1] == row[2] == f"{2 * (n - 1) / n:.4g}"  # Patarasuk and Yuan 2009
        assert row[3] == row[4] == str(n - 1)
        assert row[5] == "1"
    assert (page.said["sent_4"], page.said["sent_8"]) == ("1.5", "1.75")
    assert page.said["total"] == "6"  # 2(N - 1)


def test_after_n_minus_1_rounds_twelve_of_sixteen_chunks_are_missing(page: Executed) -> None:
    said = page.said
    assert (said["half_rounds"], said["all_rounds"]) == ("3", "6")
    assert (said["lacking"], said["wanted"]) == ("12", "16")
    assert "4 of 16 chunks are whole" in get("ring").view({}).sentence


def test_one_gib_among_four_ranks_at_400_gbit(page: Executed) -> None:
    said = page.said
    assert said["rate"] == "50 GB"
    assert said["gib_sent"] == "1.5 GiB"
    assert said["gib_seconds"] == "32.2 ms"
    assert said["gb_seconds"] == "30 ms"
    assert said["gib_more"] == "7.4%"
    assert said["algbw"] == f"{50 / 1.5:.1f}"
    assert said["busbw"] == "50"
    assert said["ratio"] == "9"


def test_latency_times_rounds_is_the_time_of_a_small_message(page: Executed) -> None:
    assert page.said["crowd_rounds"] == "2,046"
    # 2,046 · 5 µs + 2 · 1,023/1,024 · 1 MB / (50 GB/s)
    assert page.said["crowd_time"] == f"{1e3 * (2046 * 5e-6 + 2 * 1023 / 1024 * 1e6 / 50e9):.1f} ms"
    assert page.said["doubling"] == "140 µs"  # 20 · 5 µs + 40 µs


def test_direct_and_ring_cross_where_the_formula_says(page: Executed) -> None:
    # α B (14 - 1) / (7 - 1.75)
    assert page.said["cross_direct"] == f"{10e-6 * 50e9 * 13 / 5.25 / 1e6:.3g} MB"
    at = get("collective-cost").view({"size": str(round(10e-6 * 50e9 * 13 / 5.25))}).table.rows
    times = {row[0]: row[3] for row in at}
    assert times["ring"] == times["direct"]
    # the tree among 64: 126 against 12 rounds, 22 S against 1.96875 S
    assert page.said["e3"] == f"{5e-6 * 50e9 * 114 / (22 - 1.96875) / 1e6:.3g} MB"


def test_shared_cards_hurt_halving_and_not_the_ring(page: Executed) -> None:
    ring, halving, two_level = rows_of(page, "All-reduce of 1 GiB, 2 nodes")
    assert ring[3] == ring[4] == "40.6 ms"
    # 30 rounds of 1/16 GiB over one card
    assert f"{1e3 * 30 * (10e-6 + 2**30 / 16 / 50e9):.1f} ms" == "40.6 ms"
    # eight messages of half a GiB through one card, there and back, and the rounds inside
    crossing = 2 * (10e-6 + 8 * 2**29 / 50e9)
    inside = 2 * sum(5e-6 + 2**30 / 2**k / 450e9 for k in (2, 3, 4))
    assert halving[3] == f"{1e3 * (crossing + inside):.0f} ms"
    assert float(halving[4].split()[0]) < float(ring[4].split()[0])
    assert two_level[2] == "2.15 GB"  # 2 · (2 - 1)/2 of 1 GiB leaves each of two nodes
    assert float(page.said["over"]) > float(page.said["port"])


def test_the_wrong_order_puts_tensor_parallelism_between_nodes(page: Executed) -> None:
    right, wrong = rows_of(page, "Bytes of one step between")
    assert right == ("TP first", "0 B", "32 GB", "32 GB")
    assert wrong[2] == "0 B"
    # two rings of four, of the even and the odd ranks; two of a ring's four edges cross
    sent = 2 * 3 * 32 * 4 * 8192 * 4096 * 2  # over all edges of one ring
    assert wrong[1] == f"{2 * sent / 2 / 1e9:.2f} GB"
    assert (
        "'TP': ((0, 1, 2, 3), (4, 5, 6, 7)), 'DP': ((0, 4), (1, 5), (2, 6), (3, 7))" in page.printed
    )


def test_the_blank_case_has_the_answer_the_page_gives(page: Executed) -> None:
    state = {"collective": "all-gather", "algorithm": "ring", "ranks": "5", "sizes": "uneven"}
    rows = get("ring").view(state | {"step": "14"}).table.rows
    sent = {row[0]: row[4] for row in rows}
    assert sent["rank 1"] == min(sent.values()) == "6 MB"  # 9 MB but for chunk 2's 3 MB
    assert (page.said["b_rank"], page.said["b_sent"], page.said["b_all"]) == ("1", "6 MB", "9 MB")
    halving = {"algorithm": "halving-doubling", "ranks": "8", "step": "3"}
    ring = {"algorithm": "ring", "ranks": "8", "step": "7"}
    ends = [get("ring").view(one).sentence.split("every rank has ")[1] for one in (halving, ring)]
    assert ends[0] == ends[1] == "sent 0.875 times the whole data."


def test_exercises_come_out_as_pencil_and_paper_say(page: Executed) -> None:
    said = page.said
    assert said["e1"] == "12 GB"
    assert said["e2"] == f"{100 / 1.75:.3g}" and said["e2_time"] == "280 ms"
    assert said["e4"] == "4"
