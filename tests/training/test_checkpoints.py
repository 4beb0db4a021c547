import json
import shutil
import threading

import numpy as np
import pytest

from shardbook.errors import InputError
from shardbook.numbers.loss_scaling import LossScale
from shardbook.training import checkpoint, saving
from shardbook.training.checkpoint import load, save, saved_steps, snapshot, write_durably
from shardbook.training.optimizers import SGD
from shardbook.training.settings import Settings
from shardbook.training.trainer import Trainer

FIVE = ("dp", "zero1-all-reduce", "zero1", "zero2", "zero3")
SMALL = (5, 7, 6, 3)


def small(strategy="zero3", ranks=4, **settings):
    return Settings(strategy, ranks, layers=SMALL, samples=4, **settings)


def trained(settings, steps):
    trainer = Trainer(settings)
    trainer.run(steps)
    return trainer


def same_state(a, b):
    assert (a.step, a.skipped) == (b.step, b.skipped)
    assert a.layers == b.layers
    assert a.vectors.keys() == b.vectors.keys()
    assert all(a.vectors[c].tobytes() == b.vectors[c].tobytes() for c in a.vectors)
    assert a.data == b.data
    assert a.loss_scale == b.loss_scale


@pytest.fixture
def two(tmp_path):
    """A folder with the checkpoints of steps 2 and 4, and the trainer that made them."""
    trainer = trained(small(), 2)
    save(snapshot(trainer), tmp_path)
    trainer.run(2)
    save(snapshot(trainer), tmp_path)
    return tmp_path, trainer


@pytest.mark.parametrize("strategy", FIVE)
@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_resumed_is_bitwise_never_stopped(tmp_path, strategy, ranks):
    """(S69)"""
    settings = small(strategy, ranks, loss_scale=LossScale(2.0**17, growth_interval=3))
    trainer = trained(settings, 5)
    assert 0 < trainer.steps_skipped < 5  # so that steps and updates differ, and both matter
    save(snapshot(trainer), tmp_path)
    trainer.run(6)
    resumed = Trainer(settings, start=load(tmp_path))
    assert resumed.steps_done == 5
    resumed.run(6)
    same_state(resumed.state(), trainer.state())
    assert resumed.weights_sha256() == trainer.weights_sha256()
    straight = trained(settings, 11)
    assert straight.weights_sha256() == trainer.weights_sha256()


@pytest.mark.parametrize("missing", ["momentum", "data", "skipped"])
def test_a_checkpoint_without_any_one_part_would_not_be_enough(tmp_path, missing):
    """What the test above would not notice if it did not matter."""
    from dataclasses import replace

    trainer = trained(small(), 5)
    state = trainer.state()
    damaged = {
        "momentum": lambda: replace(
            state, vectors={**state.vectors, "momentum": np.zeros_like(state.vectors["momentum"])}
        ),
        "data": lambda: replace(state, data=Trainer(small()).data.state()),
        "skipped": lambda: replace(state, skipped=5),
    }[missing]()
    trainer.run(3)
    resumed = Trainer(small(), start=damaged)
    resumed.run(3)
    assert resumed.weights_sha256() != trainer.weights_sha256()


@pytest.mark.parametrize("before", [("dp", 4), ("zero2", 3), ("zero3", 5), ("zero3", 1)])
@pytest.mark.parametrize("after", [("zero3", 4), ("dp", 2), ("zero1", 7)])
def test_at_another_world_size_the_state_is_the_saved_one_and_goes_on_as_if_started_there(
    tmp_path, before, after
):
    """(S69)"""
    trainer = trained(small(*before), 4)
    save(snapshot(trainer), tmp_path)
    loaded = load(tmp_path)
    same_state(loaded, trainer.state())
    resumed = Trainer(small(*after), start=loaded)
    same_state(resumed.state(), trainer.state())
    resumed.run(3)
    there = Trainer(small(*after), start=trainer.state())
    there.run(3)
    assert resumed.weights_sha256() == there.weights_sha256()


