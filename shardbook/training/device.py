"""A simulated device: it owns a rank's storage, and logs every array by category.

`Device.total` counts what a ledger of states counts: states, gathered weights, gradients and the
update's float32 gradient. Activations, receive buffers and other temporaries are logged in
categories of their own (`OUTSIDE`), outside that total.
"""

import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardbook.errors import InputError

Array = NDArray[Any]

#: categories that the total and the peak leave out
OUTSIDE: Final = frozenset({"activations", "targets", "receive_buffers", "temporaries"})


class Name(NamedTuple):
    """What an array is and which unit it belongs to; prints as ``gradients of unit 4``."""

    category: str
    unit: int

    def __str__(self) -> str:
        return f"{self.category.replace('_', ' ')} of unit {self.unit}"


class Entry(NamedTuple):
    """One line of a device's log: ``change`` bytes (B) at a moment, and the total after it."""

    rank: int
    moment: str
    name: Name
    change: int
    total: int

    def __str__(self) -> str:
        return f"rank {self.rank}, {self.moment}: {self.change:+,} B {self.name} → {self.total:,} B"


class Device:
    """The memory of one rank. Arrays are reached by name only; names are taken once (S18)."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        #: what the rank is doing; `begin` and the executor set it
        self.moment = "start"
        self._arrays: dict[Name, Array] = {}
        self.total = 0
        self.begin()

    def begin(self) -> None:
        """Start a new log and a new peak, at what is stored now."""
        self.log: list[Entry] = []
        self.held_at_start = {name: array.nbytes for name, array in self._arrays.items()}
        self.peak = self.total
        self.peak_at = self.moment
        self.alive_at_peak = self.alive()

    def alive(self) -> dict[Name, int]:
        """Return the bytes of every array that the total counts."""
        return {n: a.nbytes for n, a in self._arrays.items() if n.category not in OUTSIDE}

    def checksum(self, categories: Iterable[str]) -> int:
        """Return one fingerprint of all arrays of ``categories``."""
        wanted = set(categories)
        total = 0
        for name in sorted(self._arrays):
            if name.category in wanted:
                total = checksum(self._arrays[name], total)
        return total

    def holds(self, name: Name) -> bool:
        """Say whether the array is there."""
        return name in self._arrays

    def get(self, name: Name) -> Array:
        """Return the array. Raises InputError if the device does not hold it."""
        if name not in self._arrays:
            raise InputError(self.moment, str(name), f"rank {self.rank} does not hold it")
        return self._arrays[name]

    def allocate(self, name: Name, array: Array) -> Array:
        """Store a new array. Raises InputError if there is one of that name."""
        if name in self._arrays:
            raise InputError(self.moment, str(name), f"rank {self.rank} already holds it")
        self._arrays[name] = array
        self._book(name, array.nbytes)
        return array

    def free(self, name: Name) -> Array:
        """Give the array's memory back. Raises InputError if the device does not hold it."""
        array = self.get(name)
        del self._arrays[name]
        self._book(name, -array.nbytes)
        return array

    def rename(self, name: Name, new: Name) -> None:
        """Let an array serve as another from now on, in the same memory."""
        array = self.get(name)
        if new in self._arrays:
            raise InputError(self.moment, str(new), f"rank {self.rank} already holds it")
        del self._arrays[name]
        self._arrays[new] = array
        self._book(name, -array.nbytes)
        self._book(new, array.nbytes)

    def shrink(self, name: Name, part: slice) -> None:
        """Keep only ``part`` of an array and give the rest back."""
        whole = self.get(name)
        kept = self._arrays[name] = whole[part].copy()
        self._book(name, kept.nbytes - whole.nbytes)

    def _book(self, name: Name, change: int) -> None:
        if name.category not in OUTSIDE:
            self.total += change
            if self.total > self.peak:
                self.peak, self.peak_at = self.total, self.moment
                self.alive_at_peak = self.alive()
        self.log.append(Entry(self.rank, self.moment, name, change, self.total))


def checksum(array: Array, start: int = 0) -> int:
    """Return a fingerprint of an array's bytes (CRC-32: finds every single flipped bit)."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, start)
