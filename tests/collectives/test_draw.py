"""The round × rank grid."""

from shardbook.collectives.build import plan_of
from shardbook.collectives.draw import grid


def test_ring_of_three_is_drawn():
    assert grid(plan_of("all-reduce", "ring", 3, 6)).splitlines() == [
        "round  rank 0  rank 1  rank 2",
        "1      +1←2    +2←0    +0←1",
        "2      +0←2    +1←0    +2←1",
        "3      2←2     0←0     1←1",
        "4      1←2     2←0     0←1",
    ]


def test_idle_ranks_and_full_cells():
    lines = grid(plan_of("all-reduce", "naive", 6, 6)).splitlines()
    assert lines[1].split()[-1] == "·"
    assert "+0←1 +0←2 +0←3 …" in lines[1]


def test_large_plans_are_cut_around_the_fault():
    lines = grid(plan_of("all-reduce", "ring", 64, 64), fault=(100, 40)).splitlines()
    assert len(lines) == 1 + 16 + 1
    marked = [line for line in lines if "✗" in line]
    assert len(marked) == 1
    assert marked[0].startswith("101 ")
    assert "rank 40" in lines[0]
    assert lines[-1] == "(8 of 64 ranks shown)"
