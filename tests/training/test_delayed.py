"""The delayed update against the trainer, a loop written another way, and the theory of ½λw²."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.training.data import SeededData
from shardbook.training.delayed import largest_stable_rate, train_delayed
from shardbook.training.network import initial_unit
from shardbook.training.optimizers import SGD, Adam
from shardbook.training.settings import Settings
from shardbook.training.trainer import Trainer

ALONE = Settings(strategy="dp", ranks=1)


def reference(steps, late, rate):
    """Losses and last weights by keeping every version: step t computes with version t or t − 1.

    Float64 throughout but for start values and data, matrices instead of flat vectors.
    """
    shapes = [(unit.inputs, unit.outputs) for unit in ALONE.units]
    flat = [initial_unit(unit, 0, at).astype(float) for at, unit in enumerate(ALONE.units)]
    parts = [
        (w[: i * o].reshape(o, i).T, w[i * o : i * o + o])
        for w, (i, o) in zip(flat, shapes, strict=True)
    ]
    versions = [[x.copy() for part in parts for x in part]]
    m, v = ([np.zeros_like(x) for x in versions[0]] for _ in range(2))
    data, losses = SeededData(0, ALONE.layers[0], ALONE.layers[-1]), []
    for t in range(steps):
        use = versions[max(t - 1, 0)] if t >= late else versions[t]
        x, y = (each.astype(float) for each in data.draw(ALONE.samples))
        inputs = [x]
        for at in range(0, len(use), 2):
            out = inputs[-1] @ use[at] + use[at + 1]
            inputs.append(np.tanh(out) if at + 2 < len(use) else out)
        error = inputs[-1] - y
        losses.append(float(np.mean(error**2)))
        back, gradient = 2 * error / error.size, [np.zeros(0)] * len(use)
        for at in reversed(range(0, len(use), 2)):
            gradient[at], gradient[at + 1] = inputs[at // 2].T @ back, back.sum(0)
            back = back @ use[at].T * (1 - inputs[at // 2] ** 2)
        new = []
        for at, (w, g) in enumerate(zip(versions[t], gradient, strict=True)):
            m[at] = 0.9 * m[at] + 0.1 * g
            v[at] = 0.999 * v[at] + 0.001 * g * g
            scale = rate * np.sqrt(1 - 0.999 ** (t + 1)) / (1 - 0.9 ** (t + 1))
            new.append(w - scale * m[at] / (np.sqrt(v[at]) + 1e-8 * np.sqrt(1 - 0.999 ** (t + 1))))
        versions.append(new)
    last = [np.concatenate([versions[-1][at].T.ravel(), versions[-1][at + 1]]) for at in
            range(0, len(versions[-1]), 2)]  # fmt: skip
    return losses, np.concatenate(last)


@pytest.mark.parametrize("late", [None, 0, 1, 5])
def test_the_run_is_the_loop_that_keeps_every_version(late):
    """(S47)"""
    steps = 12
    float32 = Settings(strategy="dp", ranks=1, precision="float32")
    found = train_delayed(steps, delayed_from=late, settings=float32)
    losses, weights = reference(steps, steps if late is None else late, 1e-3)
    np.testing.assert_allclose(found.losses, losses, rtol=2e-5)
    np.testing.assert_allclose(found.weights, weights, atol=2e-5)


def test_without_delay_it_is_the_trainer_bit_for_bit():
    """(S47)"""
    steps = 30
    report = Trainer(ALONE).run(steps)
    assert train_delayed(steps).losses == tuple(step.loss for step in report)


@settings(derandomize=True, deadline=None, max_examples=15)
@given(st.integers(1, 12), st.data())
def test_a_delayed_step_misses_one_update_and_no_other_misses_any(steps, data):
    """The first step has none to miss (S47)."""
    late = data.draw(st.integers(0, steps))
    small = Settings(strategy="dp", ranks=1, layers=(3, 2))
    found = train_delayed(steps, delayed_from=late, settings=small)
    assert found.staleness == tuple(int(step >= max(late, 1)) for step in range(steps))


def test_the_delay_changes_the_run_from_the_step_told_on():
    on_time, late = train_delayed(8), train_delayed(8, delayed_from=4)
    assert late.losses[:4] == on_time.losses[:4]
    assert late.losses[4] != on_time.losses[4]
    assert not np.array_equal(late.weights, on_time.weights)


def test_a_high_rate_suffers_more_from_the_delay():
    """Losses at the end of 150 steps, with and without (S47)."""

    def cost(rate):
        late, on_time = (
            train_delayed(150, delayed_from=start, optimizer=Adam(rate)) for start in (0, None)
        )
        return late.mean_loss(20) / on_time.mean_loss(20)

    assert 1 < cost(1e-3) < 1.15
    assert cost(3e-3) > 1.3


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.floats(0.01, 100), st.booleans(), st.sampled_from([0.9, 1.1]))
def test_a_delay_halves_the_largest_stable_rate(curvature, delayed, part):
    """(S47)"""
    rate = part * largest_stable_rate(curvature, delayed=delayed)
    before = now = 1.0
    for _ in range(2000):
        seen = before if delayed else now
        before, now = now, now - rate * curvature * seen
        if abs(now) > 1e6:
            break
    assert (abs(now) < 1e-3) == (part < 1)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 3, "delayed_from": 4}, "delayed_from"),
        ({"steps": 3, "settings": Settings(ranks=2)}, "ranks"),
    ],
)
def test_impossible_runs_are_refused(arguments, named):
    with pytest.raises(InputError, match=named):
        train_delayed(**arguments)


def test_any_optimizer_can_be_late():
    late = train_delayed(5, delayed_from=0, optimizer=SGD(0.1, 0.9))
    assert late.losses[0] == train_delayed(5, optimizer=SGD(0.1, 0.9)).losses[0]
    with pytest.raises(InputError, match="curvature"):
        largest_stable_rate(0, delayed=True)
