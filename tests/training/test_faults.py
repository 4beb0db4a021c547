"""Each fault is seen as what it is, each check finds what it should, and healthy runs nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.numbers.loss_scaling import static
from shardbook.training.checks import findings
from shardbook.training.faults import FAULTS, HANGS, Fault, hooks
from shardbook.training.incident import investigate
from shardbook.training.optimizers import SGD
from shardbook.training.rendezvous import HangError
from shardbook.training.settings import Settings
from shardbook.training.trainer import Trainer

FIVE = ("dp", "zero1-all-reduce", "zero1", "zero2", "zero3")
GATHERING = ("zero1-all-reduce", "zero1", "zero2")
SMALL = (6, 9, 8, 4)


def small(strategy, ranks=4, **settings):
    return Settings(strategy, ranks, layers=SMALL, samples=4, **settings)


def found_by(fault, settings, steps=4):
    return [finding.check for finding in investigate(fault, settings, steps).found]


@pytest.mark.parametrize("strategy", FIVE)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_healthy_run_is_found_healthy(strategy, ranks):
    for settings in (small(strategy, ranks), Settings(strategy, ranks)):
        trainer = Trainer(settings, watched=True)
        assert findings([report.observed for report in trainer.run(6)]) == ()


def test_healthy_runs_of_other_kinds_are_found_healthy():
    for settings in (
        small("zero3", 6, shard=2),
        small("zero2", tokens=(4, 1, 0, 3)),
        small("dp", optimizer=SGD(0.5)),
        small("zero1", seed=99),
        small("zero2", loss_scale=static(2.0**40)),
    ):
        trainer = Trainer(settings, watched=True)
        assert findings([report.observed for report in trainer.run(6)]) == (), settings


def test_one_wrong_gathered_copy_is_found_where_it_is_used():
    """Even when the weights that are stored, and so those after the step, are right."""
    seen = Trainer(small("zero3"), watched=True).step().observed
    units = [list(rank) for rank in seen.used_weights]
    units[2][1] += 1
    wrong = replace(seen, used_weights=tuple(tuple(rank) for rank in units))
    (finding,) = findings([wrong])
    assert (finding.check, finding.rank) == ("same-weights", 2)
    assert "unit 1" in finding.text


@pytest.mark.parametrize("strategy", GATHERING)
def test_missing_all_gather_is_caught_by_the_replicas_weights(strategy):
    """Silent: every rank trains on, with mostly stale weights; the loss falls, more slowly.

    (S23)
    """
    incident = investigate(Fault("missing-parameter-all-gather"), Settings(strategy), 50)
    assert incident.stopped is None
    assert incident.found[0].check == "same-weights"
    assert incident.found[0].step == 0
    assert incident.healthy.loss < incident.faulty.loss < 1.5
    assert 0.03 < incident.faulty.weights_spread < 0.2
    assert incident.healthy.weights_spread == 0
    sent = incident.last.ranks[0].sent_bytes
    assert sent == {"zero1-all-reduce": 97_968}.get(strategy, 48_984)


def test_missing_all_gather_in_zero3_is_no_silent_fault():
    incident = investigate(Fault("missing-parameter-all-gather"), small("zero3"), 3)
    assert incident.found[0].check == "storage"
    assert "gathered weights of unit 0" in incident.stopped
    assert incident.last is None


@pytest.mark.parametrize("strategy", FIVE)
@pytest.mark.parametrize("name", ["reduced-parameter", "local-gradient"])
def test_an_unreduced_gradient_makes_replicas_drift_or_only_the_gradient_wrong(strategy, name):
    """Where each shard has one owner, all ranks get the same wrong weights."""
    checks = found_by(Fault(name), small(strategy))
    drifting = ["same-weights", "joint-gradient"]
    assert checks == (drifting if strategy == "dp" else ["joint-gradient"])


@pytest.mark.parametrize("strategy", FIVE)
def test_sum_for_mean_makes_the_gradient_n_times_as_long_and_adam_hides_it(strategy):
    incident = investigate(Fault("sum-for-mean"), Settings(strategy, 3), 20)
    assert [f.check for f in incident.found] == ["joint-gradient"]
    ratio = incident.faulty.gradient_norm / incident.healthy.gradient_norm
    assert ratio == pytest.approx(3, rel=0.02)
    assert incident.faulty.loss == pytest.approx(incident.healthy.loss, rel=1e-3)
    with_sgd = investigate(Fault("sum-for-mean"), Settings(strategy, 3, optimizer=SGD(0.1)), 20)
    assert abs(with_sgd.faulty.loss - with_sgd.healthy.loss) > 0.01


@pytest.mark.parametrize("strategy", FIVE)
@pytest.mark.parametrize("rank", [0, 2])
def test_repeated_data_is_caught_by_the_batches_checksums(strategy, rank):
    incident = investigate(Fault("repeated-data", rank=rank, step=1), small(strategy), 3)
    first = incident.found[0]
    assert (first.check, first.step) == ("distinct-data", 1)
    assert first.rank == max(rank, 1)
    assert incident.faulty.weights_spread == 0


@pytest.mark.parametrize("strategy", FIVE)
def test_a_bit_flip_at_rest_is_caught_before_the_next_step(strategy):
    fault = Fault("bit-flip", rank=2, step=1)
    first = [f for f in investigate(fault, small(strategy), 5).found if f.check == "state-at-rest"]
    assert [(f.step, f.rank) for f in first] == [(1, 2)]
    replicas_differ = "same-weights" in found_by(fault, small(strategy), 5)
    assert replicas_differ == (strategy == "dp")


@hypothesis_settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(0, 31), st.integers(0, 200), st.sampled_from(FIVE), st.integers(0, 3))
def test_any_flipped_bit_of_any_element_is_caught(bit, element, strategy, rank):
    fault = Fault("bit-flip", rank=rank, step=0, element=element, bit=bit)
    assert "state-at-rest" in found_by(fault, small(strategy), steps=1)


@pytest.mark.parametrize("strategy", FIVE)
@pytest.mark.parametrize("name", sorted(HANGS))
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_hang_says_who_waits_for_whom_in_which_call(strategy, name, rank):
    """(S70)"""
    settings = small(strategy)
    trainer = Trainer(settings, hooks=hooks(Fault(name, rank=rank, step=1), settings))
    trainer.step()
    with pytest.raises(HangError) as caught:
        trainer.step()
    hang = caught.value.hang
    others = {wait.rank: wait.waits_for for wait in hang.waits if wait.rank != rank}
    assert others == {other: (rank,) for other in range(4) if other != rank}
    collective = "all-reduce" if strategy in ("dp", "zero1-all-reduce") else "reduce-scatter"
    assert f"wait in {collective} of 36 × float16 (gradient of unit 2)" in hang.reason
    assert f"for rank {rank}, which is in" in hang.reason
    assert "✗" in str(hang)
    told = {"mismatched-count": "35 × float16", "mismatched-dtype": "36 × float32"}
    assert told.get(name, "which is in") in hang.reason


def test_a_skipped_call_of_the_same_size_is_met_in_the_wrong_one_until_sizes_differ():
    """Units of 20, 20 and 20 elements: the gradients of different units are summed, silently,
    until the rank that skipped has ended its step and the others wait for it."""
    settings = Settings("dp", 2, layers=(4, 4, 4, 4), samples=2)
    trainer = Trainer(settings, hooks=hooks(Fault("skipped-collective"), settings))
    with pytest.raises(HangError, match=r"call 2: rank 0 waits .* rank 1, which has ended"):
        trainer.step()


def test_a_fault_starts_in_its_step():
    healthy = Trainer(small("dp"))
    settings = small("dp")
    faulty = Trainer(settings, hooks=hooks(Fault("local-gradient", step=2), settings))
    for equal in (True, True, False):
        healthy.step(), faulty.step()
        assert np.array_equal(healthy.weights(1), faulty.weights(1)) is equal


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("strategy", FIVE)
def test_every_fault_is_found_or_refused(name, strategy):
    """(S70)"""
    if name == "missing-parameter-all-gather" and strategy == "dp":
        with pytest.raises(InputError, match="gathers no weights"):
            investigate(Fault(name), small(strategy), 2)
        return
    incident = investigate(Fault(name), small(strategy), 2)
    assert incident.found
    assert (incident.stopped is not None) == (
        name in HANGS or (name, strategy) == ("missing-parameter-all-gather", "zero3")
    )
    assert incident.what == FAULTS[name]
    assert ("stops" in incident.seen) == (incident.stopped is not None)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Fault("gremlins"),
        lambda: Fault("bit-flip", bit=32),
        lambda: Fault("bit-flip", rank=-1),
        lambda: hooks(Fault("bit-flip"), Settings("dp", 1)),
        lambda: hooks(Fault("bit-flip", rank=4), Settings("dp", 4)),
        lambda: hooks(Fault("missing-parameter-all-gather"), Settings("zero3", 4, shard=1)),
        lambda: investigate(Fault("bit-flip"), Settings("dp", 4), 0),
    ],
)
def test_a_fault_that_cannot_be_is_refused(bad):
    with pytest.raises(InputError):
        bad()
