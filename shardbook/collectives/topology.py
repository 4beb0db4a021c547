"""What `nvidia-smi topo -m` prints: which devices of a node are joined in which way.

The names of the connections are those of its legend; what they mean is said here in our words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, one_of

#: connection → what lies between the two devices, from near to far; NV# has a number for # (S68)
KINDS: Final = {
    "NV": "NVLinks, as many as the number says",
    "PIX": "one PCIe switch at most",
    "PXB": "several PCIe switches, but not the CPU",
    "PHB": "the CPU's PCIe root",
    "NODE": "two PCIe roots of one processor",
    "SYS": "the link between processors",
}
_ORDER: Final = list(KINDS)
_ALLOWED: Final = "give X, NV and a number, " + ", ".join(_ORDER[1:])
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Topology:
    """Devices by name, and their matrix of connections; a device's own place is ``X``."""

    devices: tuple[str, ...]
    kinds: tuple[tuple[str, ...], ...]

    @property
    def gpus(self) -> tuple[str, ...]:
        """The cards."""
        return tuple(name for name in self.devices if name.startswith("GPU"))

    @property
    def nics(self) -> tuple[str, ...]:
        """The network cards, if the driver shows them."""
        return tuple(name for name in self.devices if not name.startswith("GPU"))

    def kind(self, one: str, other: str) -> str:
        """Return the connection of two devices, such as ``NV12`` or ``PHB``. Raises InputError."""
        return self.kinds[self._place(one)][self._place(other)]

    def farthest(self, group: Sequence[str]) -> str:
        """Return the farthest connection inside a group of two devices or more (S68).

        A ring through the group can be no faster than some connection of it. Raises InputError.
        """
        pairs = [self.kind(a, b) for i, a in enumerate(group) for b in group[i + 1 :]]
        if not pairs:
            raise InputError("group", tuple(group), "name two devices at least")
        return max(pairs, key=_distance)

    def nearest_nics(self, gpu: str) -> tuple[str, ...]:
        """Return the network cards nearest to a card, () if none is shown. Raises InputError."""
        nearest = min((_distance(self.kind(gpu, nic)) for nic in self.nics), default=None)
        return tuple(nic for nic in self.nics if _distance(self.kind(gpu, nic)) == nearest)

    def _place(self, device: str) -> int:
        return self.devices.index(one_of("device", device, self.devices))


def parse_topology(text: str) -> Topology:
    """Read the matrix that `nvidia-smi topo -m` prints (S68).

    Colours, affinity columns, legends and lines before the matrix are passed over. Raises
    InputError with line and column (counted in words, from 1) of what can't be read.
    """
    lines = [_COLOURS.sub("", line).split() for line in text.splitlines()]
    head = next((i for i, words in enumerate(lines) if words and words[0] == "GPU0"), None)
    if head is None:
        raise InputError("topology", text[:60], "give what nvidia-smi topo -m prints")
    words = lines[head]
    devices = tuple(words[: words.index("CPU")] if "CPU" in words else words)
    rows = []
    for place, device in enumerate(devices):
        at = head + 1 + place
        row = lines[at] if at < len(lines) else []
        if row[:1] != [device]:
            raise _error(at, 0, row, f"give the row of {device}")
        rows.append(_row(at, place, row, len(devices)))
    for i, row in enumerate(rows):
        for j in range(i):
            if row[j] != rows[j][i]:
                allowed = f"give {rows[j][i]}, as in the row of {devices[j]}"
                raise _error(head + 1 + i, j + 1, lines[head + 1 + i], allowed)
    return Topology(devices, tuple(map(tuple, rows)))


def _row(line: int, place: int, words: list[str], count: int) -> list[str]:
    for column in range(1, count + 1):
        word = words[column] if column < len(words) else ""
        if column == place + 1:
            if word != "X":
                raise _error(line, column, words, "give X, the device itself")
        elif not re.fullmatch(r"NV[1-9]\d?", word) and word not in _ORDER[1:]:
            raise _error(line, column, words, _ALLOWED)
    return words[1 : count + 1]


def _error(line: int, column: int, words: list[str], allowed: str) -> InputError:
    value = words[column] if column < len(words) else None
    return InputError(f"topology line {line + 1}, column {column + 1}", value, allowed)


def _distance(kind: str) -> tuple[int, int]:
    """From near to far; of NVLinks, more are nearer."""
    if kind.startswith("NV"):
        return 0, -int(kind[2:])
    return _ORDER.index(kind), 0
