"""The proof of a plan: it finds what running the plan on arrays would show, and points at it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.build import plan_of
from shardbook.collectives.plan import Plan, Transfer
from shardbook.collectives.run import chunks_by_rank, run
from shardbook.collectives.verify import verify
from shardbook.errors import InputError


def with_rounds(plan, rounds):
    return Plan(plan.collective, plan.ranks, plan.chunks, tuple(map(tuple, rounds)))


def runs_right(plan):
    """A second implementation: each rank contributes its own digit, in base 4096."""
    digit = {rank: 4096**i for i, rank in enumerate(plan.ranks)}
    starting, ending = chunks_by_rank(plan)
    held = [
        {chunk: np.array([digit[rank]], dtype=object) for chunk in starting[rank]}
        for rank in plan.ranks
    ]
    try:
        after = run(plan, held)
    except InputError:
        return False
    return all(
        chunks.get(chunk, [0])[0] == sum(digit[source] for source in plan.chunks[chunk].sources)
        for rank, chunks in zip(plan.ranks, after, strict=True)
        for chunk in ending[rank]
    )


@st.composite
def mutated_plans(draw):
    algorithm = draw(st.sampled_from(["ring", "tree", "naive", "halving-doubling", "direct"]))
    collective = draw(st.sampled_from(["all-reduce", "reduce-scatter", "all-gather"]))
    n = draw(st.integers(2, 5))
    plan = plan_of(collective, algorithm, n, 2 * n)
    rounds = [list(moves) for moves in plan.rounds]
    for _ in range(draw(st.integers(0, 2))):
        full = [moves for moves in rounds if moves]
        if not full:
            break
        moves = draw(st.sampled_from(full))
        at = draw(st.integers(0, len(moves) - 1))
        kind = draw(st.sampled_from(["drop", "repeat", "redirect", "rechunk", "flip", "swap"]))
        move = moves[at]
        if kind == "drop":
            del moves[at]
        elif kind == "repeat":
            moves.append(move)
        elif kind == "redirect":
            others = [rank for rank in range(n) if rank != move.source]
            moves[at] = move._replace(target=draw(st.sampled_from(others)))
        elif kind == "rechunk":
            moves[at] = move._replace(chunk=draw(st.integers(0, len(plan.chunks) - 1)))
        elif kind == "flip":
            moves[at] = move._replace(add=not move.add)
        else:
            other = draw(st.integers(0, len(rounds) - 1))
            first = rounds.index(moves)
            rounds[first], rounds[other] = rounds[other], rounds[first]
    return with_rounds(plan, rounds)


@settings(derandomize=True, deadline=None, max_examples=800)
@given(mutated_plans())
def test_the_proof_agrees_with_running_the_plan(plan):
    assert bool(verify(plan)) == runs_right(plan), verify(plan)


@pytest.mark.parametrize("collective", ["all-reduce", "reduce-scatter", "all-gather"])
def test_every_single_missing_transfer_of_a_ring_is_caught(collective):
    plan = plan_of(collective, "ring", 4, 8)
    rounds = [list(moves) for moves in plan.rounds]
    for i, moves in enumerate(rounds):
        for j in range(len(moves)):
            assert not verify(
                with_rounds(plan, [*rounds[:i], moves[:j] + moves[j + 1 :], *rounds[i + 1 :]])
            )


def test_missing_all_gather_is_caught_at_the_end():
    plan = plan_of("all-reduce", "ring", 4, 8)
    proof = verify(with_rounds(plan, list(plan.rounds)[:3]))
    assert {fault.round for fault in proof.faults} == {None}
    assert len(proof.faults) == 12
    first = proof.faults[0]
    assert (first.rank, first.chunk) == (1, 0)
    assert "lacks the contributions of ranks 0, 2, 3" in str(first)
    assert str(proof).splitlines()[-1].split() == ["end", "✗"]


def test_the_first_fault_is_marked_where_it_arises():
    plan = plan_of("all-reduce", "ring", 4, 8)
    rounds = list(plan.rounds)
    proof = verify(with_rounds(plan, rounds[:1] + rounds))
    assert str(proof.faults[0]) == (
        "round 2, rank 1, chunk 3: has the contribution of rank 0 twice"
    )
    marked = [line for line in str(proof).splitlines() if "✗" in line]
    assert len(marked) == 1
    assert marked[0].startswith("2 ")
    assert "✗ +3←0" in marked[0]


def test_a_contribution_twice_that_is_overwritten_is_no_fault():
    plan = plan_of("broadcast", "naive", 3, 1)
    rounds = [
        [Transfer(0, 1, 0, False)],
        [Transfer(0, 1, 0, True)],
        [Transfer(0, 1, 0, False), Transfer(0, 2, 0, False)],
    ]
    assert verify(with_rounds(plan, rounds))
    assert not verify(with_rounds(plan, rounds[:2]))


@pytest.mark.parametrize(
    ("move", "problem"),
    [
        (Transfer(0, 9, 0, False), "rank 9 does not take part"),
        (Transfer(0, 0, 0, False), "sends to itself"),
        (Transfer(0, 1, 7, False), "no such chunk"),
        (Transfer(1, 2, 0, False), "sends to rank 2 a chunk it does not hold"),
        (Transfer(0, 1, 0, True), "adds what rank 0 sends to a chunk it does not hold"),
    ],
)
def test_impossible_transfers_are_named(move, problem):
    plan = plan_of("broadcast", "naive", 3, 1)
    proof = verify(with_rounds(plan, [[move], *plan.rounds]))
    assert problem in proof.faults[0].problem
    assert proof.faults[0].round == 0
    assert "✗" in str(proof) or move.source == 9


def test_a_good_plan_says_so():
    assert str(verify(plan_of("all-gather", "ring", 3, 6))) == (
        "all-gather among 3 ranks: every chunk is whole"
    )
