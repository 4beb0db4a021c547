"""What is the limit, and the simplest layout that lifts it: a few questions, asked in order.

1. Does a replica fit as it is?
2. Does it fit with every layer whole: states cut (stages 1 to 3), activations computed again?
3. Does it fit with layers cut or dealt out: experts, tensors, sequences, stages of a pipeline?
4. Does it fit with states in the host's memory, or on its drives?

The first yes decides; what held the one before up is the limit. Then: do the wires keep up?
What fits is the planner's `judge`: its peak, its part of the card. Micro-batches have one sequence.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from shardbook.ledger.activations import RECOMPUTE
from shardbook.planner.layouts import (
    OFFLOAD,
    Layout,
    Limits,
    degrees,
    micro_batches,
    refused,
    shardings,
)
from shardbook.planner.memory import Peak, peak_memory, too_large
from shardbook.planner.presets import Cluster, Model
from shardbook.planner.steptime import StepTime, step_time
from shardbook.planner.waiting import Remedy, remedies

#: question → what a yes means
QUESTIONS: Final = {
    "replica": "data parallelism",
    "states": "states cut, activations computed again",
    "layer": "layers cut or dealt out",
    "host": "states off the card",
}
#: the planner's search bounds, so that both see the same layouts
_BOUNDS: Final = Limits()
_AT: Final = {place: replace(_BOUNDS, offload=(place,)) for place in OFFLOAD}
_KINDS: Final = 4
#: what the stages cut, one after the other
_CUT: Final = ("optimizer states", "gradients", "weights")


@dataclass(frozen=True, slots=True)
class Step:
    """A question with its answer: the simplest layout that fits, or else the nearest one.

    ``reason`` is empty if the layout fits; ``peak`` is None if it can't even be set up.
    """

    question: str
    layout: Layout
    peak: Peak | None
    reason: str

    @property
    def fits(self) -> bool:
        """Whether the answer is yes."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class Choice:
    """The questions asked; the last one's layout is the choice if it fits.

    ``budget``: bytes (B) of a card that may be filled. ``time`` is the layout's closed form, and
    ``remedies`` what may help if the network is the limit, the quickest first.
    """

    model: Model
    cluster: Cluster
    budget: int
    steps: tuple[Step, ...]
    time: StepTime | None
    remedies: tuple[Remedy, ...]

    @property
    def layout(self) -> Layout | None:
        """The simplest layout that fits, or None."""
        return self.steps[-1].layout if self.steps[-1].fits else None

    @property
    def network_is_limit(self) -> bool:
        """Whether cards wait for each other's data longer than they compute."""
        return self.time is not None and _waiting(self.time) > self.time.compute

    @property
    def limit(self) -> str:
        """What kept the layout before from fitting, in a few words.

        ``the network`` only if a replica fits; a network too slow for what was chosen then shows
        in `network_is_limit`.
        """
        if len(self.steps) == 1:
            return "the network" if self.network_is_limit else "nothing"
        if not self.steps[-1].fits:
            return "memory, whatever is cut"
        before, found = self.steps[-2], self.steps[-1].layout
        if before.peak is None:
            return "the batch" if "batch" in before.reason else before.reason
        if before.question != "replica":
            return before.peak.largest
        names = list(_CUT[: found.stage]) if found.replicas > 1 else []
        names += ["activations"] if found.recompute != RECOMPUTE[0] else []
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))

    @property
    def waiting(self) -> float:
        """The part of a step that cards wait for each other's data; 0 if nothing fits."""
        return _waiting(self.time) / self.time.seconds if self.time else 0.0


def choose(model: Model, cluster: Cluster) -> Choice:
    """Ask the questions until one is answered with yes (S72).

    `effort` is the order: no layout of less effort fits.
    """
    whole = Layout(data=cluster.size)
    steps: list[Step] = []
    for question in QUESTIONS:
        if question == "replica":
            step = _first(question, model, cluster, [whole])
        elif question == "states":
            step = _first(question, model, cluster, _cells(model, cluster, whole, "none"))
        elif question == "layer":
            step = _split(question, model, cluster, "none", range(1, _KINDS + 1))
        else:
            step = _hosted(question, model, cluster)
        steps.append(step)
        if step.fits:
            break
    last = steps[-1]
    time = step_time(model, cluster, last.layout) if last.fits else None
    budget = int(cluster.card.memory * _BOUNDS.usable)
    choice = Choice(model, cluster, budget, tuple(steps), time, ())
    if not choice.network_is_limit:
        return choice
    return replace(choice, remedies=remedies(model, cluster, last.layout))


