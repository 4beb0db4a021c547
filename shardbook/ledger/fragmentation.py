"""A first-fit allocator, step by step: why free memory may be of no use, and what helps.

Every state is a frozen value. A live block never moves (its address is in use on the device), so
free memory falls into holes. ZeRO's M_D (Rajbhandari et al., SC 2020, §6.3) copies each long-lived
block, as it is made, into one area set aside at the start; the copy is a new block, the old is freed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, one_of, whole

MOST_BYTES: Final = 10**15
MOST_ACTIONS: Final = 100_000

VERBS: Final = ("allocate", "free", "keep")


@dataclass(frozen=True, slots=True)
class Action:
    """``allocate NAME SIZE``, ``free NAME``, or ``keep NAME`` (copy it into the area, free it)."""

    verb: str
    name: str
    size: int = 0

    def __str__(self) -> str:
        return f"{self.verb} {self.name}" + (f" {self.size}" if self.verb == "allocate" else "")


@dataclass(frozen=True, slots=True)
class Block:
    """A live block: bytes ``start`` to ``stop`` − 1."""

    name: str
    start: int
    size: int

    @property
    def stop(self) -> int:
        """The first byte behind the block."""
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class Hole:
    """Neighbouring free bytes: ``size`` of them from ``start`` on."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Heap:
    """``capacity`` bytes, the first ``area`` of them set aside; live blocks in address order."""

    capacity: int
    area: int = 0
    blocks: tuple[Block, ...] = ()

    @property
    def holes(self) -> tuple[Hole, ...]:
        """The hole map outside the area; freed neighbours have grown together."""
        return self._holes(self.area, self.capacity)

    @property
    def area_holes(self) -> tuple[Hole, ...]:
        """The hole map of the area."""
        return self._holes(0, self.area)

    @property
    def free_bytes(self) -> int:
        """Free bytes (B) outside the area."""
        return sum(hole.size for hole in self.holes)

    @property
    def largest_hole(self) -> int:
        """The largest request (B) that can be served; 0 if all is taken."""
        return max((hole.size for hole in self.holes), default=0)

    def find(self, name: str) -> Block | None:
        """The live block of this name, if there is one."""
        return next((block for block in self.blocks if block.name == name), None)

    def first_fit(self, size: int, in_area: bool = False) -> int | None:
        """The lowest address at which ``size`` bytes are free, or None."""
        holes = self.area_holes if in_area else self.holes
        return next((hole.start for hole in holes if hole.size >= size), None)

    def with_block(self, block: Block) -> "Heap":
        """This heap with one more live block."""
        blocks = sorted((*self.blocks, block), key=lambda each: each.start)
        return Heap(self.capacity, self.area, tuple(blocks))

    def without(self, name: str) -> "Heap":
        """This heap without the block of this name."""
        left = tuple(block for block in self.blocks if block.name != name)
        return Heap(self.capacity, self.area, left)

    def _holes(self, low: int, high: int) -> tuple[Hole, ...]:
        live = [block for block in self.blocks if low <= block.start < high]
        starts = [low, *(block.stop for block in live)]
        stops = [*(block.start for block in live), high]
        return tuple(
            Hole(start, stop - start)
            for start, stop in zip(starts, stops, strict=True)
            if stop > start
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that no hole can serve, and the heap it met."""

    action: Action
    requested: int
    heap: Heap

    def __str__(self) -> str:
        in_area = self.action.verb == "keep"
        holes = self.heap.area_holes if in_area else self.heap.holes
        sizes = ", ".join(f"{hole.size:,}" for hole in holes) or "none"
        free = sum(hole.size for hole in holes)
        where = "the area" if in_area else f"{self.heap.capacity:,} B"
        return (
            f"{self.action}: no hole of {self.requested:,} B"
            f" (holes: {sizes}; free {free:,} B of {where})\n"
            f"{picture(self.heap)}"
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One action, the heap after it, and why it failed if it did (the heap is then unchanged)."""

    action: Action
    heap: Heap
    failure: Failure | None = None


def run(capacity: int, program: Iterable[Action], area: int = 0) -> tuple[Step, ...]:
    """Run ``program`` on an empty heap of ``capacity`` bytes; the first failure is the last step.

    The first ``area`` bytes take only what is kept; everything else is placed first-fit above.

    (S41, S42)

    Raises:
        InputError: a size not whole or out of range, an unknown verb, a name already live at
            allocate, or not live at free and keep.
    """
    capacity = whole("capacity", capacity, 1, MOST_BYTES)
    heap = Heap(capacity, whole("area", area, 0, capacity))
    steps: list[Step] = []
    for action in program:
        if len(steps) == MOST_ACTIONS:
            raise InputError("program", "longer", f"give at most {MOST_ACTIONS:,} actions")
        step = _step(heap, action)
        steps.append(step)
        if step.failure:
            break
        heap = step.heap
    return tuple(steps)


def _step(heap: Heap, action: Action) -> Step:
    one_of("action", action.verb, VERBS)
    block = heap.find(action.name)
    if action.verb == "allocate":
        if block:
            raise InputError("block", action.name, "give a name that is not live")
        size = whole("size", action.size, 1, MOST_BYTES)
        return _placed(heap, action, size, in_area=False)
    if block is None:
        live = ", ".join(each.name for each in heap.blocks[:8]) or "none"
        raise InputError("block", action.name, f"give a live block (live: {live})")
    if action.verb == "free":
        return Step(action, heap.without(action.name))
    if block.start < heap.area:
        raise InputError("block", action.name, "give a block that is not in the area yet")
    # The old block goes only after the copy has its place: both are live for a moment.
    return _placed(heap, action, block.size, in_area=True, instead_of=block)


def _placed(
    heap: Heap, action: Action, size: int, *, in_area: bool, instead_of: Block | None = None
) -> Step:
    start = heap.first_fit(size, in_area)
    if start is None:
        return Step(action, heap, Failure(action, size, heap))
    rest = heap.without(instead_of.name) if instead_of else heap
    return Step(action, rest.with_block(Block(action.name, start, size)))


def parse_program(text: str) -> tuple[Action, ...]:
    """Read actions as they print, one a line or separated by ``;``.

    Raises:
        InputError: a line is not ``allocate NAME SIZE``, ``free NAME`` or ``keep NAME``.
    """
    lines = (line.split() for line in text.replace(";", "\n").splitlines())
    return tuple(_read(words) for words in lines if words)


def _read(words: list[str]) -> Action:
    allowed = "write `allocate NAME SIZE`, `free NAME` or `keep NAME`"
    verb, *rest = words
    if verb not in VERBS or len(rest) != (2 if verb == "allocate" else 1):
        raise InputError("action", " ".join(words), allowed)
    if verb != "allocate":
        return Action(verb, rest[0])
    if not (rest[1].isascii() and rest[1].isdigit() and len(rest[1]) <= 16):
        raise InputError("action", " ".join(words), allowed)
    return Action(verb, rest[0], whole("size", int(rest[1]), 1, MOST_BYTES))


def forward_pass(
    layers: int = 9,
    checkpoint: int = 250,
    temporary: int = 100,
    growth: int = 20,
    request: int = 400,
    *,
    keep: bool = False,
) -> tuple[Action, ...]:
    """The lecture's program: each layer takes a temporary, makes a checkpoint, frees the temporary.

    Layer i's temporary has temporary + growth · i bytes; with ``keep`` each checkpoint is copied
    into the area. At the end one block of ``request`` bytes is asked for. The defaults with a
    capacity of 4,000 are a reconstruction: other sizes give the lecture's numbers too.

    (S41, S42)

    Raises:
        InputError: a size that is not whole or out of range.
    """
    layers = whole("layers", layers, 1, 1000)
    growth = whole("growth", growth, 0, MOST_BYTES)
    actions: list[Action] = []
    for layer in range(layers):
        size = whole("temporary", temporary, 1, MOST_BYTES) + growth * layer
        actions.append(Action("allocate", f"temporary{layer}", size))
        actions.append(Action("allocate", f"checkpoint{layer}", checkpoint))
        if keep:
            actions.append(Action("keep", f"checkpoint{layer}"))
        actions.append(Action("free", f"temporary{layer}"))
    return (*actions, Action("allocate", "request", request))


def picture(heap: Heap, width: int = 64) -> str:
    """The heap as one line of ``width`` cells: # live, . free, | where the area ends.

    A cell shows # if any of its bytes is live, so small holes may not show.
    """
    cells = ["."] * width
    for block in heap.blocks:
        first = block.start * width // heap.capacity
        last = (block.stop - 1) * width // heap.capacity
        cells[first : last + 1] = "#" * (last + 1 - first)
    line = "".join(cells)
    border = heap.area * width // heap.capacity
    return f"{line[:border]}|{line[border:]}" if heap.area else line
