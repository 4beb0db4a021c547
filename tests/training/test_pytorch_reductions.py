"""What PyTorch 2.13 (gloo) made of stored local gradients, against our reductions of them."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from shardbook.errors import InputError
from shardbook.training import reduction
from shardbook.training.data import RecordedData
from shardbook.training.settings import LAYERS, Settings
from shardbook.training.state import State
from shardbook.training.trainer import Trainer

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module", params=[3, 4])
def truth(request):
    with np.load(DATA / f"dp_mlp_N{request.param}.npz") as file:
        return dict(file)


def reductions(truth, ddp_division, fsdp2_division):
    local = list(truth["grad_local"])
    return {
        "grad_ddp_step0": reduction.ddp(local, LAYERS, rebuilt=False, division=ddp_division),
        "grad_ddp_step1": reduction.ddp(local, LAYERS, division=ddp_division),
        "grad_fsdp2": reduction.fsdp2(local, LAYERS, division=fsdp2_division),
    }


def test_ddp_and_fsdp2_are_reproduced_to_the_bit(truth):
    local = list(truth["grad_local"])
    assert np.array_equal(reduction.ddp(local, LAYERS, rebuilt=False), truth["grad_ddp_step0"])
    assert np.array_equal(reduction.ddp(local, LAYERS), truth["grad_ddp_step1"])
    assert np.array_equal(reduction.fsdp2(local, LAYERS), truth["grad_fsdp2"])


def test_ranks_that_get_no_row_of_a_layer_change_no_bit():
    """Seven ranks and a layer of six rows."""
    with np.load(DATA / "dp_mlp_N7.npz") as file:
        truth = dict(file)
    local, layers = list(truth["grad_local"]), tuple(map(int, truth["layers"]))
    assert len(local) > min(layers[1:])
    assert np.array_equal(reduction.ddp(local, layers, rebuilt=False), truth["grad_ddp_step0"])
    assert np.array_equal(reduction.ddp(local, layers), truth["grad_ddp_step1"])
    assert np.array_equal(reduction.fsdp2(local, layers), truth["grad_fsdp2"])


def test_any_other_way_of_dividing_fails_on_three_ranks_and_not_on_four(truth):
    ranks = len(truth["grad_local"])
    for division in reduction.DIVISIONS:
        results = reductions(truth, division, division)
        for key, result in results.items():
            right = "divide-after" if key == "grad_fsdp2" else "multiply-before"
            assert np.array_equal(result, truth[key]) == (ranks == 4 or division == right), key


def test_the_layout_of_the_buckets_decides_bits(truth):
    local = list(truth["grad_local"])
    forward, rebuilt = (reduction.ddp(local, LAYERS, rebuilt=r) for r in (False, True))
    assert not np.array_equal(forward, rebuilt)
    assert forward == pytest.approx(rebuilt, abs=1e-7)


@pytest.mark.parametrize(("ranks", "layers"), [(1, (3, 2)), (2, (3, 5, 2)), (5, (7, 3, 1))])
def test_every_layout_and_division_is_the_mean(ranks, layers):
    size = sum((i + 1) * o for i, o in pairwise(layers))
    local = list(np.random.default_rng(ranks).standard_normal((ranks, size)))
    for division in reduction.DIVISIONS:
        for way in (reduction.ddp, reduction.fsdp2):
            assert way(local, layers, division=division) == pytest.approx(np.mean(local, axis=0))


def test_an_unknown_division_is_refused():
    with pytest.raises(InputError, match="division"):
        reduction.average([np.ones(2)], "halve")


def recorded_start(truth):
    zeros = np.zeros_like(truth["init"])
    vectors = {"master_weights": truth["init"], "momentum": zeros, "variance": zeros}
    return State(0, LAYERS, vectors, {"position": 0})


def test_the_local_gradients_are_ours_up_to_rounding(truth):
    """One rank at a time: with all others' tokens masked the joint gradient is the rank's."""
    ranks = len(truth["grad_local"])
    x, y = truth["x"].reshape(-1, 32), truth["y"].reshape(-1, 16)
    for rank in range(ranks):
        rows = slice(16 * rank, 16 * rank + 16)
        trainer = Trainer(
            Settings("dp", 1, precision="float32"),
            data=RecordedData(x[rows], y[rows]),
            start=recorded_start(truth),
        )
        trainer.step()
        # After one step from zero, Adam's momentum is (1 − β₁) times the gradient.
        gradient = trainer.state().vectors["momentum"] / np.float32(0.1)
        assert gradient == pytest.approx(truth["grad_local"][rank], abs=2e-7)


@pytest.mark.parametrize("strategy", ["dp", "zero1-all-reduce", "zero1", "zero2", "zero3"])
def test_fifty_adam_steps_agree_with_ddp_zero1_fsdp2_and_tensor_parallelism(strategy):
    with np.load(DATA / "dp_mlp_N4.npz") as file:
        truth = dict(file)
    trainer = Trainer(
        Settings(strategy, 4, precision="float32"),
        data=RecordedData(truth["x"], truth["y"]),
        start=recorded_start(truth),
    )
    trainer.run(50)
    for name in ("ddp", "zero1", "fsdp2", "tp"):
        assert np.abs(trainer.weights() - truth[f"final_{name}"]).max() < 2e-6, name
    assert np.abs(trainer.weights() - truth["init"]).max() > 0.01
    with pytest.raises(InputError, match="rows"):
        trainer.step()