@pytest.mark.parametrize("shard", [1, 2, 3, 6])
def test_hybrid_shards_are_saved_once_and_come_back(tmp_path, shard):
    trainer = trained(small(ranks=6, shard=shard), 3)
    shot = snapshot(trainer)
    elements = sum(a.size for part in shot.parts for a in part.values())
    assert elements == 3 * trainer.settings.padded_parameters
    assert len({sum(a.size for a in part.values()) for part in shot.parts}) == 1
    save(shot, tmp_path)
    same_state(load(tmp_path), trainer.state())


def test_a_rank_whose_write_fails_leaves_the_previous_checkpoint(two):
    """(S69)"""
    folder, trainer = two
    trainer.run(1)

    def disk_full(path, content):
        if path.name.startswith("rank-00002"):
            raise OSError(28, "No space left on device")
        write_durably(path, content)

    with pytest.raises(OSError, match="No space"):
        save(snapshot(trainer), folder, disk_full)
    assert saved_steps(folder) == [2, 4]
    assert load(folder).step == 4
    assert save(snapshot(trainer), folder).name == "step-00000005"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"step-{step:08d}" for step in (2, 4, 5)
    ]
    same_state(load(folder), trainer.state())


@pytest.mark.parametrize("files", range(6))
def test_a_save_torn_after_any_file_leaves_the_previous_checkpoint(two, files):
    """Four shards and a manifest: after the last there is only the rename left, which happens."""
    folder, trainer = two
    trainer.run(1)
    written = []

    class Torn(BaseException):
        pass

    def torn(path, content):
        if len(written) == files:
            path.write_bytes(content[: len(content) // 2])
            raise Torn
        written.append(path)
        write_durably(path, content)

    if files == 5:
        save(snapshot(trainer), folder, torn)
    else:
        with pytest.raises(Torn):
            save(snapshot(trainer), folder, torn)
    assert load(folder).step == (5 if files == 5 else 4)


def damage(folder, name, change):
    path = folder / "step-00000004" / name
    change(path)


RANK_1 = "rank-00001-of-00004.npz"


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-40])


def from_step_2(path):
    shutil.copy(path.parent.parent / "step-00000002" / path.name, path)


def rank_2_instead(path):
    shutil.copy(path.with_name("rank-00002-of-00004.npz"), path)


def other_step_in_manifest(path):
    manifest = json.loads(path.read_bytes())
    manifest["step"] = 3
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (RANK_1, lambda p: p.unlink(), "the file of rank 1 is missing"),
        (RANK_1, flip, "the file of rank 1 is corrupt"),
        (RANK_1, cut_short, "the file of rank 1 is corrupt"),
        (RANK_1, lambda p: p.write_bytes(b""), "the file of rank 1 is not of a checkpoint"),
        (RANK_1, lambda p: p.write_bytes(b"hello"), "the file of rank 1 is not of a checkpoint"),
        (RANK_1, lambda p: np.save(p.open("wb"), np.ones(3)), "rank 1 is not of a checkpoint"),
        (RANK_1, from_step_2, "the file of rank 1 is of step 2, not of step 4"),
        (RANK_1, rank_2_instead, "the file of rank 1 is that of rank 2"),
        ("manifest.json", lambda p: p.unlink(), "its manifest is missing"),
        ("manifest.json", cut_short, "its manifest can't be read"),
        ("manifest.json", lambda p: p.write_text("[]"), "not of a shardbook checkpoint"),
        ("manifest.json", lambda p: p.write_text('{"step": 4}'), "not of a shardbook checkpoint"),
        ("manifest.json", lambda p: p.write_bytes(b"\xff\xfe"), "its manifest can't be read"),
        ("manifest.json", other_step_in_manifest, "its manifest is corrupt"),
        ("manifest.json", from_step_2, "its manifest is of step 2"),
    ],
)
def test_damage_gives_one_clear_error_and_the_other_checkpoint_still_loads(
    two, name, change, message
):
    folder, _ = two
    damage(folder, name, change)
    with pytest.raises(InputError) as caught:
        load(folder)
    assert message in str(caught.value)
    assert str(caught.value).endswith("; other checkpoints: 2")
    assert "\n" not in str(caught.value)
    assert load(folder, 2).step == 2


