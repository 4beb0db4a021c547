"""Saving while training goes on, and what saving from one rank costs in device memory."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from shardbook.training.checkpoint import Array, Snapshot, Write, save, snapshot, write_durably
from shardbook.training.device import Name
from shardbook.training.state import State, categories
from shardbook.training.trainer import Trainer


class AsynchronousSaver:
    """Writes snapshots in the background, one after another, in the order of the calls (S69).

    ``begun_step`` is the last step of which a snapshot was taken, ``durable_step`` the last one
    that would survive a crash now; between the two, work would be lost.
    """

    def __init__(self, folder: Path, write: Write = write_durably) -> None:
        self._folder = folder
        self._write = write
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._saves: list[Future[None]] = []
        self.begun_step: int | None = None
        self.durable_step: int | None = None

    def begin(self, trainer: Trainer) -> None:
        """Take a snapshot now and write it later."""
        shot = snapshot(trainer)
        self.begun_step = shot.step
        self._saves.append(self._pool.submit(self._finish, shot))

    def wait(self) -> None:
        """Wait for the saves begun so far. Raises what the first failed one raised."""
        saves, self._saves = self._saves, []
        errors = [pending.exception() for pending in saves]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """Wait for all saves and end the background thread."""
        self._pool.shutdown()
        self.wait()

    def _finish(self, shot: Snapshot) -> None:
        save(shot, self._folder, self._write)
        self.durable_step = shot.step


def gather_on_one_rank(trainer: Trainer, rank: int = 0) -> tuple[State, int]:
    """Collect the whole state on one device, as a save of a single file would (S70).

    Returns the state and the device's peak in bytes (B): with sharded states the moment of the
    save, not the step, may be what does not fit.
    """
    state = trainer.state()
    held = {c: np.asarray(state.vectors[c]) for c in categories(trainer.settings)}
    return state, _peak_of_save(trainer, rank, held)


def copy_on_device(trainer: Trainer, rank: int = 0) -> int:
    """Return a device's peak in B if it copies its own part before that is written (S70).

    So may a save that lets the training go on; with sharded states it is small beside
    `gather_on_one_rank`.
    """
    device = trainer.ranks[rank].device
    units = range(len(trainer.settings.units))
    held = {
        category: np.concatenate([device.get(Name(category, unit)) for unit in units])
        for category in categories(trainer.settings)
    }
    return _peak_of_save(trainer, rank, held)


def _peak_of_save(trainer: Trainer, rank: int, held: Mapping[str, Array]) -> int:
    device = trainer.ranks[rank].device
    device.moment = "save"
    device.begin()
    for category, array in held.items():
        device.allocate(Name(f"saved_{category}", 0), array)
    peak = device.peak
    for category in held:
        device.free(Name(f"saved_{category}", 0))
    return peak
