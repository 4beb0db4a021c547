"""Suspicions: the metric against formulas, and experiments that refute the impostor only (S70)."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from shardbook.collectives.bandwidth import ring_seconds
from shardbook.errors import InputError
from shardbook.training.faults import HANGS, Fault, hooks
from shardbook.training.programs import Options
from shardbook.training.rendezvous import HangError
from shardbook.training.settings import Settings
from shardbook.training.slowness import Bench, Slow, slow_link, slow_rank, timed
from shardbook.training.stuck import hang
from shardbook.training.suspicions import save_peak, whole_model_gather
from shardbook.training.trainer import Trainer

SECONDS = {"load": 3e-4, "forward": 5e-5, "backward": 1e-4, "update": 2e-5}
ALPHA, BETA, PROBE = 5e-6, 1e9, 1 << 20
BENCH = Bench(Settings(ranks=4), SECONDS, ALPHA, BETA, 0.02, 5, 7, PROBE)
EXACT = replace(BENCH, spread=0, runs=1)


def metrics(case):
    return {each.name: each for each in case.metrics}


def test_the_probe_of_a_slow_port_takes_its_bytes_so_many_times_longer():
    case = slow_link(EXACT, 2, 10)
    found = metrics(case)
    assert case.threshold == pytest.approx(ring_seconds(2, PROBE, ALPHA, BETA))
    assert found["port_seconds"].faulty == pytest.approx(2 * ALPHA + 10 * PROBE / BETA)
    # every round of every ring passes the port: 45 rounds, 146,952 B (test of ZeRO-3's traffic)
    assert found["communication_seconds"].faulty == pytest.approx(45 * ALPHA + 1.46952e6 / BETA)
    assert {name for name, each in found.items() if each.moved == "no"} == {
        "compute_seconds", "waiting_seconds", "late_seconds", "sent_bytes"
    }  # fmt: skip


def test_others_wait_for_slow_rows_as_much_longer_as_they_take():
    found = metrics(slow_rank(EXACT, 1, 5))
    assert found["late_seconds"].faulty == pytest.approx(4 * SECONDS["load"])
    assert {name for name, each in found.items() if each.moved == "no"} == {
        "compute_seconds", "communication_seconds", "port_seconds", "sent_bytes"
    }  # fmt: skip


@pytest.mark.parametrize("case", [slow_link, slow_rank])
@pytest.mark.parametrize("where", range(4))
def test_wherever_it_is_the_experiment_refutes_the_impostor_and_not_the_fault(case, where):
    found = case(BENCH, where, 6)
    fault, impostor = found.trials
    assert (fault.refuted, impostor.refuted) == (False, True)
    assert fault.seen == fault.predicted == impostor.predicted != impostor.seen
    assert min(fault.metric, impostor.metric) > found.threshold


@pytest.mark.parametrize("case", [slow_link, slow_rank])
def test_a_fault_of_factor_one_moves_nothing_and_alarms_nobody(case):
    found = case(BENCH, 1, 1)
    assert {each.moved for each in found.metrics} == {"no"}
    assert found.trials[0].metric <= found.threshold


def test_of_healthy_runs_one_alone_is_above_all_others():
    """So a threshold at the highest of k runs is passed by one run in k + 1."""
    late = [timed(BENCH, run).metrics["late_seconds"] for run in range(12)]
    above = [run for run in range(12) if late[run] > max(late[:run] + late[run + 1 :])]
    assert len(above) == 1


def test_seed_and_number_make_a_run():
    one, again, other = (timed(replace(BENCH, seed=seed), 1) for seed in (3, 3, 4))
    assert one == again != other


@examples(derandomize=True, deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 12), min_size=3, max_size=6), st.integers(2, 5))
def test_gathered_bytes_are_the_largest_unit_or_all_of_them(layers, ranks):
    settings = Settings(ranks=ranks, layers=tuple(layers))
    units = [-(-(a + 1) * b // ranks) * ranks * 2 for a, b in pairwise(layers)]
    case = whole_model_gather(settings)
    assert case.threshold == metrics(case)["gathered_bytes"].low == max(units)
    assert metrics(case)["gathered_bytes"].faulty == sum(units)
    fault, impostor = case.trials
    assert (fault.refuted, impostor.refuted) == (False, True)
    assert (fault.seen, impostor.seen) == (f"{sum(units):,} B", f"{units[0]:,} B")
    assert fault.metric == impostor.metric > case.threshold


def test_gathering_all_at_once_sends_less_so_traffic_does_not_tell():
    found = metrics(whole_model_gather(Settings(ranks=4)))
    assert found["sent_bytes"].moved == "down" and found["peak_bytes"].moved == "up"
    assert found["sent_bytes"].faulty * 3 == found["sent_bytes"].low * 2  # 2Ψ instead of 3Ψ
    assert found["after_backward_bytes"].moved == "no"


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_save_on_one_rank_holds_all_states_beside_its_own(ranks):
    case = save_peak(Settings(ranks=ranks))
    own = 14 * 32_656 // ranks  # a part of fp16 weights and of three fp32 states
    found = metrics(case)
    assert found["save_bytes"].low == own
    assert found["save_bytes"].faulty == own + 12 * 32_656
    assert case.trials[1].metric == own + 12 * 32_656 // ranks
    assert [each.name for each in case.metrics if each.moved != "no"] == ["save_bytes"]
    assert case.trials[0].refuted is False


def test_a_rank_that_copies_its_part_refutes_the_gather_as_the_cause():
    case = save_peak(Settings(ranks=4))
    assert case.threshold == 161_632
    assert [trial.refuted for trial in case.trials] == [False, True]
    assert all(trial.metric > case.threshold for trial in case.trials)


@pytest.mark.parametrize("fault", sorted(HANGS))
@pytest.mark.parametrize("rank", range(4))
def test_the_rank_in_another_call_is_the_one_with_the_fault(fault, rank):
    settings = Settings(ranks=4)
    with pytest.raises(HangError) as stopped:
        Trainer(settings, hooks=hooks(Fault(fault, rank), settings)).step()
    assert stopped.value.hang.odd_ranks == (rank,)
    assert len({len(calls) for calls in stopped.value.hang.histories.values()}) == 1


@pytest.mark.parametrize("fault", sorted(HANGS))
def test_a_wrong_program_stays_when_rows_are_swapped_and_a_branch_on_rows_goes(fault):
    case = hang(Settings("zero2", 4), fault, 2)
    assert [(trial.seen, trial.refuted) for trial in case.trials] == [
        ("rank 2", False),
        ("rank 3", True),
    ]
    found = metrics(case)
    assert case.threshold == found["different_calls"].low == 1
    assert found["different_calls"].faulty == 2
    # all wait, and all have made as many calls: neither tells which rank it is
    assert found["waiting_ranks"].faulty == 4
    assert found["call_count_spread"].moved == "no"


@pytest.mark.parametrize(
    "make",
    [
        lambda: whole_model_gather(Settings("zero2", 4)),
        lambda: whole_model_gather(Settings(ranks=1)),
        lambda: whole_model_gather(Settings(ranks=2, layers=(3, 3))),
        lambda: save_peak(Settings(ranks=1)),
        lambda: save_peak(Settings(ranks=2), 2),
        lambda: hang(Settings("zero2", 2), "skipped-collective", 0),
        lambda: hang(Settings("zero2", 4), "bit-flip", 0),
        lambda: hang(Settings("zero2", 4), "skipped-collective", 4),
        lambda: hang(Settings("dp", 3, layers=(2, 2, 2)), "swapped-collectives", 1),
        lambda: replace(BENCH, settings=Settings(ranks=3)),
        lambda: replace(BENCH, seconds={"dream": 1}),
        lambda: replace(BENCH, seconds={"load": -1}),
        lambda: replace(BENCH, spread=float("nan")),
        lambda: replace(BENCH, runs=0),
        lambda: replace(BENCH, bandwidth=0),
        lambda: replace(BENCH, probe=0),
        lambda: slow_link(BENCH, 4, 2),
        lambda: slow_link(BENCH, 0, 0.5),
        lambda: slow_rank(replace(BENCH, seconds={"load": 1}), 0, 2),
        lambda: timed(BENCH, 0, Slow(port={0: 0.5})),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()


def test_two_micro_batches_are_told_apart_as_one_is():
    case = whole_model_gather(Settings(ranks=2, options=Options(micro_batches=2)))
    assert case.trials[1].refuted
