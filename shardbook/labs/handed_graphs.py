"""Placements and proofs on a step's graph, handed in as plain data: read and measured.

A graph is ``nodes`` (name → bytes stored), ``edges`` (from, to, bytes moved in a step) and
``pinned``, the nodes that are on the GPU whatever is chosen. (S44)
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from shardbook.labs.values import Fault, show

Nodes = Mapping[str, int]
Edges = Sequence[tuple[str, str, int]]

_MOST_ITEMS: Final = 2_000
_LARGEST: Final = 10**15
_A_FLOW: Final = "a list of (from, to, bytes) with bytes an int above 0"


def crossing(edges: Edges, here: Collection[str]) -> tuple[int, int]:
    """Return the bytes that leave the GPU, which holds the nodes ``here``, and those that come."""
    down = sum(size for source, target, size in edges if source in here and target not in here)
    up = sum(size for source, target, size in edges if source not in here and target in here)
    return down, up


def stored(nodes: Nodes, here: Collection[str]) -> int:
    """Return the bytes that the nodes ``here`` store."""
    return sum(size for name, size in nodes.items() if name in here)


def read_placement(value: Any, nodes: Nodes, pinned: Collection[str]) -> frozenset[str] | Fault:
    """Return all nodes on the GPU if ``value`` lists the chosen ones, or what is wrong with it."""
    free = [name for name in nodes if name not in pinned]
    if not isinstance(value, (list, tuple)):
        return Fault("the placement", "a list of nodes", show(value))
    for place, name in enumerate(value):
        if not isinstance(name, str) or name not in free:
            return Fault(f"item {place}", "a node that is not pinned", show(name))
        if name in value[:place]:
            return Fault(f"item {place}", "each node once", show(name))
    return frozenset((*value, *pinned))


def too_much_stored(nodes: Nodes, here: Collection[str], limit: int) -> Fault | None:
    """Say whether the GPU stores more than ``limit`` bytes."""
    held = stored(nodes, here)
    return None if held <= limit else Fault("the GPU", f"at most {limit} B", f"{held} B")


def proved(
    nodes: Nodes, edges: Edges, pinned: Collection[str], limit: int, value: Any
) -> int | Fault:
    """Return the traffic that a proof proves, in bytes, or where it fails.

    ``value`` has ``states``, which don't all fit within ``limit`` beside the pinned nodes, and
    ``flows``: state → (from, to, bytes) entries that bring bytes from pinned nodes to the state.
    No two nodes exchange more than their edges have, and what comes to another node leaves it.

    [Note: why it proves] Whatever is placed, one of the states is on the CPU. Its flow begins on
    the GPU and ends on the CPU, so all of it crosses somewhere, and through edges that have at
    least as many bytes. The smallest of the flows is a bound for every placement.
    """
    if not isinstance(value, dict) or set(value) != {"states", "flows"}:
        return Fault("the proof", "a dict with 'states' and 'flows'", show(value))
    states, flows = value["states"], value["flows"]
    here = read_placement(states, nodes, pinned)
    if isinstance(here, Fault):
        return Fault(f"states, {here.where}", here.expected, here.got)
    if stored(nodes, here) <= limit:
        got = f"{stored(nodes, here)} B with the pinned nodes"
        return Fault("states", f"states that need more than {limit} B", got)
    if not isinstance(flows, dict):
        return Fault("flows", "a dict with a flow for each state", show(flows))
    proofs = []
    for state in states:
        if state not in flows:
            return Fault("flows", f"a flow to {state}", "none")
        reaches = _reaches(edges, pinned, state, flows[state])
        if isinstance(reaches, Fault):
            return reaches
        proofs.append(reaches)
    return min(proofs)


def _reaches(edges: Edges, pinned: Collection[str], state: str, flow: Any) -> int | Fault:
    """The bytes that a flow brings to a state, or where it is no flow."""
    where = f"the flow to {state}"
    if not isinstance(flow, (list, tuple)) or len(flow) > _MOST_ITEMS:
        return Fault(where, _A_FLOW, show(flow))
    room: dict[frozenset[str], int] = defaultdict(int)
    for source, target, size in edges:
        room[frozenset((source, target))] += size
    arrived: dict[str, int] = defaultdict(int)
    for place, item in enumerate(flow):
        if not _is_move(item):
            return Fault(f"{where}, item {place}", _A_FLOW, show(item))
        source, target, size = item
        link = frozenset((source, target))
        if source == target or room[link] < size:
            got = f"{size} B from {source} to {target}"
            return Fault(f"{where}, item {place}", "bytes that the edges between have", got)
        room[link] -= size
        arrived[source] -= size
        arrived[target] += size
    for name, left in arrived.items():
        if left and name != state and name not in pinned:
            got = f"{abs(left)} B {'more come' if left > 0 else 'more leave'}"
            return Fault(f"{where}, at {name}", "as much that leaves as comes", got)
    if arrived[state] <= 0:
        return Fault(where, "bytes that arrive", f"{arrived[state]} B")
    return arrived[state]


def _is_move(item: Any) -> bool:
    if not isinstance(item, (list, tuple)) or len(item) != 3:
        return False
    source, target, size = item
    names = isinstance(source, str) and isinstance(target, str)
    return names and type(size) is int and 0 < size <= _LARGEST
