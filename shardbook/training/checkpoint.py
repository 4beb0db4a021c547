"""Checkpoints: one file per rank and a manifest, complete or not there at all.

A save writes everything into a folder with a temporary name and renames that folder last, which
the file system does at once or not at all: a save that fails or is torn never has the name of a
checkpoint. Only float32 states are saved; working weights are the master weights rounded.
"""

import hashlib
import io
import json
import os
import re
import shutil
import uuid
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError
from shardbook.numbers.loss_scaling import LossScale
from shardbook.training.device import Name
from shardbook.training.flat import flat_units
from shardbook.training.state import State, categories
from shardbook.training.trainer import Trainer

Array = NDArray[Any]
#: writes bytes to a path; a test gives one that fails
Write = Callable[[Path, bytes], None]

FORMAT: Final = "shardbook checkpoint 1"
#: how a zip archive, and so an .npz file, begins
_ARCHIVE: Final = b"PK\x03\x04"
_STEP_FOLDER: Final = re.compile(r"step-(\d{8})")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of every rank's part of the state, as it was after ``step`` steps."""

    step: int
    manifest: Mapping[str, Any]  #: without the files' checksums
    parts: tuple[Mapping[str, Array], ...]  #: per rank: ``category.unit`` → elements


def snapshot(trainer: Trainer) -> Snapshot:
    """Copy what has to be saved; the training may go on while it is written.

    Ranks that hold the same elements share them out, so that each is saved once.
    """
    settings = trainer.settings
    wanted = categories(settings)
    parts = []
    starts = []
    for rank in trainer.ranks:
        arrays = {}
        offsets = []
        for number, shape in enumerate(settings.units):
            size = shape.padded // settings.ranks
            start = _first_saved(trainer, rank.rank) * size
            offsets.append(start)
            for category in wanted:
                stored = rank.device.get(Name(category, number))
                held = rank.layout.part(rank.rank, shape).start if len(stored) < shape.padded else 0
                arrays[f"{category}.{number}"] = stored[start - held :][:size].copy()
        parts.append(arrays)
        starts.append(offsets)
    manifest = {
        "format": FORMAT,
        "save": uuid.uuid4().hex,
        "step": trainer.steps_done,
        "skipped": trainer.steps_skipped,
        "layers": list(settings.layers),
        "ranks": settings.ranks,
        "categories": list(wanted),
        "data": trainer.data.state(),
        "loss_scale": asdict(trainer.loss_scale) if trainer.loss_scale else None,
        "starts": starts,
    }
    return Snapshot(trainer.steps_done, manifest, tuple(parts))


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def save(shot: Snapshot, folder: Path, write: Write = write_durably) -> Path:
    """Write a checkpoint into ``folder`` and return its own folder; then it is durable (S69).

    Raises:
        InputError: this step is already saved there.
        OSError: whatever ``write`` raised; the checkpoint then does not exist.
    """
    final = folder / f"step-{shot.step:08d}"
    if final.exists():
        raise InputError("checkpoint", str(final), "this step is already saved there")
    temporary = folder / f"unfinished-{final.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    files = {}
    for rank, arrays in enumerate(shot.parts):
        name = _file_name(rank, len(shot.parts))
        content = _packed(arrays, shot, rank)
        write(temporary / name, content)
        files[name] = hashlib.sha256(content).hexdigest()
    manifest = {**shot.manifest, "files": files}
    manifest["checksum"] = _manifest_checksum(manifest)
    write(temporary / "manifest.json", json.dumps(manifest, indent=1).encode())
    _sync_folder(temporary)
    temporary.rename(final)
    _sync_folder(folder)
    return final


def saved_steps(folder: Path) -> list[int]:
    """Return the steps of the checkpoints in ``folder``, in order; unfinished saves are none."""
    matches = [_STEP_FOLDER.fullmatch(path.name) for path in folder.glob("step-*")]
    return sorted(int(match[1]) for match in matches if match)


def load(folder: Path, step: int | None = None) -> State:
    """Return the whole state saved at ``step`` (None: the last one saved), at any world size (S69).

    Raises:
        InputError: there is none, or a file is missing, corrupt, of another step or save, or no
            checkpoint's at all; the message says which, and which steps are left.
    """
    steps = saved_steps(folder)
    if not steps:
        raise InputError("checkpoint", str(folder), "no finished checkpoint is there")
    chosen = steps[-1] if step is None else step
    if chosen not in steps:
        raise InputError("step", chosen, f"the folder has {', '.join(map(str, steps))}")
    path = folder / f"step-{chosen:08d}"
    try:
        return _read(path, chosen)
    except _Damage as damage:
        others = ", ".join(str(s) for s in steps if s != chosen)
        left = f"; other checkpoints: {others}" if others else ""
        raise InputError("checkpoint", str(path), f"{damage}{left}") from None


