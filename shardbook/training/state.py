"""The state of a training, whole: what the ranks' parts amount to, at any world size.

Padding is not part of it, so that it can be cut anew for another number of ranks or strategy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError
from shardbook.numbers.loss_scaling import LossScale
from shardbook.training import network
from shardbook.training.device import Name
from shardbook.training.rank import Rank
from shardbook.training.settings import Settings

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class State:
    """Everything the next step depends on.

    ``vectors`` maps master_weights and the optimizer's states to one float32 vector each: all
    units in layer order, without padding. Working weights are not in it: they are the master
    weights rounded. ``data`` is the data source's position and random state.
    """

    step: int  #: steps done
    layers: tuple[int, ...]
    vectors: Mapping[str, Array]
    data: Mapping[str, Any]
    loss_scale: LossScale | None = None
    skipped: int = 0  #: steps without an update, for loss scaling; Adam does not count them


def categories(settings: Settings) -> tuple[str, ...]:
    """Return the categories of a state: the master weights and what the optimizer keeps."""
    return ("master_weights", *settings.optimizer.states)


def gather(ranks: Sequence[Rank], category: str, of: int = 0) -> Array:
    """Return a stored category as one vector, in layer order, without padding.

    Sharded, it is put together from the shard group of rank ``of``; otherwise it is that rank's.
    """
    view = ranks[of]
    group = view.layout.shard_group(of)
    parts = []
    for number, shape in enumerate(view.units):
        vector = view.device.get(Name(category, number))
        if len(vector) < shape.padded:
            shards = [ranks[r].device.get(Name(category, number)) for r in group]
            vector = np.concatenate(shards)
        parts.append(vector[: shape.elements])
    return np.concatenate(parts)


def install(ranks: Sequence[Rank], state: State) -> None:
    """Give each rank its part of ``state``.

    Raises:
        InputError: ``state`` is of another network or another optimizer.
    """
    settings = ranks[0].settings
    if state.layers != settings.layers:
        raise InputError("layers", settings.layers, f"the state is of {state.layers}")
    wanted = categories(settings)
    if set(state.vectors) != set(wanted):
        allowed = f"the state holds {', '.join(sorted(state.vectors))}"
        raise InputError("optimizer", ", ".join(sorted(wanted)), allowed)
    start = 0
    for number, shape in enumerate(settings.units):
        for category, vector in state.vectors.items():
            full = np.zeros(shape.padded, np.float32)
            full[: shape.elements] = vector[start : start + shape.elements]
            for rank in ranks:
                _store(rank, category, number, full)
        start += shape.elements


def initialise(ranks: Sequence[Rank], *, deferred: bool = True) -> None:
    """Give each rank its part of the start values that the seed determines (S35).

    Deferred, a unit is materialised in full, cut and freed before the next one; otherwise the
    whole model is materialised first, and its float32 weights are what the peak is made of.
    Source: Zhao et al., VLDB 2023, section 3.1.
    """
    settings = ranks[0].settings
    for rank in ranks:
        rank.device.moment = "initialise"
        units = range(len(settings.units))
        for batch in [[u] for u in units] if deferred else [list(units)]:
            for number in batch:
                full = network.initial_unit(settings.units[number], settings.seed, number)
                rank.device.allocate(Name("initial_weights", number), full)
            for number in batch:
                full = rank.device.get(Name("initial_weights", number))
                _store(rank, "master_weights", number, full)
                rank.device.free(Name("initial_weights", number))
        for number, shape in enumerate(settings.units):
            for category in settings.optimizer.states:
                _store(rank, category, number, np.zeros(shape.padded, np.float32))


def _store(rank: Rank, category: str, number: int, full: Array) -> None:
    """Store a rank's part of a full vector; with the master weights also the working ones."""
    part = rank.layout.part(rank.rank, rank.units[number])
    everything = slice(None)
    mine = full[part if rank.kind.shards_optimizer else everything].astype(np.float32)
    rank.device.allocate(Name(category, number), mine)
    if category == "master_weights":
        working = full[part if rank.kind.shards_weights else everything]
        rank.device.allocate(Name("weights", number), working.astype(rank.settings.dtype))
