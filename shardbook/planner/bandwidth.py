"""How much bandwidth hides how much: ZeRO-Infinity's efficiency of a slower tier.

Rajbhandari et al., ZeRO-Infinity, SC 2021, §4: what is fetched once for A floating-point
operations a byte (its arithmetic intensity) over a link of B B/s, beside a device of P FLOP/s,
keeps the device busy A·B / (A·B + P) of the time, if nothing is overlapped. (S48)
"""

from typing import Final

from shardbook.errors import one_of, real, whole

#: what is fetched → how its intensity follows from the shape, in FLOP/B (§4.1)
KINDS: Final = {
    "weights-and-gradients": "sequence · batch",
    "optimizer-states": "sequence · batch / 4",
    "activation-checkpoints": "24 · hidden · interval",
}


def intensity(kind: str, *, sequence: int, batch: int, hidden: int, interval: int = 1) -> float:
    """Return the arithmetic intensity in FLOP/B of one of `KINDS`.

    Raises:
        InputError: an unknown kind, or a size that is not whole or not positive.
    """
    one_of("kind", kind, KINDS)
    sequence, batch = whole("sequence", sequence, 1, 10**9), whole("batch", batch, 1, 10**9)
    hidden, interval = whole("hidden", hidden, 1, 10**9), whole("interval", interval, 1, 10**6)
    if kind == "activation-checkpoints":
        return float(24 * hidden * interval)
    tokens = sequence * batch
    return tokens / 4 if kind == "optimizer-states" else float(tokens)


def efficiency(intensity_: float, bandwidth: float, peak: float) -> float:
    """Return the part of the time that a device of ``peak`` FLOP/s computes at ``bandwidth`` (S48).

    Raises:
        InputError: a value that is not positive and finite.
    """
    work = real("intensity", intensity_, 1e-9, 1e30) * real("bandwidth", bandwidth, 1e-9, 1e30)
    return work / (work + real("peak", peak, 1e-9, 1e30))


def required_bandwidth(intensity_: float, wanted: float, peak: float) -> float:
    """Return the bandwidth in B/s at which the efficiency is ``wanted``, above 0 and below 1.

    Raises:
        InputError: a value out of its range.
    """
    wanted = real("efficiency", wanted, 1e-6, 1 - 1e-6)
    peak = real("peak", peak, 1e-9, 1e30)
    return wanted / (1 - wanted) * peak / real("intensity", intensity_, 1e-9, 1e30)