class _Damage(Exception):
    """What is wrong with a checkpoint."""


def _read(path: Path, step: int) -> State:
    manifest = _read_manifest(path, step)
    names = [_file_name(rank, manifest["ranks"]) for rank in range(manifest["ranks"])]
    units = flat_units(tuple(manifest["layers"]), manifest["ranks"])
    vectors = {
        c: [np.full(u.padded, np.nan, np.float32) for u in units] for c in manifest["categories"]
    }
    for rank, name in enumerate(names):
        arrays = _read_part(path / name, manifest, rank)
        for category, targets in vectors.items():
            for number, target in enumerate(targets):
                start = manifest["starts"][rank][number]
                piece = arrays[f"{category}.{number}"]
                target[start : start + len(piece)] = piece
    scale = manifest["loss_scale"]
    return State(
        step,
        tuple(manifest["layers"]),
        {
            category: np.concatenate([v[: u.elements] for v, u in zip(vs, units, strict=True)])
            for category, vs in vectors.items()
        },
        manifest["data"],
        LossScale(**scale) if scale else None,
        manifest["skipped"],
    )


def _read_manifest(path: Path, step: int) -> dict[str, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        raise _Damage("its manifest is missing") from None
    except (ValueError, OSError):
        raise _Damage("its manifest can't be read") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _Damage("its manifest is not of a shardbook checkpoint")
    if manifest.get("checksum") != _manifest_checksum(manifest):
        raise _Damage("its manifest is corrupt: the checksum differs")
    if manifest["step"] != step:
        raise _Damage(f"its manifest is of step {manifest['step']}")
    return manifest


def _read_part(path: Path, manifest: Mapping[str, Any], rank: int) -> dict[str, Array]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise _Damage(f"the file of rank {rank} is missing") from None
    except OSError:
        raise _Damage(f"the file of rank {rank} can't be read") from None
    if hashlib.sha256(content).hexdigest() != manifest["files"].get(path.name):
        raise _Damage(f"the file of rank {rank} is {_what_instead(content, manifest, rank)}")
    try:
        return _unpacked(content)
    except ValueError:
        raise _Damage(f"the file of rank {rank} is not of a checkpoint") from None


def _what_instead(content: bytes, manifest: Mapping[str, Any], rank: int) -> str:
    """Say what a file with a wrong checksum is, as well as it can still be told."""
    try:
        label = json.loads(str(_unpacked(content)["label"]))
    except (ValueError, KeyError):
        known = content.startswith(_ARCHIVE)
        return "corrupt: the checksum differs" if known else "not of a checkpoint"
    if label["step"] != manifest["step"]:
        return f"of step {label['step']}, not of step {manifest['step']}"
    if label["rank"] != rank:
        return f"that of rank {label['rank']}"
    return "of another save of the same step" if label["save"] != manifest["save"] else "corrupt"


def _unpacked(content: bytes) -> dict[str, Array]:
    """Read an archive of arrays. Raises ValueError for anything else."""
    if not content.startswith(_ARCHIVE):
        raise ValueError("not an archive")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return dict(archive)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ValueError(str(error)) from None


def _packed(arrays: Mapping[str, Array], shot: Snapshot, rank: int) -> bytes:
    label = {"step": shot.step, "rank": rank, "save": shot.manifest["save"]}
    buffer = io.BytesIO()
    content: dict[str, Any] = {**arrays, "label": np.array(json.dumps(label))}
    np.savez(buffer, **content)
    return buffer.getvalue()


def _manifest_checksum(manifest: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _file_name(rank: int, ranks: int) -> str:
    return f"rank-{rank:05d}-of-{ranks:05d}.npz"


def _first_saved(trainer: Trainer, rank: int) -> int:
    """The rank's place among the equal pieces, as many as ranks, that each unit is saved in."""
    layout, kind = trainer.ranks[rank].layout, trainer.settings.kind
    if not kind.shards_optimizer:
        return rank
    return rank % layout.shard * (layout.ranks // layout.shard) + rank // layout.shard


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