def effort(layout: Layout) -> tuple[int, ...]:
    """The order in which layouts are tried: the host last, as its wire is the slowest of all.

    Then by the kinds of splitting, those inside a layer before a pipeline, which never shrinks one
    (M25); then by stage and recomputation together, as the planner's `Layout.complexity` counts
    them; then by recomputation, and by the sizes of the splits (S72).
    """
    split = (layout.pipeline, layout.context, layout.tensor, layout.expert)
    kinds = sum(size > 1 for size in split)
    across = (layout.pipeline > 1, layout.context > 1)
    shards = layout.replicas > 1 or layout.offload != "none"
    again = RECOMPUTE.index(layout.recompute)
    sharing = (layout.stage if shards else 0) + again
    place = OFFLOAD.index(layout.offload)
    # At the end experts apart come before tensors cut: those send as much whatever a layer holds.
    return place, kinds, *across, sharing, again, math.prod(split), *split


def cards_for_states(model: Model, cluster: Cluster, bytes_per_parameter: int = 16) -> int:
    """The fewest cards whose memory holds the states alone, all cut."""
    budget = int(cluster.card.memory * _BOUNDS.usable)
    return -(-model.parameters * bytes_per_parameter // budget)


def grid(model: Model, cluster: Cluster) -> dict[tuple[int, str], Peak | None]:
    """(stage, recomputation) → peak with every layer whole; None if it can't be set up."""
    return {
        (cell.stage, cell.recompute): _judged(model, cluster, cell)[0]
        for cell in _cells(model, cluster, Layout(data=cluster.size), "none")
    }


def _waiting(time: StepTime) -> float:
    return time.tensor + time.context + time.expert + time.data


def _judged(model: Model, cluster: Cluster, layout: Layout) -> tuple[Peak | None, str]:
    """A layout's peak and why it fails, if it does."""
    reason = refused(model, cluster, layout)
    if reason is not None:
        return None, reason
    peak = peak_memory(model, layout)
    return peak, too_large(cluster, peak, _BOUNDS.usable) or ""


def _first(question: str, model: Model, cluster: Cluster, tried: Iterable[Layout]) -> Step:
    """The first of ``tried`` that fits, or else the nearest."""
    near = Step(question, Layout(data=cluster.size), None, "there is nothing to split")
    for layout in tried:
        step = Step(question, layout, *_judged(model, cluster, layout))
        if step.fits:
            return step
        near = _nearer(near, step)
    return near


def _nearer(one: Step, other: Step) -> Step:
    """The step with the smaller peak; one that can be set up before one that can't."""
    if other.peak is None:
        return other if one.peak is None else one
    return other if one.peak is None or other.peak.bytes < one.peak.bytes else one


def _cells(
    model: Model, cluster: Cluster, base: Layout, place: str, again: tuple[str, ...] = RECOMPUTE
) -> list[Layout]:
    """The stages and recomputations of given degrees, the least effort first."""
    if refused(model, cluster, base) is not None:
        return [base]
    split = (base.tensor, base.context, base.expert, base.pipeline, base.data)
    cells = [
        Layout(*split, stage, recompute, schedule=base.schedule, offload=place)
        for stage, _ in shardings(cluster, _AT[place], base.replicas)
        for recompute in again
    ]
    return sorted(cells, key=effort)


def _split(
    question: str, model: Model, cluster: Cluster, place: str, most_kinds: Iterable[int]
) -> Step:
    """The least effort among all degrees with so many kinds of splitting, the fewest first."""
    near = _first(question, model, cluster, ())
    bases = _bases(model, cluster)
    for kinds in most_kinds:
        found: list[Layout] = []
        for base in bases.get(kinds, ()):
            # If all that is computed again does not fit, nothing does.
            floors = _cells(model, cluster, base, place, RECOMPUTE[-1:])
            floor = _first(question, model, cluster, floors)
            near = _nearer(near, floor)
            if floor.fits:
                found += _cells(model, cluster, base, place)
        if found:
            return _first(question, model, cluster, sorted(found, key=effort))
    return near


def _hosted(question: str, model: Model, cluster: Cluster) -> Step:
    """The least effort with states in the host's memory, or else on its drives."""
    near = _first(question, model, cluster, ())
    for place in OFFLOAD[1:] if cluster.nvme_memory else OFFLOAD[1:2]:
        step = _split(question, model, cluster, place, range(_KINDS + 1))
        if step.fits:
            return step
        near = _nearer(near, step)
    return near


@lru_cache(maxsize=8)
def _bases(model: Model, cluster: Cluster) -> dict[int, list[Layout]]:
    """Kinds of splitting → every way to split that can be set up, stages and the rest left out."""
    made: dict[int, list[Layout]] = {}
    for tensor, context, expert, pipeline in degrees(model, cluster, _BOUNDS):
        data = cluster.size // (tensor * context * pipeline)
        layout = Layout(tensor, context, expert, pipeline, data)
        if micro_batches(model, layout) < pipeline:
            # 1F1B can't fill such a pipeline; GPipe may run it.
            layout = replace(layout, schedule="gpipe")
        if refused(model, cluster, layout) is None:
            made.setdefault(effort(layout)[1], []).append(layout)
    return made
