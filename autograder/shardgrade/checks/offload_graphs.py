"""Hidden checks of offload.1 to offload.3: what crosses, the best placement, and its proof.

Graphs have made-up names and are unlike the paper's. What is right comes from the reference; a
proof is judged by its rules and by how much it proves.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random
from typing import Any, Final

from shardbook.labs.calls import Outcome
from shardbook.labs.handed_graphs import (
    crossing,
    proved,
    read_placement,
    stored,
    too_much_stored,
)
from shardbook.labs.values import Fault, compare, show
from shardgrade.checks.judging import Case, HiddenCheck, Probe

Graph = tuple[dict[str, int], list[tuple[str, str, int]], list[str]]

_TOO_MANY: Final = 1e300  # an int beyond it can't be added to a float
_LETTERS: Final = "abcdefghijklmnopqrstuvw"


def _names(rng: Random, count: int) -> list[str]:
    return [f"{letter}{rng.randint(2, 64)}" for letter in rng.sample(_LETTERS, k=count)]


def _tangle(rng: Random, free: int, pinned: int = 1, held: int = 0) -> Graph:
    """Nodes linked at random, at most one edge from one to another; pinned ones store ``held``."""
    fixed, chosen = _names(rng, pinned), []
    while len(chosen) < free:
        chosen += [name for name in _names(rng, free) if name not in (*fixed, *chosen)]
    nodes = dict.fromkeys(fixed, held) | {
        name: rng.choice((0, 2, 2, 4, 4, 8)) for name in chosen[:free]
    }
    every = list(nodes)
    rng.shuffle(every)
    edges = {}
    for place, name in enumerate(every[1:], start=1):
        pair = rng.sample([name, rng.choice(every[:place])], k=2)
        edges[tuple(pair)] = rng.randint(1, 9)
    for _ in range(free + 3):
        one, other = rng.sample(every, k=2)
        edges[one, other] = rng.randint(1, 9)
    return nodes, [(one, other, size) for (one, other), size in edges.items()], fixed


def _some(rng: Random, graph: Graph) -> list[str]:
    free = [name for name in graph[0] if name not in graph[2]]
    return rng.sample(free, k=rng.randint(1, len(free) - 1))


def _placed(rng: Random) -> Iterable[Case]:
    for pinned in (1, 1, 2, 1, 2, 3):
        graph = _tangle(rng, rng.randint(5, 9), pinned)
        here = graph[2][0]
        out = next(name for name in graph[0] if name not in graph[2])
        rest = [name for name in _some(rng, graph) if name != out]
        edges = [edge for edge in graph[1] if {here, out} != set(edge[:2])]
        both = [(here, out, rng.randint(1, 9)), (out, here, rng.randint(10, 19))]
        yield graph[0], edges + both, graph[2], rest


def _with_memory(rng: Random) -> Iterable[Case]:
    for pinned in (1, 2, 3):
        graph = _tangle(rng, rng.randint(5, 9), pinned, held=rng.randint(1, 9))
        yield (*graph, _some(rng, graph))


def _parallel(rng: Random) -> Iterable[Case]:
    """Nothing but free nodes has edges, and some pairs have several."""
    for _ in range(4):
        nodes, edges, pinned = _tangle(rng, rng.randint(5, 9))
        edges = [edge for edge in edges if not {edge[0], edge[1]} & set(pinned)]
        again = [(one, other, rng.randint(1, 9)) for one, other, _ in edges]
        chosen = [edges[0][0]]
        yield nodes, [*edges, *again, edges[0]], pinned, chosen


def entries(*keys: str) -> Callable[[Case, Any, Outcome], Fault | None]:
    """Judge these entries of a dict only."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        value = outcome.value
        if not isinstance(value, dict):
            return Fault("result", "a dict", show(value))
        for key in keys:
            where = f"result['{key}']"
            if fault := compare(expected[key], value.get(key), where=where, exact=False):
                return fault
        return None

    return judge