def test_a_file_of_another_run_at_the_same_step_is_told(two, tmp_path_factory):
    folder, _ = two
    other = tmp_path_factory.mktemp("other")
    save(snapshot(trained(small(seed=1), 4)), other)
    damage(folder, RANK_1, lambda p: shutil.copy(other / "step-00000004" / RANK_1, p))
    with pytest.raises(InputError, match="of another save of the same step"):
        load(folder)


def test_pickles_are_never_loaded(two):
    """Not even when the manifest's checksum fits."""
    folder, _ = two
    path = folder / "step-00000004"
    np.savez(path / "evil.npz", label=np.array(json.dumps({})), x=np.array([{}], dtype=object))
    content = (path / "evil.npz").read_bytes()
    (path / RANK_1).write_bytes(content)
    manifest = json.loads((path / "manifest.json").read_bytes())
    manifest["files"][RANK_1] = checkpoint.hashlib.sha256(content).hexdigest()
    manifest["checksum"] = checkpoint._manifest_checksum(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="rank 1 is not of a checkpoint"):
        load(folder)


def test_no_checkpoint_and_no_such_step_are_told(two, tmp_path_factory):
    with pytest.raises(InputError, match="no finished checkpoint"):
        load(tmp_path_factory.mktemp("empty"))
    with pytest.raises(InputError, match="the folder has 2, 4"):
        load(two[0], 3)


def test_a_step_is_never_overwritten(two):
    folder, trainer = two
    with pytest.raises(InputError, match="already saved"):
        save(snapshot(trainer), folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": (5, 7, 3)}, "layers"),
        ({"optimizer": SGD()}, "optimizer"),
        ({"seed": 1}, "seed"),
    ],
)
def test_a_state_of_another_training_is_refused(two, settings, message):
    folder, _ = two
    with pytest.raises(InputError, match=message):
        Trainer(Settings("zero3", 4, **{"layers": SMALL, **settings}), start=load(folder))


def test_an_asynchronous_save_says_what_is_durable_and_saves_the_moment_it_was_begun(tmp_path):
    """(S69)"""
    may_write = {"2": threading.Event(), "4": threading.Event()}

    def slow(path, content):
        assert may_write[path.parent.name[-1]].wait(60)
        write_durably(path, content)

    trainer = trained(small(), 2)
    at_two = trainer.state()
    saver = saving.AsynchronousSaver(tmp_path, slow)
    saver.begin(trainer)
    trainer.run(2)
    saver.begin(trainer)
    assert (saver.begun_step, saver.durable_step) == (4, None)
    assert saved_steps(tmp_path) == []
    may_write["2"].set()
    saver._saves[0].result(60)
    assert (saver.begun_step, saver.durable_step) == (4, 2)
    assert saved_steps(tmp_path) == [2]
    may_write["4"].set()
    saver.close()
    assert (saver.begun_step, saver.durable_step) == (4, 4)
    same_state(load(tmp_path, 2), at_two)
    same_state(load(tmp_path, 4), trainer.state())


def test_a_failed_asynchronous_save_is_reported_and_not_durable(tmp_path):
    trainer = trained(small(), 2)
    failing = [False]

    def write(path, content):
        if failing[0]:
            raise OSError("disk gone")
        write_durably(path, content)

    saver = saving.AsynchronousSaver(tmp_path, write)
    saver.begin(trainer)
    saver.wait()
    failing[0] = True
    trainer.step()
    saver.begin(trainer)
    with pytest.raises(OSError, match="disk gone"):
        saver.close()
    assert (saver.begun_step, saver.durable_step) == (3, 2)
    assert load(tmp_path).step == 2


def test_gathering_the_state_on_one_rank_peaks_there():
    """12 bytes a parameter, undivided, on top of what the rank holds between the steps (S70)."""
    trainer = trained(Settings("zero3", 4), 1)
    state, peak = saving.gather_on_one_rank(trainer)
    assert peak == 14 * 32_656 // 4 + 12 * 32_656
    assert trainer.ranks[0].device.total == 14 * 32_656 // 4
    same_state(state, trainer.state())
