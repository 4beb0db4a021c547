"""The five strategies, really run: what they store, send and compute."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.numbers.loss_scaling import LossScale, static
from shardbook.training.device import OUTSIDE
from shardbook.training.flat import flat_units
from shardbook.training.optimizers import SGD, Adam, NormalisedSGD
from shardbook.training.programs import Options
from shardbook.training.settings import Settings
from shardbook.training.trainer import Hooks, Trainer

FIVE = ("dp", "zero1-all-reduce", "zero1", "zero2", "zero3")
SMALL = (5, 7, 6, 3)


def run(strategy, ranks, steps=1, **settings):
    trainer = Trainer(Settings(strategy, ranks, **settings))
    return trainer, trainer.run(steps)[-1]


@pytest.mark.parametrize(
    ("strategy", "after_backward", "peak", "peak_at", "sent", "rounds"),
    [
        ("dp", 522_496, 559_744, "update, unit 1", 97_968, 30),
        ("zero1-all-reduce", 228_592, 237_904, "update, unit 1", 146_952, 45),
        ("zero1", 228_592, 237_904, "update, unit 1", 97_968, 30),
        ("zero2", 179_608, 191_992, "backward, unit 1", 97_968, 30),
        ("zero3", 130_624, 161_632, "backward, unit 1", 146_952, 45),
    ],
)
def test_the_lectures_numbers_on_every_rank_and_step(
    strategy, after_backward, peak, peak_at, sent, rounds
):
    """(S16, S18, S20)"""
    trainer = Trainer(Settings(strategy, 4))
    for report in trainer.run(2):
        for rank in report.ranks:
            assert rank.bytes_after_backward == after_backward
            assert (rank.peak_bytes, rank.peak_at) == (peak, peak_at)
            assert (rank.sent_bytes, rank.rounds) == (sent, rounds)


def test_zero3s_peak_has_the_inhabitants_that_the_lecture_lists():
    """(S18)"""
    _, report = run("zero3", 4)
    alive = report.ranks[0].alive_at_peak
    by_category = {}
    for name, size in alive.items():
        by_category[name.category] = by_category.get(name.category, 0) + size
    assert by_category == {
        "weights": 16_328,
        "master_weights": 32_656,
        "momentum": 32_656,
        "variance": 32_656,
        "gradients": 10_088,
        "gathered_weights": 18_624,
        "local_gradients": 18_624,
    }


@pytest.mark.parametrize("strategy", FIVE)
def test_the_history_by_category_adds_up_to_the_total_and_ends_as_it_began(strategy):
    trainer = Trainer(Settings(strategy, 3))
    for report in trainer.run(2):
        for rank in report.ranks:
            history = list(rank.history())
            for entry, categories in history:
                counted = [b for c, b in categories.items() if c not in OUTSIDE]
                assert sum(counted) == entry.total
                assert min(categories.values()) > 0
            assert max(entry.total for entry, _ in history) == rank.peak_bytes
            last = {name.category for name in rank.held_at_start}
            assert set(history[-1][1]) == last
            assert last == {"weights", "master_weights", "momentum", "variance"}


def test_zero3s_backward_peaks_unit_by_unit():
    _, report = run("zero3", 4)
    log = [e for e in report.ranks[0].log if e.moment.startswith("backward")]
    peaks = {m: max(e.total for e in log if e.moment == m) for m in {e.moment for e in log}}
    assert [peaks[f"backward, unit {unit}"] for unit in (4, 3, 2, 1, 0)] == [
        120_504,
        152_320,
        156_976,
        161_632,
        141_712,
    ]


def expected_bytes(strategy, layers, ranks):
    """After backward and at the peak, by hand: Ψ′ padded elements, ψ those of a unit."""
    units = [unit.padded for unit in flat_units(layers, ranks)]
    psi = sum(units)
    optimizer = 12 * psi // (1 if strategy == "dp" else ranks)
    weights = 2 * psi // (ranks if strategy == "zero3" else 1)
    sharded = strategy in ("zero2", "zero3") and ranks > 1
    gradient_cut = ranks if strategy in ("zero2", "zero3") else 1
    after = weights + optimizer + 2 * psi // gradient_cut
    gathered = [2 * u if strategy == "zero3" and ranks > 1 else 0 for u in units]
    backward = [
        weights
        + optimizer
        + gathered[i]
        + 2 * units[i]
        + sum(2 * u // gradient_cut for u in units[i + 1 :])
        for i in range(len(units))
    ]
    update = after + 4 * max(units) // (1 if strategy == "dp" else ranks)
    forward = weights + optimizer + max(gathered)
    return after, max(update, forward, *(backward if sharded else [0]))


@hypothesis_settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.sampled_from(FIVE),
    st.integers(1, 7),
    st.lists(st.integers(1, 12), min_size=2, max_size=6).map(tuple),
)
def test_bytes_rounds_and_traffic_follow_the_formulas(strategy, ranks, layers):
    """(S20)"""
    trainer, report = run(strategy, ranks, layers=layers, samples=2)
    after, peak = expected_bytes(strategy, layers, ranks)
    psi = trainer.settings.padded_parameters
    phases = 3 if strategy in ("zero1-all-reduce", "zero3") else 2
    for rank in report.ranks:
        assert (rank.bytes_after_backward, rank.peak_bytes) == (after, peak)
        assert rank.sent_bytes == phases * 2 * psi * (ranks - 1) // ranks
        assert rank.rounds == phases * (len(layers) - 1) * (ranks - 1)
    assert sum(s.bytes for s in report.sent) == sum(r.sent_bytes for r in report.ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_all_five_are_bitwise_equal_after_fifty_steps(ranks):
    """(S21)"""
    runs = {s: run(s, ranks, steps=50, layers=SMALL, samples=4) for s in FIVE}
    hashes = {trainer.weights_sha256() for trainer, _ in runs.values()}
    assert len(hashes) == 1
    assert len({report.loss for _, report in runs.values()}) == 1
    start = Trainer(Settings("dp", ranks, layers=SMALL, samples=4))
    assert start.weights_sha256() not in hashes


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_the_lectures_network_is_bitwise_equal_too(ranks):
    """(S16, S21)"""
    runs = [run(s, ranks, steps=50)[0] for s in FIVE]
    assert len({trainer.weights_sha256() for trainer in runs}) == 1
    for trainer in runs:
        for rank in range(ranks):
            assert np.array_equal(trainer.weights(rank), trainer.weights(0))


def test_three_ranks_pad_to_32_658():
    """(S22)"""
    settings = Settings("zero3", 3)
    assert (settings.parameters, settings.padded_parameters) == (32_656, 32_658)
    trainer, report = run("zero3", 3)
    last = trainer.ranks[2].device.log
    assert report.ranks[0].bytes_after_backward == 4 * 32_658 * 4 // 3
    assert last is report.ranks[2].log


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_summing_the_whole_vector_at_once_is_only_close_from_three_ranks_on(ranks):
    """Other segments, so another order of the same terms; two terms have only one order (S21)."""
    by_unit, _ = run("dp", ranks, steps=10)
    whole, report = run("dp", ranks, steps=10, options=Options(reduce_whole_model=True))
    difference = np.abs(by_unit.weights().astype(float) - whole.weights().astype(float)).max()
    assert (difference == 0) == (ranks == 2)
    assert difference < 0.01
    assert report.ranks[0].rounds == 2 * (ranks - 1)


def test_an_optimizer_that_is_not_element_wise_breaks_equality():
    """(S21)"""
    settings = {"optimizer": NormalisedSGD(0.05), "steps": 5, "layers": SMALL}
    dp, zero2 = (run(s, 4, **settings)[0] for s in ("dp", "zero2"))
    zero3, _ = run("zero3", 4, **settings)
    assert zero2.weights_sha256() == zero3.weights_sha256() != dp.weights_sha256()


@pytest.mark.parametrize("optimizer", [SGD(0.05), SGD(0.05, 0.9)], ids=str)
def test_element_wise_optimizers_with_fewer_states_keep_it_and_store_less(optimizer):
    runs = [run(s, 3, steps=5, layers=SMALL, optimizer=optimizer) for s in FIVE]
    assert len({trainer.weights_sha256() for trainer, _ in runs}) == 1
    psi = runs[0][0].settings.padded_parameters
    states = 4 + 4 * len(optimizer.states)
    assert runs[0][1].ranks[0].bytes_after_backward == (2 + 2 + states) * psi


def test_training_learns():
    trainer = Trainer(Settings("zero3", 4))
    losses = [report.loss for report in trainer.run(50)]
    assert losses[-1] < losses[0] / 2


def test_replicas_are_the_joint_batch_on_one_device_up_to_rounding():
    """Four ranks of 16 rows against one rank of 64, the same rows, in float32."""
    many, last_many = run("dp", 4, steps=5, precision="float32")
    one, last_one = run("dp", 1, steps=5, precision="float32", samples=64)
    assert last_many.loss == pytest.approx(last_one.loss, rel=1e-6)
    assert np.abs(many.weights() - one.weights()).max() < 1e-5


@pytest.mark.parametrize(
    ("ranks", "shard"), [(4, 1), (4, 2), (4, 4), (6, 3), (6, 2), (6, 1), (8, 4)]
)
def test_hybrid_sharding_stores_and_sends_by_its_group(ranks, shard):
    trainer, report = run("zero3", ranks, shard=shard)
    psi = trainer.settings.padded_parameters
    rank = report.ranks[-1]
    assert rank.bytes_after_backward == 16 * psi // shard
    inside = 3 * 2 * psi * (shard - 1) // shard
    groups = ranks // shard
    assert rank.sent_bytes == inside + 2 * (2 * psi // shard) * (groups - 1) // groups
    whole, _ = run("zero3", ranks)
    gap = np.abs(trainer.weights().astype(float) - whole.weights().astype(float)).max()
    assert gap < 0.01


def test_hybrid_sharding_ends_at_data_parallelism_and_at_zero3():
    hashes = {}
    for name, settings in {
        "dp": {"strategy": "dp"},
        "one": {"strategy": "zero3", "shard": 1},
        "all": {"strategy": "zero3", "shard": 6},
        "zero3": {"strategy": "zero3"},
    }.items():
        trainer = Trainer(Settings(ranks=6, layers=SMALL, **settings))
        last = trainer.run(20)[-1].ranks[0]
        hashes[name] = (trainer.weights_sha256(), last.peak_bytes, last.sent_bytes, last.rounds)
    assert hashes["one"] == hashes["dp"]
    assert hashes["all"] == hashes["zero3"]
    assert hashes["dp"][0] == hashes["zero3"][0]


def test_hybrid_reduction_is_the_direct_sum_in_double_precision():
    """Two nodes of eight: reduce-scatter in the node, all-reduce over the nodes (S33)."""
    from shardbook.collectives.ring import ring_all_reduce, ring_reduce_scatter
    from shardbook.collectives.run import run_on_vectors

    vectors = np.random.default_rng(0).standard_normal((16, 64))
    shards = []
    for node in (range(8), range(8, 16)):
        shards += run_on_vectors(ring_reduce_scatter(list(node), 64), [vectors[r] for r in node])
    for part in range(8):
        pair = run_on_vectors(
            ring_all_reduce([part, part + 8], 8), [shards[part], shards[part + 8]]
        )
        direct = vectors.sum(axis=0)[8 * part : 8 * part + 8]
        assert np.abs(pair[0] - direct).max() <= 2e-14
        assert np.array_equal(pair[0], pair[1])


def test_keeping_the_last_unit_saves_its_second_gather():
    _, again = run("zero3", 4)
    kept, once = run("zero3", 4, options=Options(regather_last=False))
    unit = 97_968 / 1.5  # 2Ψ bytes
    assert again.ranks[0].sent_bytes / unit == 2.25
    assert once.ranks[0].sent_bytes / unit == pytest.approx(2.214, abs=5e-4)
    assert kept.weights_sha256() == run("zero3", 4)[0].weights_sha256()


def test_gathering_the_whole_model_peaks_at_the_whole_model():
    by_unit, whole = run("zero3", 4), run("zero3", 4, options=Options(gather_whole_model=True))
    assert whole[0].weights_sha256() == by_unit[0].weights_sha256()
    assert whole[1].ranks[0].peak_bytes >= 114_296 + 65_312
    assert whole[1].ranks[0].rounds == by_unit[1].ranks[0].rounds - 15


@pytest.mark.parametrize("strategy", FIVE)
def test_accumulation_reduces_k_times_less_for_the_same_gradient(strategy):
    """(S37)"""
    k = 4
    options = [Options(micro_batches=k, reduce_each=each) for each in (False, True)]
    once, each = (run(strategy, 2, samples=4, precision="float32", options=o) for o in options)
    joint = run(strategy, 2, samples=4 * k, precision="float32")
    extra = 0 if strategy == "zero3" else 1
    gathers = {"dp": 0, "zero1-all-reduce": extra, "zero1": extra, "zero2": extra}
    phases = {"dp": 2, "zero1-all-reduce": 2}.get(strategy, 1)
    psi = once[0].settings.padded_parameters
    sent = [r.ranks[0].sent_bytes for _, r in (once, each)]
    per_phase = 4 * psi // 2
    fixed = (2 * k if strategy == "zero3" else gathers[strategy]) * per_phase
    assert sent == [phases * per_phase + fixed, k * phases * per_phase + fixed]
    for other in (each, joint):
        assert np.abs(other[0].weights() - once[0].weights()).max() < 2e-4
        assert other[1].loss == pytest.approx(once[1].loss, rel=1e-5)


def test_fsdp_without_communication_keeps_full_gradients():
    """States; then all gradients in full, or all shards and one full gradient; a gathered unit.

    (S37)
    """
    once, each = (
        run("zero3", 4, options=Options(micro_batches=3, reduce_each=each))[1].ranks[0]
        for each in (False, True)
    )
    assert once.peak_bytes == 114_296 + 2 * 32_656 + 18_624
    assert each.peak_bytes == 114_296 + 16_328 + 18_624 + 18_624
    assert once.bytes_after_backward == each.bytes_after_backward == 130_624


@pytest.mark.parametrize("strategy", ["dp", "zero3"])
def test_unequal_tokens_are_done_right_only_by_the_token_mean(strategy):
    """(S54)"""
    settings = {"precision": "float32", "tokens": (16, 3, 0, 9), "optimizer": SGD(1.0)}
    trainer = Trainer(Settings(strategy, 4, **settings), watched=True)
    right = trainer.step()
    assert right.observed.gradient_distances == pytest.approx([0] * 4, abs=1e-6)
    wrong = Trainer(Settings(strategy, 4, weighting="mean-of-means", **settings), watched=True)
    assert min(wrong.step().observed.gradient_distances) > 0.05
    counts = [c for c in right.calls[0] if c.what == "tokens"]
    assert len(counts) == 1


def test_equal_tokens_make_both_means_the_same():
    runs = [
        run("dp", 4, tokens=(5, 5, 5, 5), weighting=w)[0] for w in ("token-mean", "mean-of-means")
    ]
    assert runs[0].weights_sha256() == runs[1].weights_sha256()


def test_masked_rows_do_not_matter():
    """Rows beyond a rank's tokens may hold anything."""

    class Noisy:
        def __init__(self, inner):
            self.inner = inner
            self.position = 0

        def draw(self, rows):
            x, y = self.inner.draw(rows)
            x.reshape(4, 16, -1)[:, 5:] = 7
            return x, y

    quiet = Trainer(Settings("zero2", 4, tokens=(5, 5, 5, 5)))
    noisy = Trainer(Settings("zero2", 4, tokens=(5, 5, 5, 5)))
    noisy.data = Noisy(noisy.data)
    assert quiet.step().loss == noisy.step().loss
    assert quiet.weights_sha256() == noisy.weights_sha256()