def _all_that_crosses(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    value = outcome.value
    if not isinstance(value, dict) or not all(
        type(value.get(key)) in (int, float) and abs(value[key]) < _TOO_MANY
        for key in ("down", "up")
    ):
        return Fault("result", "a dict with numbers 'down' and 'up'", show(value))
    wanted = expected["down"] + expected["up"]
    return compare(wanted, value["down"] + value["up"], where="down + up", exact=False)


def _like(rng: Random) -> Iterable[Case]:
    """A star of states of one size; as many as fit fill the memory."""
    for _ in range(4):
        count, size = rng.randint(5, 8), 2 * rng.randint(1, 4)
        center, *states = _names(rng, count + 1)
        moved = rng.sample(range(1, 40), k=count)
        edges = [(center, name, bytes_) for name, bytes_ in zip(states, moved, strict=True)]
        nodes = {center: 0, **dict.fromkeys(states, size)}
        yield nodes, edges, [center], size * rng.randint(2, count - 2)


def _unlike(rng: Random) -> Iterable[Case]:
    """A star in which the state that moves most for its size is a trap; odd bytes stay free."""
    for _ in range(4):
        center, trap, large, *others = _names(rng, 6)
        size = 2 * rng.randint(3, 6)
        moved = 10 * size + rng.randint(1, 5)
        nodes = {center: 0, trap: size, large: 2 * size, **dict.fromkeys(others, size)}
        edges = [(center, trap, moved // 2 + 3), (large, center, moved - size)]
        edges += [(center, name, rng.randint(1, 3)) for name in others]
        rng.shuffle(edges)
        yield nodes, edges, [center], 2 * size + 1


def _linked(rng: Random) -> Iterable[Case]:
    """Random graphs, and a state that hangs on a computation behind a heavier one."""
    for _ in range(3):
        graph = _tangle(rng, rng.randint(6, 8))
        total = sum(graph[0].values())
        yield (*graph, (total // 2) | 1)
    for _ in range(2):
        center, middle, state, other = _names(rng, 4)
        heavy = rng.randint(5, 9)
        nodes = {center: 0, middle: 0, state: 4, other: 4}
        edges = [(center, middle, heavy), (middle, state, 2 * heavy), (state, middle, 2 * heavy)]
        edges.append((other, center, heavy - 1))
        yield nodes, edges, [center], 5


def _tied(rng: Random) -> Iterable[Case]:
    """A state that nothing reads in the step, and two that move the same and do not both fit."""
    for _ in range(3):
        center, idle, small, large = _names(rng, 4)
        nodes = {large: 8, idle: 4, center: 0, small: 2 * rng.randint(1, 3)}
        moved = rng.randint(2, 9)
        edges = [(center, large, moved), (small, center, moved)]
        yield nodes, edges, [center], 9


def _fixed(rng: Random) -> Iterable[Case]:
    for _ in range(3):
        graph = _tangle(rng, rng.randint(4, 7), pinned=2, held=2 * rng.randint(3, 6))
        held, total = stored(graph[0], graph[2]), sum(graph[0].values())
        yield (*graph, held + ((total - held) // 2 | 1))
        yield (*graph, held - 1)


def _placement(*, memory: bool = False) -> Callable[[Case, Any, Outcome], Fault | None]:
    """As little traffic as the expected placement's; ``memory``: and as few bytes stored."""

    def judge(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
        nodes, edges, pinned, limit = case
        if expected is None:
            return compare(None, outcome.value)
        here = read_placement(outcome.value, nodes, pinned)
        if isinstance(here, Fault):
            return here
        if fault := too_much_stored(nodes, here, limit):
            return fault
        best = {*expected, *pinned}
        moved, least = sum(crossing(edges, here)), sum(crossing(edges, best))
        if moved > least:
            return Fault("the traffic", "less", f"{moved} B")
        if memory and stored(nodes, here) > stored(nodes, best):
            got = f"{stored(nodes, here)} B"
            return Fault("the memory", "less, with the same traffic", got)
        return None

    return judge


def _chain(rng: Random) -> Iterable[Case]:
    for length in (2, 8, 10):
        first, *rest = _names(rng, length + 1)
        nodes = {first: 0} | {name: rng.randint(1, 8) for name in rest}
        pairs = pairwise((first, *rest))
        edges = [(*rng.sample(pair, k=2), rng.randint(1, 9)) for pair in pairs]
        rng.shuffle(edges)
        yield nodes, edges, [first], sum(nodes.values()) - 1


def _traps(rng: Random) -> Iterable[Case]:
    """The shortest way takes the middle link, and then two longer ways are shut."""
    for _ in range(6):
        start, goal, one, two, *others = _names(rng, 14)
        wide = rng.randint(1, 5)
        ways = [[start, one, *others[:2], goal], [start, *others[2:4], two, goal]]
        if rng.random() < 0.5:
            ways.append([start, *others[4 : 4 + rng.randint(0, 2)], goal])
        pairs = [(one, two), *(pair for way in ways for pair in pairwise(way))]
        edges = [(*rng.sample(pair, k=2), wide) for pair in pairs]
        rng.shuffle(edges)
        names = {name for edge in edges for name in edge[:2]}
        nodes = dict.fromkeys(sorted(names), 0) | {goal: rng.randint(1, 8)}
        yield nodes, edges, [start], 0


def _branches(rng: Random) -> Iterable[Case]:
    """Stars with a second row behind; the limit leaves a choice of states."""
    for _ in range(5):
        count = rng.randint(5, 7)
        center, *states = _names(rng, count + 1)
        nodes = {center: 0} | {name: rng.randint(2, 8) for name in states}
        moved = rng.sample(range(2, 30), k=count)
        edges = [(center, name, size) for name, size in zip(states[:-1], moved, strict=False)]
        edges.append((states[0], states[-1], moved[-1]))
        yield nodes, edges, [center], rng.randint(nodes[states[0]], sum(nodes.values()) // 2)


def _many_pinned(rng: Random) -> Iterable[Case]:
    """A state that hangs on every pinned node, on the last one behind a computation."""
    for count in (2, 3, 4):
        state, between, *pinned = _names(rng, count + 2)
        nodes = dict.fromkeys(pinned, rng.randint(0, 3)) | {between: 0, state: 4}
        edges = [(here, state, rng.randint(2, 9)) for here in pinned[:-1]]
        edges += [(between, pinned[-1], rng.randint(2, 9)), (state, between, rng.randint(2, 9))]
        rng.shuffle(edges)
        yield nodes, edges, pinned, sum(nodes.values()) - 1


def _all_fits(rng: Random) -> Iterable[Case]:
    for more in (0, 1, rng.randint(2, 90)):
        graph = _tangle(rng, rng.randint(3, 6), held=more)
        yield (*graph, sum(graph[0].values()) + more)


def _holds(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    bound = proved(*case, outcome.value)
    return bound if isinstance(bound, Fault) else None


def _strong(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    bound, most = proved(*case, outcome.value), proved(*case, expected)
    if isinstance(bound, Fault) or isinstance(most, Fault):
        return bound if isinstance(bound, Fault) else None
    return None if bound >= most else Fault("the proof", "a bound of more bytes", f"{bound} B")


def _no_proof(case: Case, expected: Any, outcome: Outcome) -> Fault | None:
    return compare(expected, outcome.value)


_PLACEMENTS: Final = "shardbook.planner.placements"
_ENGINE: Final = (
    f"{_PLACEMENTS}:placement",
    f"{_PLACEMENTS}:placements",
    f"{_PLACEMENTS}:best",
)

COST: Final = HiddenCheck(
    blocked=(*_ENGINE, "shardbook.labs.handed_graphs:crossing"),
    probes=(
        Probe("downward", _placed, entries("down")),
        Probe("upward", _placed, entries("up")),
        Probe("stored", _with_memory, entries("stored")),
        Probe("several edges", _parallel, _all_that_crosses),
    ),
)

BEST_PLACEMENT: Final = HiddenCheck(
    blocked=_ENGINE,
    probes=(
        Probe("like states", _like, _placement()),
        Probe("unlike states", _unlike, _placement()),
        Probe("linked nodes", _linked, _placement()),
        Probe("least memory", _tied, _placement(memory=True)),
        Probe("what is pinned", _fixed, _placement()),
    ),
)

PROOF: Final = HiddenCheck(
    blocked=(),
    probes=(
        Probe("a proof", _chain, _holds),
        Probe("all that flows", _traps, _strong),
        Probe("which states", _branches, _strong),
        Probe("several pinned nodes", _many_pinned, _strong),
        Probe("nothing to prove", _all_fits, _no_proof),
    ),
)
