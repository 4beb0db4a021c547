"""Expert parallelism: tokens travel to the ranks of their experts and back, on simulated devices.

Source: Lepikhin et al., "GShard", ICLR 2021, section 2 and algorithm 1. As there, capacity is
counted for each rank's tokens apart, and first choices go before second ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.experts import capacity
from shardbook.collectives.groups import process_groups
from shardbook.errors import InputError
from shardbook.training.splitting.blocks import Backward, mlp
from shardbook.training.splitting.wires import Wires, split, split_all

Array = NDArray[Any]

#: all weights of the experts are cut along the first axis, the expert
_AXES: Final = {"up": 0, "up_bias": 0, "down": 0}


@dataclass(frozen=True, slots=True)
class Routing:
    """Which experts each token goes to: three arrays [tokens, k].

    ``gates``: the probability of the chosen; ``kept``: false beyond the expert's capacity.
    """

    chosen: Array
    gates: Array
    kept: Array


@dataclass(frozen=True, slots=True)
class ExpertOutcome:
    """A forward and backward of all ranks, as one device would have it, and what was sent.

    ``rows``: tokens each rank's experts computed; ``dropped``: choices that were not kept;
    ``wires``: axis ("EP", "DP", "all") → the links of each of its groups.
    """

    outputs: Array
    input_gradient: Array
    gradients: dict[str, Array]
    rows: tuple[int, ...]
    dropped: int
    wires: dict[str, list[Wires]]


def softmax(logits: Array) -> Array:
    """Return the probabilities of each row."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Array = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def route(probabilities: Array, k: int, most: int | None = None) -> Routing:
    """Choose the k most probable of [tokens, experts], at most ``most`` tokens an expert (S58).

    Equal ones: the first expert. All first choices are placed before any second one, in the order
    of the tokens.
    """
    tokens, experts = probabilities.shape
    chosen = np.argsort(-probabilities, axis=1, kind="stable")[:, :k]
    gates = np.take_along_axis(probabilities, chosen, axis=1)
    in_order = chosen.T.ravel()
    ahead = np.cumsum(np.eye(experts, dtype=int)[in_order], axis=0)[
        np.arange(in_order.size), in_order
    ]
    kept = np.full(in_order.size, True) if most is None else ahead <= most
    return Routing(chosen, gates, kept.reshape(k, tokens).T)


class _Rank:
    """One rank's tokens: where they go, and what comes back."""

    def __init__(self, inputs: Array, router: Array, k: int, factor: float | None) -> None:
        self.inputs = inputs
        self.probabilities = softmax(inputs @ router)
        experts = router.shape[1]
        most = None if factor is None else capacity(len(inputs), experts, k, factor)
        self.routing = route(self.probabilities, k, most)
        tokens, choices = np.nonzero(self.routing.kept)
        order = np.argsort(self.routing.chosen[tokens, choices], kind="stable")
        #: kept choices in the order of their experts: token and number of the choice
        self.tokens, self.choices = tokens[order], choices[order]
        self.gates = self.routing.gates[self.tokens, self.choices][:, None]
        sent_to = self.routing.chosen[self.tokens, self.choices]
        self.counts = np.bincount(sent_to, minlength=experts)
        self.returned = np.empty(0)

    def combine(self, returned: Array) -> Array:
        """Return Σ gate · expert's output for each token; a dropped token gets zeros."""
        self.returned = returned
        return self._to_tokens(self.gates * returned)

    def backward(self, gradient: Array, rows: Array, router: Array) -> tuple[Array, Array]:
        """Return the gradients of inputs and router; ``rows``: what came back from the experts."""
        gates = np.zeros_like(self.probabilities)
        chosen = self.routing.chosen[self.tokens, self.choices]
        gates[self.tokens, chosen] = (gradient[self.tokens] * self.returned).sum(axis=1)
        mean = (gates * self.probabilities).sum(axis=1, keepdims=True)
        logits = self.probabilities * (gates - mean)
        return self._to_tokens(rows) + logits @ router.T, self.inputs.T @ logits

    def _to_tokens(self, rows: Array) -> Array:
        summed = np.zeros_like(self.inputs)
        np.add.at(summed, self.tokens, rows)
        return summed


