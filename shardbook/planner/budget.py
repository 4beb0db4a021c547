"""Strategies on the same cards, compared by what they train for the money.

A step's time says little: another batch, or other cards, make another step. Tokens a second and
the cost of a token can be compared.
"""

from dataclasses import dataclass, replace

from shardbook.errors import real
from shardbook.planner.cost import HOUR
from shardbook.planner.layouts import Layout, Limits, refused
from shardbook.planner.memory import Peak, peak_memory, too_large
from shardbook.planner.plan import Candidate, judge
from shardbook.planner.presets import Cluster, Model


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way of splitting: the sharding stage, and the tensor degree (0: all cards of a node)."""

    name: str
    stage: int
    tensor: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A strategy on a cluster: what it needs, and what it trains if that fits by the ledger.

    ``reason`` says why it can't be set up (then ``peak`` is None too) or does not fit (then
    ``run`` is None). ``pace`` is how much longer than planned the slowest card takes.
    """

    model: Model
    cluster: Cluster
    layout: Layout
    pace: float
    peak: Peak | None
    run: Candidate | None
    reason: str | None

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second of all cards; 0 for what does not run."""
        return self.model.batch / self.run.seconds if self.run else 0.0

    @property
    def dollars_per_million_tokens(self) -> float | None:
        """$ a million tokens at the card's price; None for what does not run."""
        if self.run is None:
            return None
        hourly = self.cluster.size * self.cluster.card.price
        return hourly / HOUR / self.tokens_per_second * 1e6


def budget(
    model: Model,
    cluster: Cluster,
    strategy: Strategy,
    *,
    micro_batch: int = 1,
    recompute: str = "none",
    pace: float = 1.0,
) -> Budget:
    """Return what a strategy needs and trains; cards that no tensor group takes are replicas (S67).

    All cards wait for the slowest, which takes ``pace`` (1 to 1000) times as long to compute.
    Raises InputError.
    """
    pace = real("pace", pace, 1, 1000)
    tensor = strategy.tensor or cluster.cards
    layout = Layout(
        tensor=tensor,
        data=max(1, cluster.size // tensor),
        stage=strategy.stage,
        recompute=recompute,
        micro_batch=micro_batch,
    )
    reason = refused(model, cluster, layout)
    if reason is not None:
        return Budget(model, cluster, layout, pace, None, None, reason)
    peak = peak_memory(model, layout)
    reason = too_large(cluster, peak, Limits().usable)
    if reason is not None:
        return Budget(model, cluster, layout, pace, peak, None, reason)
    slowed = replace(cluster, fraction=cluster.fraction / pace)
    run = judge(model, slowed, layout)
    assert isinstance(run, Candidate)  # it fits, and pace changes no byte
    return Budget(model, cluster, layout, pace, peak, run, None)
