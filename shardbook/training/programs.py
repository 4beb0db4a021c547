"""A training step as a program: the list of actions that one rank executes, as data.

Five strategies differ in three ways only: what they store (`strategies`), when they communicate,
and when they free. The last two are the lists made here. An action prints as it is spoken,
``reduce-scatter 3``, and `parse` reads it back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shardbook.errors import InputError, one_of, whole
from shardbook.training.strategies import Strategy

#: action → what it does; those with a unit first
UNIT_ACTIONS: Final = {
    "unshard": "all-gather the unit's weights into a full copy",
    "reshard": "free the full copy",
    "forward": "compute the unit's output; keep its input",
    "backward": "compute the unit's full gradient; free its input",
    "all-reduce": "sum the gradient over all ranks that hold the same elements of it",
    "reduce-scatter": "sum the gradient; each rank gets the sum of its part",
    "keep-shard": "free all of the gradient but the rank's part",
    "update": "update the rank's part of the master weights, and its weights from them",
    "all-gather": "collect the updated weights of all parts",
    "all-reduce-weights": "a fault: the weights, not the gradient, are all-reduced",
    "reduce-scatter-weights": "a fault: the weights, not the gradient, are reduce-scattered",
    "all-reduce-unused": "a fault: takes part, and keeps its own gradient instead of the sum",
    "reduce-scatter-unused": "a fault: takes part, and keeps its own gradient instead of the sum",
}
STEP_ACTIONS: Final = {
    "load": "take the next micro-batch",
    "count": "sum the numbers of tokens over the ranks",
    "loss": "compute the loss and the gradient of the network's output",
    "overflow": "agree whether a gradient is infinite or NaN; then the updates are skipped",
    "all-reduce-model": "sum the gradient of all units in one call, as one vector",
    "clear": "free the gradients",
}
#: the actions in which ranks meet
COMMUNICATION: Final = frozenset(
    {"unshard", "all-gather", "all-reduce", "reduce-scatter", "all-reduce-model"}
    | {
        f"{kind}-{how}"
        for kind in ("all-reduce", "reduce-scatter")
        for how in ("weights", "unused")
    }
    | {"count", "overflow"}
)


@dataclass(frozen=True, slots=True)
class Action:
    """One action, on one unit or (None) on none."""

    kind: str
    unit: int | None = None

    def __str__(self) -> str:
        return self.kind if self.unit is None else f"{self.kind} {self.unit}"


Program = tuple[Action, ...]


def parse(text: str) -> Action:
    """Read ``forward 3`` or ``loss``. Raises InputError for anything else."""
    kind, _, unit = text.strip().partition(" ")
    if kind in STEP_ACTIONS and not unit:
        return Action(kind)
    one_of("action", kind, [*UNIT_ACTIONS, *STEP_ACTIONS])
    if kind in STEP_ACTIONS or not unit.strip().isdecimal():
        raise InputError("action", text, "give a unit's action and its unit: forward 3")
    return Action(kind, int(unit))


@dataclass(frozen=True, slots=True)
class Options:
    """What one strategy's program may do differently (S37).

    Raises:
        InputError: ``micro_batches`` is outside 1 to 1,024.
    """

    micro_batches: int = 1
    #: reduce each micro-batch's gradient at once, not only the sum of all
    reduce_each: bool = False
    #: ZeRO-3 frees each unit's full weights after forward and gathers them again for backward
    reshard_after_forward: bool = True
    #: also the last unit's, which backward needs at once (PyTorch does, the timeline doesn't)
    regather_last: bool = True
    #: ZeRO-3 gathers all units before the first one is used: what a single unit would do
    gather_whole_model: bool = False
    #: data parallelism sums the whole gradient after backward, in one call: other segments, so
    #: the same sums in another order
    reduce_whole_model: bool = False
    #: unequal token counts: sum them over the ranks first
    count_tokens: bool = False
    #: loss scaling: agree on overflow before the update
    check_overflow: bool = False

    def __post_init__(self) -> None:
        whole("micro_batches", self.micro_batches, 1, 1024)


def program(strategy: Strategy, units: int, options: Options, *, replicas: int = 1) -> Program:
    """Return one step of ``strategy`` for a network of ``units`` units (S24).

    ``replicas`` is the number of shard groups: with more than one, ZeRO-3 is hybrid sharding
    and sums each rank's part of the gradient over the groups, once a step.

    Raises:
        InputError: the strategy has no such option.
    """
    if options.reduce_whole_model and (strategy.shards_optimizer or options.reduce_each):
        raise InputError("reduce_whole_model", True, "only dp, once a step, sums the whole model")
    actions = [Action("count")] if options.count_tokens else []
    for micro_batch in range(options.micro_batches):
        last = micro_batch == options.micro_batches - 1
        actions.append(Action("load"))
        actions += _forward(strategy, units, options)
        actions.append(Action("loss"))
        actions += _backward(strategy, units, options, last, replicas)
    if options.reduce_whole_model:
        actions.append(Action("all-reduce-model"))
    if options.check_overflow:
        actions.append(Action("overflow"))
    for unit in range(units):
        actions.append(Action("update", unit))
        if strategy.gathers_after_update:
            actions.append(Action("all-gather", unit))
    actions.append(Action("clear"))
    return tuple(actions)


def _forward(strategy: Strategy, units: int, options: Options) -> Iterable[Action]:
    if strategy.shards_weights and options.gather_whole_model:
        yield from (Action("unshard", unit) for unit in range(units))
    for unit in range(units):
        if strategy.shards_weights and not options.gather_whole_model:
            yield Action("unshard", unit)
        yield Action("forward", unit)
        if strategy.shards_weights and not _kept(unit, units, options):
            yield Action("reshard", unit)


def _backward(
    strategy: Strategy, units: int, options: Options, last: bool, replicas: int
) -> Iterable[Action]:
    for unit in reversed(range(units)):
        if strategy.shards_weights and not _kept(unit, units, options):
            yield Action("unshard", unit)
        yield Action("backward", unit)
        if (last or options.reduce_each) and not options.reduce_whole_model:
            yield Action(strategy.reduction, unit)
            if strategy.shards_gradients:
                yield Action("keep-shard", unit)
        if last and replicas > 1 and strategy.shards_gradients:
            yield Action("all-reduce", unit)
        if strategy.shards_weights:
            yield Action("reshard", unit)


def _kept(unit: int, units: int, options: Options) -> bool:
    """Whether a unit's full weights stay from forward to backward."""
    if options.gather_whole_model or not options.reshard_after_forward:
        return True
    return unit == units - 1 and not options.regather_last
