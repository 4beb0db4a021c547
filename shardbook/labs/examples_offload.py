"""The visible examples of lab offload: ZeRO-Offload's graph, one link, a few layers.

What is right here comes from the engine's own placements and bandwidths.
"""

from typing import Any, Final

from shardbook.labs.checking import Rule
from shardbook.labs.handed_graphs import (
    crossing,
    proved,
    read_placement,
    stored,
    too_much_stored,
)
from shardbook.labs.handed_layers import run_layers
from shardbook.labs.values import Fault, compare, show
from shardbook.planner.bandwidth import efficiency, required_bandwidth
from shardbook.planner.placements import COMPUTATIONS, EDGES, FORWARD_BACKWARD, STATES, placements

_PINNED: Final = [FORWARD_BACKWARD]
_NODES: Final = {FORWARD_BACKWARD: 0, **STATES, **dict.fromkeys(COMPUTATIONS, 0)}
_GRAPH: Final = (_NODES, list(EDGES), _PINNED)
_TWO_WAYS: Final = (
    {"gpu": 0, "x": 4},
    [("gpu", "x", 3), ("x", "gpu", 5), ("gpu", "x", 1)],
    ["gpu"],
)
_TWO: Final = ({"gpu": 2, "x": 4, "y": 4}, [("gpu", "x", 3), ("x", "y", 2)], ["gpu"])
#: FLOP, FLOP/s, link (bytes, B/s): 2 s of compute beside 2 s of a link
_ONE_LINK: Final = (140e12, 70e12, [("pcie", 24e9, 12e9)])
_LAYERS: Final = [(2, 3.0, 1.0, 4.0), (3, 2.0, 1.0, 2.0), (2, 2.0, 1.0, 3.0), (2, 2.0, 1.0, 4.0)]


def _cost(
    nodes: dict[str, int],
    edges: list[tuple[str, str, int]],
    pinned: list[str],
    gpu: list[str],
    value: Any,
) -> Fault | None:
    here = {*pinned, *gpu}
    down, up = crossing(edges, here)
    return compare({"down": down, "up": up, "stored": stored(nodes, here)}, value, exact=False)


def _best(
    nodes: dict[str, int],
    edges: list[tuple[str, str, int]],
    pinned: list[str],
    limit: int,
    value: Any,
) -> Fault | None:
    here = read_placement(value, nodes, pinned)
    if isinstance(here, Fault):
        return here
    if fault := too_much_stored(nodes, here, limit):
        return fault
    best = next(each for each in placements() if each.gpu_bytes <= limit)
    moved = sum(crossing(edges, here))
    if moved > best.traffic:
        return Fault("the traffic", "less", f"{moved} B")
    if stored(nodes, here) > best.gpu_bytes:
        got = f"{stored(nodes, here)} B"
        return Fault("the memory", "less, with the same traffic", got)
    return None


def _nothing(
    nodes: dict[str, int],
    edges: list[tuple[str, str, int]],
    pinned: list[str],
    limit: int,
    value: Any,
) -> Fault | None:
    return compare(None, value)


def _proves(
    nodes: dict[str, int],
    edges: list[tuple[str, str, int]],
    pinned: list[str],
    limit: int,
    value: Any,
) -> Fault | None:
    bound = proved(nodes, edges, pinned, limit, value)
    return bound if isinstance(bound, Fault) else None


def _proves_the_best(
    nodes: dict[str, int],
    edges: list[tuple[str, str, int]],
    pinned: list[str],
    limit: int,
    value: Any,
) -> Fault | None:
    bound = proved(nodes, edges, pinned, limit, value)
    if isinstance(bound, Fault):
        return bound
    best = next(each for each in placements() if each.gpu_bytes <= limit)
    return None if bound >= best.traffic else Fault("the proof", "more bytes", f"{bound} B")