@pytest.mark.parametrize("strategy", ["dp", "zero3"])
def test_dynamic_loss_scaling_finds_its_level_and_skips_overflowing_steps(strategy):
    """Started far too high: every skipped step leaves the weights alone and halves the scale."""
    trainer = Trainer(Settings(strategy, 3, loss_scale=LossScale(2.0**30, growth_interval=4)))
    skipped = []
    for _ in range(40):
        before = trainer.weights_sha256()
        scale = trainer.loss_scale.scale
        report = trainer.step()
        skipped.append(report.skipped)
        assert (trainer.weights_sha256() == before) == report.skipped
        if report.skipped:
            assert trainer.loss_scale.scale == scale / 2
    assert skipped[0]
    assert not all(skipped[-8:])
    assert trainer.state().skipped == sum(skipped)


def test_a_skipped_step_does_not_count_for_adam():
    """Its first update after 3 skipped steps is as long as any first one: ±rate everywhere."""
    trainer = Trainer(Settings("zero2", 2, loss_scale=LossScale(2.0**40, backoff=2.0**-9)))
    start = trainer.state().vectors["master_weights"]
    while trainer.step().skipped:
        pass
    assert trainer.steps_done > 2
    moved = np.abs(trainer.state().vectors["master_weights"] - start)
    assert np.median(moved) == pytest.approx(1e-3, rel=0.01)


