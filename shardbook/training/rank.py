"""One rank: executes the actions of its program on its device.

An action in which ranks meet is split in two: `Rank.ask` says what the rank brings to the
collective, `Rank.receive` what it does with the result. The transport is the cluster's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.averaging import divisor
from shardbook.errors import InputError
from shardbook.training import network
from shardbook.training.device import Device, Name, checksum
from shardbook.training.loss import squared_error
from shardbook.training.programs import Action
from shardbook.training.rendezvous import Call
from shardbook.training.settings import Settings

Array = NDArray[Any]
#: what the next micro-batch is: inputs [rows, in], targets [rows, out]
NextBatch = Callable[[], tuple[Array, Array]]


class Rank:
    """A device and the step it is in."""

    def __init__(self, rank: int, settings: Settings) -> None:
        self.rank = rank
        self.settings = settings
        self.kind = settings.kind
        self.layout = settings.layout
        self.units = settings.units
        self.device = Device(rank)
        self.watched = False
        self.begin(0, 1.0, None)

    def begin(self, updates: int, scale: float, next_batch: NextBatch | None) -> None:
        """Start a step after ``updates`` updates, with the loss scale and a source of batches."""
        self.updates, self.scale = updates, scale
        self._next_batch = next_batch
        self.loss_sum = 0.0
        self.skip = False
        self.bytes_after_backward: int | None = None
        self.batch_checksums: list[int] = []
        self.weights_checksums: dict[int, int] = {}
        self.gradients_used: dict[int, Array] = {}
        own = self.settings.counted(self.rank)
        self.tokens = own * self.settings.options.micro_batches
        self.all_tokens = self.tokens * self.settings.ranks

    def do(self, action: Action) -> None:
        """Execute an action in which the rank meets no other."""
        match action.kind, action.unit:
            case "load", None:
                self._load()
            case "loss", None:
                self._loss()
            case "clear", None:
                for unit in range(len(self.units)):
                    self.device.free(Name("gradients", unit))
            case "forward", int(unit):
                self._forward(unit)
            case "backward", int(unit):
                self._backward(unit)
            case "update", int(unit):
                self._update(unit)
            case "reshard", int(unit):
                if self._gathers:
                    self.device.free(Name("gathered_weights", unit))
            case "keep-shard", int(unit):
                name = Name("gradients", unit)
                if self._is_whole(self.device.get(name), unit):
                    self.device.shrink(name, self.layout.part(self.rank, self.units[unit]))
            case _:
                raise InputError("action", str(action), "a rank can't do it alone")

    def ask(self, action: Action) -> tuple[Call, Array] | None:
        """Say which collective the action calls and what the rank brings; None for none."""
        unit = action.unit
        if unit is None:
            vector, what = self._of_the_step(action)
            elements = len(vector)
            return Call("all-reduce", self.layout.world, elements, str(vector.dtype), what), vector
        shape = self.units[unit]
        group = self.layout.shard_group(self.rank)
        collective = action.kind.removesuffix("-weights").removesuffix("-unused")
        weights = f"weights of unit {unit}"
        if collective == "unshard":
            if not self._gathers:
                return None
            vector = self.device.get(Name("weights", unit))
            collective, what = "all-gather", weights
        elif collective == "all-gather":
            vector = self.device.get(Name("weights", unit))[self.layout.part(self.rank, shape)]
            what = weights
        elif action.kind.endswith("-weights"):
            vector, what = self._full_weights(unit), weights
            group = self.layout.world if collective == "all-reduce" else group
        else:
            name = self._unreduced(unit)
            vector, what = self.device.get(name), f"gradient of unit {unit}"
            if collective == "all-reduce":
                whole = self._is_whole(vector, unit)
                group = self.layout.world if whole else self.layout.replicas(self.rank)
        elements = len(vector) * (len(group) if collective == "all-gather" else 1)
        return Call(collective, group, elements, str(vector.dtype), what), vector

    def receive(self, action: Action, result: Array) -> None:
        """Take the collective's result: the whole vector, or the rank's part after a scatter."""
        unit = action.unit
        if unit is None:
            self._take_of_the_step(action, result)
            return
        if action.kind.endswith("-unused"):
            self.go_on(action)
            return
        if action.kind == "unshard":
            self.device.allocate(Name("gathered_weights", unit), result)
            return
        if action.kind == "all-gather":
            self.device.get(Name("weights", unit))[:] = result
            return
        if action.kind.endswith("-weights"):
            target = self._full_weights(unit)
        else:
            target = self.device.get(self._unreduced(unit))
        part = self.layout.part(self.rank, self.units[unit])
        target[part if action.kind.startswith("reduce-scatter") else slice(None)] = result
        if self.device.holds(Name("local_gradients", unit)):
            self._accumulate(unit)

    def go_on(self, action: Action) -> None:
        """Leave the collective out (a fault): a gradient is kept as if it had been reduced."""
        if action.unit is not None and self.device.holds(Name("local_gradients", action.unit)):
            self._accumulate(action.unit)

    def _of_the_step(self, action: Action) -> tuple[Array, str]:
        """What the rank brings to a collective that is about no single unit, and its meaning."""
        if action.kind == "all-reduce-model":
            units = range(len(self.units))
            local = [self.device.get(Name("local_gradients", unit)) for unit in units]
            return np.concatenate(local), "gradient of all units"
        if action.kind == "count":
            return np.array([self.tokens], np.int64), "tokens"
        return np.array([self._overflowed()], np.int64), "overflows"

    def _take_of_the_step(self, action: Action, result: Array) -> None:
        if action.kind == "count":
            self.all_tokens = int(result[0])
        elif action.kind == "overflow":
            self.skip = bool(result[0])
        else:
            start = 0
            for unit, shape in enumerate(self.units):
                part = result[start : start + shape.padded]
                self.device.get(Name("local_gradients", unit))[:] = part
                self._accumulate(unit)
                start += shape.padded

    @property
    def _gathers(self) -> bool:
        return self.kind.shards_weights and self.layout.shard > 1

    def _is_whole(self, vector: Array, unit: int) -> bool:
        return len(vector) == self.units[unit].padded

    def _full_weights(self, unit: int) -> Array:
        return self.device.get(Name("gathered_weights" if self._gathers else "weights", unit))

    def _unreduced(self, unit: int) -> Name:
        local = Name("local_gradients", unit)
        return local if self.device.holds(local) else Name("gradients", unit)

    def _overflowed(self) -> bool:
        units = range(len(self.units))
        return not all(np.isfinite(self._own_gradient(unit)).all() for unit in units)

    def _own_gradient(self, unit: int) -> Array:
        """The part of the reduced gradient that this rank updates with."""
        gradient = self.device.get(Name("gradients", unit))
        if self.kind.shards_optimizer and self._is_whole(gradient, unit):
            return gradient[self.layout.part(self.rank, self.units[unit])]
        return gradient

    def _load(self) -> None:
        if self._next_batch is None:
            raise InputError("action", "load", "the step has not begun")
        inputs, targets = self._next_batch()
        if self.watched:
            self.batch_checksums.append(checksum(inputs))
        self.device.allocate(Name("temporaries", 0), inputs.astype(self.settings.dtype))
        self.device.allocate(Name("targets", len(self.units)), targets)

    def _forward(self, unit: int) -> None:
        weights = self._full_weights(unit)
        if self.watched:
            self.weights_checksums[unit] = checksum(weights)
        inputs = network.activation(unit, self.device.free(Name("temporaries", unit)))
        self.device.allocate(Name("activations", unit), inputs)
        outputs = network.forward(self.units[unit], weights, inputs)
        self.device.allocate(Name("temporaries", unit + 1), outputs)

    def _loss(self) -> None:
        last = len(self.units)
        outputs = self.device.free(Name("temporaries", last))
        own = self.settings.counted(self.rank)
        mask = np.arange(len(outputs)) < own
        total, gradient = squared_error(outputs, self.device.free(Name("targets", last)), mask)
        self.loss_sum += total
        by = divisor(self.settings.weighting, self.tokens, self.all_tokens, self.settings.ranks)
        scaled = (gradient * np.float32(self.scale / by)).astype(self.settings.dtype)
        self.device.allocate(Name("temporaries", last), scaled)

    def _backward(self, unit: int) -> None:
        weights = self._full_weights(unit)
        gradient = self.device.free(Name("temporaries", unit + 1))
        inputs = self.device.get(Name("activations", unit))
        flat, before = network.backward(unit, self.units[unit], weights, inputs, gradient)
        self.device.free(Name("activations", unit))
        if before is not None:
            self.device.allocate(Name("temporaries", unit), before)
        name = Name("local_gradients", unit)
        if self.device.holds(name):
            self.device.get(name)[:] += flat
        else:
            self.device.allocate(name, flat)

    def _accumulate(self, unit: int) -> None:
        """Let the reduced gradient be kept: alone, or added to that of earlier micro-batches."""
        local, kept = Name("local_gradients", unit), Name("gradients", unit)
        if not self.device.holds(kept):
            self.device.rename(local, kept)
            return
        total, new = self.device.get(kept), self.device.free(local)
        if len(total) < len(new):
            new = new[self.layout.part(self.rank, self.units[unit])]
        total += new

    def _update(self, unit: int) -> None:
        if self.bytes_after_backward is None:
            self.bytes_after_backward = self.device.total
        wide = self._own_gradient(unit).astype(np.float32) / np.float32(self.scale)
        self.device.allocate(Name("update_gradient", unit), wide)
        if self.watched:
            self.gradients_used[unit] = wide
        master = self.device.get(Name("master_weights", unit))
        states = [self.device.get(Name(s, unit)) for s in self.settings.optimizer.states]
        if not self.skip:
            self.settings.optimizer.update(self.updates + 1, master, wide, states)
        self.device.free(Name("update_gradient", unit))
        weights = self.device.get(Name("weights", unit))
        part = self.layout.part(self.rank, self.units[unit])
        target = weights if len(weights) == len(master) else weights[part]
        target[:] = master
