import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.training.rendezvous import Call, HangError, match

WORLD = (0, 1, 2)
derandomized = settings(derandomize=True, deadline=None)


def calls(counts, group=WORLD, collective="all-reduce", dtype="float16"):
    return [Call(collective, group, n, dtype, f"unit {i}") for i, n in enumerate(counts)]


def on(ranks, made):
    return {rank: list(made) for rank in ranks}


counts = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@derandomized
@given(counts)
def test_equal_programs_never_hang(sizes):
    assert match(on(WORLD, calls(sizes))) is None


@derandomized
@given(counts, st.data())
def test_a_skipped_call_always_hangs_and_names_the_rank(sizes, data):
    """At the latest at the end, where the others wait for a rank that has ended."""
    everyone = on(WORLD, calls(sizes))
    guilty = data.draw(st.sampled_from(WORLD))
    del everyone[guilty][data.draw(st.integers(0, len(sizes) - 1))]
    hang = match(everyone)
    assert hang is not None
    waits = {wait.rank: wait for wait in hang.waits}
    for rank in set(WORLD) - {guilty}:
        assert waits[rank].waits_for == (guilty,)
    assert f"rank {guilty}" in hang.reason


@derandomized
@given(counts, st.data())
def test_a_wrong_count_or_dtype_hangs_in_that_very_call(sizes, data):
    everyone = on(WORLD, calls(sizes))
    guilty = data.draw(st.sampled_from(WORLD))
    place = data.draw(st.integers(0, len(sizes) - 1))
    kind = data.draw(st.sampled_from(["count", "dtype", "collective"]))
    wrong = {
        "count": calls([99]),
        "dtype": calls([sizes[place]], dtype="float32"),
        "collective": calls([sizes[place]], collective="all-gather"),
    }[kind]
    everyone[guilty][place] = wrong[0]
    hang = match(everyone)
    assert hang is not None
    assert {wait.number for wait in hang.waits} == {place}
    assert {len(history) for history in hang.histories.values()} == {place + 1}


def test_two_groups_in_opposite_order_wait_for_each_other():
    left, right = calls([4], group=(0, 1)), calls([8], group=(0, 1), collective="all-gather")
    hang = match({0: left + right, 1: right + left})
    assert hang is not None
    assert [(w.rank, w.waits_for) for w in hang.waits] == [(0, (1,)), (1, (0,))]


def test_a_cycle_over_three_groups_is_found():
    pairs = {p: calls([4], group=p)[0] for p in [(0, 1), (1, 2), (0, 2)]}
    hang = match(
        {
            0: [pairs[0, 1], pairs[0, 2]],
            1: [pairs[1, 2], pairs[0, 1]],
            2: [pairs[0, 2], pairs[1, 2]],
        }
    )
    assert hang is not None
    assert {w.rank: w.waits_for for w in hang.waits} == {0: (1,), 1: (2,), 2: (0,)}


def test_groups_that_do_not_meet_go_on_without_each_other():
    assert match({**on((0, 1), calls([3], (0, 1))), **on((2, 3), calls([5, 6], (2, 3)))}) is None


def test_meaning_takes_no_part_in_matching():
    """As in NCCL: equal calls are matched although they mean different gradients."""
    one = Call("all-reduce", (0, 1), 4, "float16", "gradient of unit 1")
    other = Call("all-reduce", (0, 1), 4, "float16", "gradient of unit 0")
    assert match({0: [one], 1: [other]}) is None


def test_the_picture_marks_the_call_and_the_sentence_says_who_waits_for_whom():
    everyone = on(WORLD, calls([5, 7, 9]))
    del everyone[1][1]
    hang = match(everyone)
    assert str(HangError(hang)) == (
        "call 1: ranks 0 and 2 wait in all-reduce of 7 × float16 (unit 1) for rank 1, which is in"
        " all-reduce of 9 × float16 (unit 2)\n"
        "call   rank 0                rank 1                rank 2\n"
        "   0   all-reduce 5 float16  all-reduce 5 float16  all-reduce 5 float16\n"
        "   1 ✗ all-reduce 7 float16  all-reduce 9 float16  all-reduce 7 float16"
    )


def test_a_rank_that_ended_early_is_drawn_as_such():
    hang = match({0: calls([5, 5], (0, 1)), 1: calls([5], (0, 1))})
    assert "for rank 1, which has ended" in hang.reason
    assert hang.grid().splitlines()[-1].endswith("–")


@pytest.mark.parametrize("guilty", [0, 1])
def test_with_two_ranks_either_may_be_the_one_that_is_ahead(guilty):
    everyone = on((0, 1), calls([5, 7], (0, 1)))
    del everyone[guilty][0]
    hang = match(everyone)
    assert hang.reason.startswith("call 0: rank 0 waits in")
    assert "for rank 1" in hang.reason
