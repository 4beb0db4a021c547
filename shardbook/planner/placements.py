"""ZeRO-Offload's question as a graph: what lies on the GPU, what on the CPU, and what crosses?

Ren et al., ZeRO-Offload, USENIX ATC 2021, §3: a training step of mixed-precision Adam is a graph
of states and computations; a placement cuts it in two, and every edge of the cut is traffic.
Forward and backward stay on the GPU; seven nodes are free, which makes 128 placements. Traffic and
memory are counted in bytes a parameter. (S44)

[Note: the edges] The working weights are read twice a step, by forward and by backward: 2 + 2
bytes. A state that the update reads it also writes back, 4 + 4 bytes. Counting those only once
would make two more placements as cheap as the best ones (M26).
"""

from dataclasses import dataclass
from itertools import product
from typing import Final

#: states that can be placed → bytes a parameter
STATES: Final = {"p16": 2, "g16": 2, "p32": 4, "m32": 4, "v32": 4}
#: computations that can be placed
COMPUTATIONS: Final = ("update", "float2half")
#: computation that stays on the GPU
FORWARD_BACKWARD: Final = "forward-backward"

#: (from, to, bytes a parameter and step)
EDGES: Final = (
    ("p16", FORWARD_BACKWARD, 2 + 2),
    (FORWARD_BACKWARD, "g16", 2),
    ("g16", "update", 2),
    *((state, "update", 4) for state in ("p32", "m32", "v32")),
    *(("update", state, 4) for state in ("p32", "m32", "v32")),
    ("p32", "float2half", 4),
    ("float2half", "p16", 2),
)
#: the same with each state of the update counted once, to see what that changes (M26)
ONE_WAY_EDGES: Final = tuple(edge for edge in EDGES if edge[0] != "update")


@dataclass(frozen=True, slots=True)
class Placement:
    """The nodes on the GPU, in graph order; all others are on the CPU.

    ``traffic`` is bytes a parameter that cross in a step, both ways together; ``gpu_bytes`` is
    what the GPU stores a parameter.
    """

    gpu: tuple[str, ...]
    traffic: int
    gpu_bytes: int

    def __str__(self) -> str:
        where = ", ".join(self.gpu) or "nothing but forward and backward"
        return f"on the GPU: {where}; {self.traffic} B cross, {self.gpu_bytes} B stay"


def placement(gpu: frozenset[str], edges: tuple[tuple[str, str, int], ...] = EDGES) -> Placement:
    """Return the placement that puts ``gpu`` (names of free nodes) on the GPU."""
    here = gpu | {FORWARD_BACKWARD}
    crossing = sum(size for source, target, size in edges if (source in here) != (target in here))
    nodes = (*STATES, *COMPUTATIONS)
    return Placement(
        tuple(node for node in nodes if node in gpu),
        crossing,
        sum(size for state, size in STATES.items() if state in gpu),
    )


def placements(edges: tuple[tuple[str, str, int], ...] = EDGES) -> tuple[Placement, ...]:
    """Return all 128 placements, least traffic first, then least GPU memory (S44)."""
    nodes = (*STATES, *COMPUTATIONS)
    every = (
        placement(frozenset(node for node, on in zip(nodes, choice, strict=True) if on), edges)
        for choice in product((False, True), repeat=len(nodes))
    )
    return tuple(sorted(every, key=lambda each: (each.traffic, each.gpu_bytes, each.gpu)))


def at_least_as_good(one: Placement, among: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """Return those of ``among`` that cross no more and store no more than ``one``, and less of one.

    Where there is none, ``one`` is a trade-off that nothing beats. (S44)
    """
    return tuple(
        each
        for each in among
        if each.traffic <= one.traffic
        and each.gpu_bytes <= one.gpu_bytes
        and (each.traffic, each.gpu_bytes) != (one.traffic, one.gpu_bytes)
    )


def best(most_traffic: int = 4) -> Placement:
    """Return the placement with the least GPU memory among those within ``most_traffic``."""
    return min(
        (each for each in placements() if each.traffic <= most_traffic),
        key=lambda each: each.gpu_bytes,
    )
