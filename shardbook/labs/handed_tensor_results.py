"""Run a handed-in program of array operations on a layer; compare, count, weigh what it did."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from shardbook.labs.handed_tensor_heads import shape
from shardbook.labs.handed_tensor_layers import Layer
from shardbook.labs.handed_tensor_programs import BACKWARD, FORWARD, Ran, read_phase, run_phases
from shardbook.labs.values import Fault, show

_NUMBER_BYTES: Final = 8
_ROUNDING: Final = 1e-9


def run_handed(layer: Layer, value: Any) -> Ran | Fault:
    """Run ``value['forward']`` and ``value['backward']`` on a layer, or say what is wrong."""
    if not isinstance(value, dict):
        return Fault("result", "a dict", show(value))
    programs = []
    for phase in (FORWARD, BACKWARD):
        if phase not in value:
            return Fault("result", f"an entry '{phase}'", "none")
        program = read_phase(phase, value[phase])
        if isinstance(program, Fault):
            return program
        programs.append(program)
    return run_phases(layer.start, *programs)


def wrong_arrays(
    ran: Ran, layer: Layer, phase: str, names: Sequence[str] | None = None
) -> Fault | None:
    """Say which array of which rank is not one device's after ``phase``; ``None``: look at all."""
    for rank, wanted in enumerate(layer.expected[phase]):
        for name, right in wanted.items():
            if names is not None and name not in names:
                continue
            found = ran.after[phase][rank].get(name)
            if found is None:
                return Fault(f"rank {rank}, after the {phase}", f"an array {name}", "none")
            number = ran.made.get((phase, name))
            where = f"rank {rank}, {name}" + (f" of {phase} action {number}" if number else "")
            if found.shape != right.shape:
                return Fault(where, "an array of another shape", shape(found))
            scale = max(1.0, float(np.abs(right).max()))
            # NaN is not near anything
            far = ~(np.abs(found - right) <= _ROUNDING * scale)
            if far.any():
                got = f"{far.sum()} of {far.size} off, one by {(found - right)[far][0]:+.2g}"
                return Fault(where, "what one device computes", got)
    return None


def other_exchanges(ran: Ran, phase: str, all_reduces: int, besides: str = "") -> Fault | None:
    """Say what is sent that is not one of so many all-reduces; ``besides`` is allowed too."""
    found = [one for one in ran.exchanges if one.phase == phase and one.collective != besides]
    for number, one in enumerate(found):
        if one.collective != "all-reduce" or number >= all_reduces:
            wanted = f"{all_reduces} all-reduce{'s' * (all_reduces != 1)} and nothing else sent"
            return Fault(one.what, wanted, f"{one.collective} number {number + 1}")
    if len(found) < all_reduces:
        wanted = f"{all_reduces} all-reduce{'s' * (all_reduces != 1)}"
        return Fault(f"the {phase}", wanted, f"{len(found)}")
    return None


def sent_bytes(ran: Ran, phase: str) -> int:
    """The bytes (B) that the rank sends that sends most."""
    rows = [one.sent_bytes for one in ran.exchanges if one.phase == phase]
    return max(map(sum, zip(*rows, strict=True))) if rows else 0


def all_reduce_bytes(ranks: int, numbers: int) -> int:
    """The bytes (B) that a rank sends at most in a ring's all-reduce of so many numbers."""
    return _NUMBER_BYTES * 2 * (ranks - 1) * -(-numbers // ranks)


def too_many_sent(ran: Ran, phase: str, most: int, *, drawn: bool = False) -> Fault | None:
    """Say whether a rank sends more than ``most`` bytes (B); ``drawn``: and in which actions."""
    sent = sent_bytes(ran, phase)
    if sent <= most:
        return None
    found = [one for one in ran.exchanges if one.phase == phase]
    rows = [f"  {one.what}: {max(one.sent_bytes):,} B" for one in found] if drawn else []
    return Fault(f"the {phase}, a rank", "fewer bytes sent", "\n".join([f"{sent:,} B", *rows]))


def kept_whole(ran: Ran, alone: Ran) -> Fault | None:
    """Say of which array a rank keeps more than its part of what one rank ``alone`` keeps.

    Kept is what the backward reads of the forward. With as many tokens as ranks divide. Each array
    is weighed by itself: one that is cut twice does not make up for one that is whole.
    """
    ranks = ran.after[FORWARD]
    for rank, arrays in enumerate(ranks):
        for name in ran.kept:
            if len(ranks) * arrays[name].size > alone.after[FORWARD][0][name].size:
                wanted = f"a part in {len(ranks)} of what one rank alone keeps of it"
                return Fault(f"rank {rank}, {name} of the forward", wanted, shape(arrays[name]))
    return None


def too_many_products(ran: Ran, forward: int, backward: int) -> Fault | None:
    """Say whether a phase has more @ than these."""
    for phase, most in ((FORWARD, forward), (BACKWARD, backward)):
        if ran.products[phase] > most:
            return Fault(f"the {phase}", "no product twice", f"{ran.products[phase]} of them")
    return None
