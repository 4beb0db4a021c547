"""The explorers of N46: their numbers against formulas, and what their pictures claim."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.errors import InputError
from shardbook.explorers.registry import get
from shardbook.numbers.units import parse_bytes

COUNT = st.integers(0, 500)


@given(COUNT, COUNT, COUNT, COUNT, st.sampled_from(["0.5", "1", "3"]))
@settings(derandomize=True, deadline=None)
def test_unequal_tokens_are_averaged_as_fractions_say(
    a: int, b: int, c: int, d: int, loss: str
) -> None:
    tokens = [a, b, c, d]
    state = {f"tokens_{rank}": str(count) for rank, count in enumerate(tokens)} | {"loss_2": loss}
    if not any(tokens):
        with pytest.raises(InputError, match="tokens_0"):
            get("unequal-tokens").view(state)
        return
    rows = get("unequal-tokens").view(state).table.rows
    losses = [Fraction(1), Fraction(1), Fraction(loss), Fraction(1)]
    joint = sum(n * x for n, x in zip(tokens, losses, strict=True)) / sum(tokens)
    means = sum(x for n, x in zip(tokens, losses, strict=True) if n) / 4
    assert (rows[4][3], rows[4][4]) == (f"{float(joint):.5g}", f"{float(means):.5g}")
    for rank, count in enumerate(tokens):
        assert rows[rank][3] == ("1" if count else "0")
        share = Fraction(sum(tokens), 4 * count) if count else 0
        assert rows[rank][4] == f"{float(share):.4g}"


def test_equal_tokens_make_the_two_ways_one() -> None:
    state = {f"tokens_{rank}": "40" for rank in range(4)}
    for loss in ("0.5", "5"):
        sentence = get("unequal-tokens").view(state | {"loss_2": loss}).sentence
        assert sentence.startswith("Every token weighs 1") and "for any losses" in sentence
    # equal losses hide unequal weights
    assert "happens to be" in get("unequal-tokens").view({"loss_2": "1"}).sentence
    third = get("unequal-tokens").view({"tokens_2": "20"}).sentence
    assert "a token of rank 2 weighs 3 times one of rank 0" in third


@pytest.mark.parametrize("direction", ["next", "previous"])
@pytest.mark.parametrize("ranks", range(2, 9))
def test_a_step_of_the_ring_sends_one_chunk_and_makes_whole_what_the_rule_says(
    ranks: int, direction: str
) -> None:
    for step in range(2 * ranks - 1):
        state = {"ranks": str(ranks), "step": str(step), "direction": direction}
        view = get("ring").view(state)
        assert {row[4] for row in view.table.rows} == {f"{step} MB" if step else "0 B"}
        whole = ranks * max(0, step - ranks + 2)
        assert f"{whole} of {ranks * ranks} chunks are whole" in view.sentence
        away = 1 if direction == "next" else -1
        for rank, row in enumerate(view.table.rows):
            if step:
                assert row[3].endswith(f"from {(rank - away) % ranks}")


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "tree", "naive", "direct"])
@pytest.mark.parametrize("collective", ["all-reduce", "reduce-scatter", "all-gather"])
@pytest.mark.parametrize("sizes", ["even", "uneven"])
def test_after_the_last_step_everything_is_whole(
    algorithm: str, collective: str, sizes: str
) -> None:
    for ranks in (2, 4, 5, 8):
        state = {"algorithm": algorithm, "collective": collective, "sizes": sizes}
        sentence = get("ring").view(state | {"ranks": str(ranks), "step": "14"}).sentence
        done, wanted = sentence.split(", ")[1].split(" chunks")[0].split(" of ")
        assert done == wanted


@pytest.mark.parametrize("ranks", [2, 3, 8, 12, 64])
def test_the_cost_table_is_what_the_plans_measure(ranks: int) -> None:
    size = ranks * 64 * 1000
    state = {"ranks": str(ranks), "size": str(size), "latency": "20us", "bandwidth": "12.5GB/s"}
    for row in get("collective-cost").view(state).table.rows:
        plan = plan_of("all-reduce", row[0], ranks, size)
        counted = measure(plan, flat(20e-6, 12.5e9))
        value, unit = row[3].split()
        seconds = float(value.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
        assert int(row[1].replace(",", "")) == counted.rounds
        assert seconds == pytest.approx(counted.seconds, rel=5e-3)
        rates = [float(parse_bytes("rate", text.removesuffix("/s"))) for text in row[4:6]]
        assert rates[1] / rates[0] == pytest.approx(2 * (ranks - 1) / ranks, rel=1e-2)


def test_the_ring_reaches_the_bandwidth_of_the_port_when_messages_are_large() -> None:
    state = {"size": "16GB", "latency": "1us", "ranks": "8"}
    assert (
        "its busbw is 50 GB/s of the port's 50 GB/s" in get("collective-cost").view(state).sentence
    )
    small = get("collective-cost").view({"size": "1kB", "ranks": "1024"}).sentence
    assert "100% of it latency" in small and "fastest is direct" in small