def expert_parallel(
    weights: Mapping[str, Array],
    inputs: Array,
    output_gradient: Array,
    k: int,
    expert_ranks: int,
    data_ranks: int = 1,
    capacity_factor: float | None = None,
) -> ExpertOutcome:
    """Run a layer of experts on ``expert_ranks`` × ``data_ranks`` ranks (S58).

    ``router`` [h, E]; experts `blocks.mlp` without a second bias: ``up`` [E, h, f], ``up_bias``
    [E, f], ``down`` [E, f, h]. Tokens (``inputs`` and ``output_gradient`` [t, h]) are cut among all
    ranks, experts among those of an EP group; the groups' copies of an expert are joined by an
    all-reduce of gradients in the DP groups. Four all-to-alls carry rows, one their counts.
    Gradients are sums over all tokens. No ``capacity_factor``: nothing is dropped. Raises
    InputError.
    """
    router = weights["router"]
    if not 1 <= k <= router.shape[1]:
        raise InputError("k", k, f"give 1 to {router.shape[1]}")
    groups = process_groups({"EP": expert_ranks, "DP": data_ranks})
    world = expert_ranks * data_ranks
    local = split_all({name: weights[name] for name in _AXES}, _AXES, expert_ranks)
    ranks = [
        _Rank(part, router, k, capacity_factor) for part in split(inputs, world, 0, "the batch")
    ]
    arriving = np.array_split(output_gradient, world)
    wires = {axis: [Wires(group) for group in groups[axis]] for axis in groups}
    wires["all"] = [Wires(world)]
    outputs: list[Array] = [np.empty(0)] * world
    input_gradients: list[Array] = [np.empty(0)] * world
    routers: list[Array] = [np.empty(0)] * world
    gradients: list[dict[str, Array]] = [{}] * world
    rows = [0] * world
    for links in wires["EP"]:
        group = links.ranks
        members = [ranks[rank] for rank in group]
        counts = links.all_to_all(
            "the counts", [np.array_split(r.counts, len(group)) for r in members]
        )
        sent = [r.inputs[r.tokens] for r in members]
        computed, backs = _forward(links, local, counts, sent)
        for rank, returned in zip(group, computed, strict=True):
            outputs[rank] = ranks[rank].combine(returned)
        links.phase = "backward"
        sent = [r.gates * arriving[rank][r.tokens] for rank, r in zip(group, members, strict=True)]
        returned_gradients, own = _backward(links, backs, counts, sent)
        for i, rank in enumerate(group):
            input_gradients[rank], routers[rank] = ranks[rank].backward(
                arriving[rank], returned_gradients[i], router
            )
            gradients[rank] = own[i]
            rows[rank] = int(sum(count.sum() for count in counts[i]))
    wires["all"][0].phase = "backward"
    joined = {}
    for links in wires["DP"]:
        links.phase = "backward"
    for name in _AXES:
        summed = [
            links.all_reduce(
                f"the gradient of {name}", [gradients[rank][name] for rank in links.ranks]
            )
            for links in wires["DP"]
        ]
        joined[name] = np.concatenate([copies[0] for copies in summed])
    joined["router"] = wires["all"][0].all_reduce("the router's gradient", routers)[0]
    dropped = sum(int((~rank.routing.kept).sum()) for rank in ranks)
    return ExpertOutcome(
        np.concatenate(outputs),
        np.concatenate(input_gradients),
        joined,
        tuple(rows),
        dropped,
        wires,
    )


def _exchange(
    links: Wires, what: str, rows: list[Array], sizes: list[list[int]]
) -> list[list[Array]]:
    """Cut each rank's rows by target (``sizes``) and bring them there."""
    cut = [np.split(own, np.cumsum(size)[:-1]) for own, size in zip(rows, sizes, strict=True)]
    return links.all_to_all(what, cut)


def _sizes(counts: list[list[Array]], *, sent: bool) -> list[list[int]]:
    """Rows by rank and partner; ``counts[j][i]``: what j gets from i for each of its experts."""
    n = len(counts)
    totals = [[int(count.sum()) for count in row] for row in counts]
    return [[totals[j][i] for j in range(n)] for i in range(n)] if sent else totals


def _by_expert(parts: list[Array], counts: list[Array]) -> list[Array]:
    """Join what all senders sent to each expert."""
    cut = [np.split(part, np.cumsum(count)[:-1]) for part, count in zip(parts, counts, strict=True)]
    return [np.concatenate(pieces) for pieces in zip(*cut, strict=True)]


def _by_sender(experts: list[Array], counts: list[Array]) -> Array:
    """Undo `_by_expert`; return the rows of all senders one behind the other."""
    table = np.array(counts)  # [senders, experts]
    cut = [np.split(e, np.cumsum(table[:, i])[:-1]) for i, e in enumerate(experts)]
    return np.concatenate([piece for sender in zip(*cut, strict=True) for piece in sender])


def _forward(
    links: Wires, local: list[dict[str, Array]], counts: list[list[Array]], sent: list[Array]
) -> tuple[list[Array], list[list[Backward]]]:
    got = _exchange(links, "rows to experts", sent, _sizes(counts, sent=True))
    computed, backs = [], []
    for part, parts, count in zip(local, got, counts, strict=True):
        ran = [
            mlp({name: array[i] for name, array in part.items()}, expert_rows)
            for i, expert_rows in enumerate(_by_expert(parts, count))
        ]
        computed.append(_by_sender([output for output, _ in ran], count))
        backs.append([backward for _, backward in ran])
    back = _exchange(links, "rows back", computed, _sizes(counts, sent=False))
    return [np.concatenate(parts) for parts in back], backs


def _backward(
    links: Wires, backs: list[list[Backward]], counts: list[list[Array]], sent: list[Array]
) -> tuple[list[Array], list[dict[str, Array]]]:
    got = _exchange(links, "gradients to experts", sent, _sizes(counts, sent=True))
    through, gradients = [], []
    for backward, parts, count in zip(backs, got, counts, strict=True):
        ran = [back(g) for back, g in zip(backward, _by_expert(parts, count), strict=True)]
        through.append(_by_sender([g for g, _ in ran], count))
        gradients.append({name: np.stack([own[name] for _, own in ran]) for name in _AXES})
    back = _exchange(links, "gradients back", through, _sizes(counts, sent=False))
    return [np.concatenate(parts) for parts in back], gradients