def test_a_static_scale_that_fits_changes_little_and_costs_one_small_message():
    plain, report = run("zero1", 4)
    scaled, with_check = run("zero1", 4, loss_scale=static(1024.0))
    gap = np.abs(plain.weights().astype(float) - scaled.weights().astype(float)).max()
    assert gap < 3e-3
    assert with_check.ranks[0].rounds == report.ranks[0].rounds + 6


def test_the_update_divides_by_the_scale():
    """With SGD a gradient that is still scaled would show; powers of two change no mantissa."""
    plain, _ = run("zero2", 2, steps=3, optimizer=SGD(0.1))
    scaled, _ = run("zero2", 2, steps=3, optimizer=SGD(0.1), loss_scale=static(64.0))
    gap = np.abs(plain.weights().astype(float) - scaled.weights().astype(float)).max()
    assert gap < 1e-3


def test_all_ranks_skip_when_one_overflows():
    """Rank 0's shard may be finite: the ranks have to agree."""
    trainer = Trainer(Settings("zero3", 4, loss_scale=static(2.0**24)))
    report = trainer.step()
    assert report.skipped
    assert {rank.skip for rank in trainer.ranks} == {True}


def test_deferred_initialisation_never_needs_the_whole_model():
    """Over 8 ranks: the shards of units 0 to 3 (2 + 4 B a parameter), and unit 3 in float32.

    (S35)
    """

    def peak(deferred):
        trainer = Trainer(Settings("zero3", 8), deferred=deferred)
        return trainer.ranks[0].device.peak, trainer.weights_sha256()

    (by_unit, weights), (at_once, same) = peak(True), peak(False)
    assert weights == same
    assert by_unit == 6 * (3_168 + 3 * 9_312) // 8 + 4 * 9_312 > 14 * 32_656 // 8
    assert at_once >= 4 * 32_656