def _one_link(
    flop: float,
    peak: float,
    links: list[tuple[str, float, float]],
    overlapped: bool,
    wanted: float,
    value: Any,
) -> Fault | None:
    ((name, size, bandwidth),) = links
    right = efficiency(flop / size, bandwidth, peak)
    needed = required_bandwidth(flop / size, wanted, peak)
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    pairs = ((right, "efficiency"), ({name: needed}, "needed"))
    faults = (compare(each, value.get(key), where=f"result['{key}']") for each, key in pairs)
    return next((fault for fault in faults if fault), None)


def _nothing_waits(
    flop: float,
    peak: float,
    links: list[tuple[str, float, float]],
    overlapped: bool,
    wanted: float,
    value: Any,
) -> Fault | None:
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    return compare(1.0, value.get("efficiency"), where="result['efficiency']") or compare(
        "compute", value.get("slowest"), where="result['slowest']"
    )


def _runs(
    layers: list[tuple[int, float, float, float]], host_limit: int, gpu_limit: int, value: Any
) -> Fault | None:
    run = run_layers(layers, host_limit, gpu_limit, value)
    return run if isinstance(run, Fault) else None


def _never_waits(
    layers: list[tuple[int, float, float, float]], host_limit: int, gpu_limit: int, value: Any
) -> Fault | None:
    run = run_layers(layers, host_limit, gpu_limit, value)
    if isinstance(run, Fault):
        return run
    compute = sum(layer[3] for layer in layers)
    if run.makespan <= compute * (1 + 1e-9):
        return None
    return Fault("the pass", "a shorter one", f"{run.makespan:g} s")


#: task id → its rules, in the order in which they are looked at
RULES: Final = {
    "offload.1": (
        Rule(
            "the bytes that leave the GPU, that come to it, and that stay",
            "Pinned nodes are on the GPU, too.",
            (*_GRAPH, ["p16", "m32"]),
            _cost,
        ),
        Rule(
            "edges both ways, and several of them, between two nodes",
            "Each edge of the list counts once.",
            (*_TWO_WAYS, []),
            _cost,
        ),
    ),
    "offload.2": (
        Rule(
            "the least traffic within the limit, and of equals the least memory",
            "Try every set of nodes: there are 2 to the number of those that are not pinned.",
            (*_GRAPH, 15),
            _best,
        ),
        Rule(
            "a small limit leaves little choice",
            "Nothing may be stored here, and nothing has to be.",
            (*_GRAPH, 1),
            _best,
        ),
        Rule(
            "what is pinned must fit",
            "Here the pinned node alone stores more than the limit.",
            (*_TWO, 1),
            _nothing,
        ),
    ),
    "offload.3": (
        Rule(
            "a proof that holds",
            "Here both states are needed, and y is reached through x.",
            (*_TWO, 9),
            _proves,
        ),
        Rule(
            "ZeRO-Offload's best placement is proved to be the best one",
            "How many bytes can leave forward-backward at once, and how many come to each state?",
            (*_GRAPH, 15),
            _proves_the_best,
        ),
        Rule(
            "fewer states prove more",
            "Which state alone is too large for this limit?",
            (*_GRAPH, 1),
            _proves_the_best,
        ),
        Rule(
            "where everything fits, nothing is proved",
            "Here all three nodes fit.",
            (*_TWO, 10),
            _nothing,
        ),
    ),
    "offload.4": (
        Rule(
            "one link and the compute, one after the other",
            "In the paper's terms: the intensity is FLOP a byte.",
            (*_ONE_LINK, False, 0.9),
            _one_link,
        ),
        Rule(
            "side by side, links that are fast enough cost nothing",
            "How long does the compute take here, and how long each link?",
            (140e12, 70e12, [("nvme", 12e9, 8e9), ("pcie", 12e9, 12e9)], True, 0.9),
            _nothing_waits,
        ),
    ),
    "offload.5": (
        Rule(
            "the plan runs and stays within both memories",
            "At the action that is named, what lies in this memory, and which of it could be gone?",
            (_LAYERS, 3, 3),
            _runs,
        ),
        Rule(
            "here the GPU need never wait",
            "A kept layer can be computed while the next one is read.",
            (_LAYERS, 5, 7),
            _never_waits,
        ),
    ),
}
