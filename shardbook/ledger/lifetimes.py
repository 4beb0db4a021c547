"""One training step on one device, object by object: when each comes to life, is used, and goes.

A multilayer perceptron in mixed precision: weights, activations and gradients in 2 bytes an element,
what only the update reads in 4. Sizes only; `shardbook.training` runs the same step with arrays and
logs the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from shardbook.errors import InputError, whole

#: how long an object lives
ACROSS_STEPS: Final = "across steps"
ACROSS_LAYERS: Final = "across layers"
IN_AN_OPERATOR: Final = "inside an operator or to the next"

_HALF, _FULL = 2, 4


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of the step: ``bytes`` (B), alive from moment ``first`` to ``last``, both included.

    ``layer`` is the layer it belongs to; targets and outputs have the number after the last one's.
    ``uses`` are the moments that read or write it; in between it is only stored.
    """

    category: str
    layer: int
    bytes: int
    first: int
    last: int
    uses: tuple[int, ...]
    stays: bool = False  #: into the next step

    @property
    def scope(self) -> str:
        """Whether it lives across steps, across layers, or for one operator and the next."""
        if self.stays:
            return ACROSS_STEPS
        return ACROSS_LAYERS if self.last - self.first > 1 else IN_AN_OPERATOR


@dataclass(frozen=True, slots=True)
class OneStep:
    """The moments of a step, by name, and its objects. Moment 0 is before the step begins."""

    moments: tuple[str, ...]
    things: tuple[Thing, ...]

    def during(self, moment: int) -> tuple[Thing, ...]:
        """The objects that are there while a moment runs, those it makes and frees included."""
        return tuple(thing for thing in self.things if thing.first <= moment <= thing.last)

    def after(self, moment: int) -> tuple[Thing, ...]:
        """The objects that are there when a moment is over."""
        return tuple(t for t in self.during(moment) if t.stays or moment < t.last)

    @property
    def peak(self) -> int:
        """The first moment during which the most bytes are there."""
        sizes = [total(self.during(moment)) for moment in range(len(self.moments))]
        return sizes.index(max(sizes))


def total(things: Sequence[Thing]) -> int:
    """Return the bytes (B) of the objects together."""
    return sum(thing.bytes for thing in things)


def one_step(
    layers: Sequence[int], rows: int, optimizer_states: Sequence[str] = ("momentum", "variance")
) -> OneStep:
    """Return a step of the network with widths ``layers``, input first, on a batch of ``rows``.

    Layer i makes ``layers[i + 1]`` outputs of ``layers[i]`` inputs, with a bias, and keeps its
    input, an activation, for its backward; the activation is computed in place from the output
    of the layer before. Beside the master weights the update keeps ``optimizer_states``.

    Raises:
        InputError: fewer than two or more than 65 widths, or a size outside 1 to 10⁹.
    """
    if not 2 <= len(layers) <= 65:
        raise InputError("layers", ",".join(map(str, layers)), "give 2 to 65 widths, input first")
    widths = [whole("layers", width, 1, 10**9) for width in layers]
    whole("rows", rows, 1, 10**9)
    moments = _moments(len(widths) - 1)
    at = {name: number for number, name in enumerate(moments)}
    return OneStep(
        moments,
        (
            *_states(widths, at, ("master_weights", *optimizer_states)),
            *_passing(widths, rows, at),
            *_gradients(widths, at),
        ),
    )


def _moments(count: int) -> tuple[str, ...]:
    layers = range(count)
    return (
        "at rest",
        "load",
        *(f"forward {layer}" for layer in layers),
        "loss",
        *(f"backward {layer}" for layer in reversed(layers)),
        *(f"update {layer}" for layer in layers),
        "clear",
    )


def _states(widths: list[int], at: dict[str, int], kept: tuple[str, ...]) -> Iterator[Thing]:
    end = at["clear"]
    for layer, elements in enumerate(_elements(widths)):
        # The first layer's backward needs no gradient of its input, so no weights.
        passes = ("forward", "backward", "update") if layer else ("forward", "update")
        uses = tuple(at[f"{name} {layer}"] for name in passes)
        yield Thing("weights", layer, _HALF * elements, 0, end, uses, stays=True)
        for category in kept:
            used = (at[f"update {layer}"],)
            yield Thing(category, layer, _FULL * elements, 0, end, used, stays=True)


def _passing(widths: list[int], rows: int, at: dict[str, int]) -> Iterator[Thing]:
    """What goes from layer to layer: activations and outputs forth, their gradients back."""
    count = len(widths) - 1
    loss = at["loss"]
    yield Thing("targets", count, _FULL * rows * widths[-1], at["load"], loss, (at["load"], loss))
    for layer, width in enumerate(widths):
        size = _HALF * rows * width
        made = at[f"forward {layer - 1}"] if layer else at["load"]
        if layer == count:
            yield Thing("outputs", layer, size, made, loss, (made, loss))
            yield _back(layer, size, loss, at[f"backward {layer - 1}"])
            continue
        back = at[f"backward {layer}"]
        yield Thing("activations", layer, size, made, back, (made, at[f"forward {layer}"], back))
        if layer:
            yield _back(layer, size, back, at[f"backward {layer - 1}"])


def _back(layer: int, size: int, made: int, used: int) -> Thing:
    return Thing("output_gradients", layer, size, made, used, (made, used))


def _gradients(widths: list[int], at: dict[str, int]) -> Iterator[Thing]:
    for layer, elements in enumerate(_elements(widths)):
        made, used = at[f"backward {layer}"], at[f"update {layer}"]
        yield Thing("gradients", layer, _HALF * elements, made, at["clear"], (made, used))
        yield Thing("update_gradient", layer, _FULL * elements, used, used, (used,))


def _elements(widths: list[int]) -> list[int]:
    return [(inputs + 1) * outputs for inputs, outputs in pairwise(widths)]