def test_a_program_of_ones_own_is_run_and_measured():
    """ZeRO-3 that forgets to reshard computes the same and pays in bytes."""

    def hoards(step, rank, program):
        kept = [a for a in program if a.kind != "reshard"]
        seen, result = set(), []
        for action in kept:
            if action.kind == "unshard" and action.unit in seen:
                continue
            if action.kind == "unshard":
                seen.add(action.unit)
            result.append(action)
        return tuple(result)

    proper = Trainer(Settings("zero3", 4))
    hoarder = Trainer(Settings("zero3", 4), hooks=Hooks(program=hoards))
    peaks = [t.step().ranks[0].peak_bytes for t in (proper, hoarder)]
    assert peaks[1] - peaks[0] > 2 * 9_312
    assert proper.weights_sha256() == hoarder.weights_sha256()
    with pytest.raises(InputError, match="already holds"):
        hoarder.step()


def test_a_watched_program_must_update_every_unit():
    def forgets(step, rank, program):
        return tuple(a for a in program if (a.kind, a.unit) != ("update", 2))

    trainer = Trainer(Settings("dp", 2), hooks=Hooks(program=forgets), watched=True)
    with pytest.raises(InputError, match="no update 2"):
        trainer.step()


def test_freed_activations_stop_backward():
    def early(step, rank, program):
        actions = list(program)
        first = next(i for i, a in enumerate(actions) if a.kind == "backward")
        return (*actions[: first + 1], actions[first], *actions[first + 1 :])

    trainer = Trainer(Settings("zero3", 2), hooks=Hooks(program=early))
    with pytest.raises(InputError, match="backward, unit 4"):
        trainer.step()


@pytest.mark.parametrize(
    "bad",
    [
        {"strategy": "zero9"},
        {"ranks": 0},
        {"ranks": 2.5},
        {"seed": -1},
        {"samples": 0},
        {"precision": "bfloat16"},
        {"weighting": "guess"},
        {"shard": 3},
        {"strategy": "dp", "shard": 2},
        {"tokens": (1, 2)},
        {"tokens": (0, 0, 0, 0)},
        {"tokens": (17, 1, 1, 1)},
        {"layers": (4096, 4096, 4096, 4096)},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(bad):
    with pytest.raises(InputError):
        Settings(**{"ranks": 4, **bad})


def test_adam_is_the_default():
    assert Settings().optimizer == Adam()
