"""The planner: rank every layout that fits by its step time, the simplest first where times tie."""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, whole
from shardbook.ledger.recipes import DEFAULT_RECIPE
from shardbook.planner.layouts import Layout, Limits, micro_batches, refused
from shardbook.planner.memory import Peak, peak_memory, too_large
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.search import Rank, rank, search
from shardbook.planner.simulated import simulated_seconds
from shardbook.planner.steptime import StepTime, step_time

ALL: Final = Limits()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout that fits: its peak, its step in closed form, and simulated in ``seconds``."""

    layout: Layout
    peak: Peak
    time: StepTime
    micro_batches: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.layout}: {self.seconds:.3g} s, bound by {self.time.bound}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why layouts fail: how many for this reason, and the one of them with the smallest peak (B).

    ``nearest_bytes`` is 0 where the layout can't even be set up.
    """

    reason: str
    count: int
    nearest: Layout
    nearest_bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The best layouts, best first, and why the others fail; ``considered`` were examined."""

    model: Model
    cluster: Cluster
    considered: int
    fitting: int
    ranked: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]

    def tokens_per_second(self, candidate: Candidate) -> float:
        """Tokens a second of all cards."""
        return self.model.batch / candidate.seconds

    def model_flops(self, candidate: Candidate) -> float:
        """Model FLOP/s a card: forward and backward, without what is recomputed."""
        return model_flop(self.model) / candidate.seconds / self.cluster.size

    def dollars_per_million_tokens(self, candidate: Candidate) -> float:
        """$ a million tokens at the card's price (0 if that is not known)."""
        hourly = self.cluster.size * self.cluster.card.price
        return hourly / 3600 / self.tokens_per_second(candidate) * 1e6


def model_flop(model: Model, forwards: int = 3) -> float:
    """FLOP of a step: a forward, and backward as two more (a fourth if all is recomputed)."""
    return float(model.batch * (forwards * model.layers * model.layer_flops + 3 * model.head_flops))


def plan(
    model: Model,
    cluster: Cluster,
    limits: Limits = ALL,
    recipe: str = DEFAULT_RECIPE,
    best: int = 20,
) -> Answer:
    """Search all layouts; the ``best`` by closed form are simulated and ranked again (S71, S72).

    Raises:
        InputError: an unknown recipe, limits that leave nothing, or ``best`` not whole in 1…100.
    """
    found = search(model, cluster, limits, recipe)
    if not found.considered:
        allowed = (
            "give limits that leave a layout: host needs a stage from 1, nvme stage 3 and drives"
        )
        raise InputError("offload", ", ".join(limits.offload), allowed)
    made = [
        _candidate(model, cluster, layout, peak_memory(model, layout, recipe))
        for layout in found.best(whole("best", best, 1, 100))
    ]
    reasons = sorted(found.reasons.items(), key=lambda item: -item[1].count)
    return Answer(
        model,
        cluster,
        found.considered,
        len(found.fitting),
        tuple(sorted(made, key=order)),
        tuple(
            Rejected(reason, each.count, Layout(*each.nearest), each.nearest_bytes)
            for reason, each in reasons
        ),
    )


def order(candidate: Candidate) -> Rank:
    """The ranking's key: times in steps of `TIE`, then simplicity, then the time itself."""
    return rank(candidate.seconds, candidate.layout.complexity)


def judge(
    model: Model,
    cluster: Cluster,
    layout: Layout,
    limits: Limits = ALL,
    recipe: str = DEFAULT_RECIPE,
) -> Candidate | str:
    """Return one layout as a candidate, simulated, or the reason why it fails."""
    reason = refused(model, cluster, layout)
    if reason is not None:
        return reason
    peak = peak_memory(model, layout, recipe)
    reason = too_large(cluster, peak, limits.usable)
    if reason is not None:
        return reason
    return _candidate(model, cluster, layout, peak)


def _candidate(model: Model, cluster: Cluster, layout: Layout, peak: Peak) -> Candidate:
    time = step_time(model, cluster, layout)
    seconds = simulated_seconds(model, cluster, layout)
    return Candidate(layout, peak, time, micro_batches(model, layout), seconds)
