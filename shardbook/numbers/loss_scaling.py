"""Loss scaling: multiply the loss so that small gradients don't vanish in FP16, divide afterwards.

Static and dynamic scaling of Micikevicius et al., ICLR 2018, section 3.2; the dynamic rule and
its defaults are those of PyTorch's ``GradScaler``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from shardbook.errors import real, whole
from shardbook.numbers.formats import Format, round_to


@dataclass(frozen=True, slots=True)
class LossScale:
    """The scale of the next step's loss and how overflow and success change it (S11).

    A step whose gradients hold an infinity or NaN is skipped and multiplies the scale by
    ``backoff``; ``growth_interval`` good steps in a row multiply it by ``growth``.
    ``growth = backoff = 1`` is static scaling.

    Raises:
        InputError: a value is out of range.
    """

    scale: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    growth_interval: int = 2000
    good_steps: int = 0

    def __post_init__(self) -> None:
        real("scale", self.scale, 2.0**-126, 2.0**126)
        real("growth", self.growth, 1, 1024)
        real("backoff", self.backoff, 2.0**-10, 1)
        whole("growth_interval", self.growth_interval, 1, 10**9)
        whole("good_steps", self.good_steps, 0, 10**9)

    def after(self, overflow: bool) -> "LossScale":
        """Return the scale of the step after one that overflowed or not."""
        if overflow:
            return replace(self, scale=max(self.scale * self.backoff, 2.0**-126), good_steps=0)
        if self.good_steps + 1 < self.growth_interval:
            return replace(self, good_steps=self.good_steps + 1)
        return replace(self, scale=min(self.scale * self.growth, 2.0**126), good_steps=0)


def static(scale: float) -> LossScale:
    """Return a scale that never changes."""
    return LossScale(scale, growth=1.0, backoff=1.0)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of gradients in a format: counts that sum to their number."""

    vanished: int  #: rounded to zero
    subnormal: int  #: kept with fewer bits
    normal: int
    overflowed: int


def fate(fmt: Format, gradients: Iterable[float], scale: float = 1.0) -> Fate:
    """Count what becomes of ``gradients`` times ``scale`` in ``fmt``; zeros count as normal.

    (S11)
    """
    vanished = subnormal = normal = overflowed = 0
    for gradient in gradients:
        rounded = abs(round_to(fmt, gradient * scale))
        if not math.isfinite(rounded):
            overflowed += 1
        elif rounded == 0 and gradient != 0:
            vanished += 1
        elif 0 < rounded < fmt.smallest_normal:
            subnormal += 1
        else:
            normal += 1
    return Fate(vanished, subnormal, normal, overflowed)
