"""Layers that stream through host memory to the GPU, as a plan handed in says: read and run.

A layer is (bytes, seconds to read it from NVMe, seconds to copy it to the GPU, seconds to compute).
A plan has one entry a layer: ``"keep"``, or a pair of layers, or None instead of a layer: its read
waits for the copy of the first, its copy for the compute of the second. (S50)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from shardbook.labs.values import Fault, show
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COPY, Action, Buffer, Run, simulate
from shardbook.schedules.offload import GPU, GPU_POOL, HOST_POOL, NVME, UP
from shardbook.schedules.timeline import first_over

#: bytes, and seconds of read, copy and compute
Layer = tuple[int, float, float, float]
#: what a streamed layer waits for, or None if it is kept on the GPU
Wait = tuple[int | None, int | None] | None

KEEP: Final = "keep"
_AN_ENTRY: Final = "'keep' or a pair of earlier layers or None"


@dataclass(frozen=True, slots=True)
class Streamed:
    """A pass that was run: its time in s, and bytes: kept for good, and at most held in host memory.

    ``gpu_peak`` counts the kept layers, too.
    """

    makespan: float
    kept: int
    host_peak: int
    gpu_peak: int


def run_layers(
    layers: Sequence[Layer], host_limit: int, gpu_limit: int, value: Any
) -> Streamed | Fault:
    """Run the plan that plain data stands for, or say what is wrong with it or does not fit.

    Reads, copies and computes go on beside each other, each in the order of the layers. A layer is
    in host memory from the start of its read to the end of its copy, and on the GPU from the start
    of its copy to the end of its compute.
    """
    waits = _read(layers, value)
    if isinstance(waits, Fault):
        return waits
    kept = sum(layer[0] for layer, wait in zip(layers, waits, strict=True) if wait is None)
    if kept > gpu_limit:
        return Fault("the layers to keep", f"at most {gpu_limit} B", f"{kept} B")
    run = simulate(compile_plan(_actions(layers, waits)))
    for pool, limit, resident in ((HOST_POOL, host_limit, 0), (GPU_POOL, gpu_limit, kept)):
        over = first_over(run, pool, limit, resident) if pool in run.plan.pools else None
        if over:
            return Fault(
                f"{over.action} at {over.time:g} s",
                f"at most {limit} B of {pool}",
                f"{over.held} B",
            )
    return Streamed(run.makespan, kept, _peak(run, HOST_POOL), kept + _peak(run, GPU_POOL))


def _peak(run: Run, pool: str) -> int:
    return run.peaks.get(pool, 0)


def _read(layers: Sequence[Layer], value: Any) -> list[Wait] | Fault:
    if not isinstance(value, (list, tuple)):
        return Fault("the plan", "a list with one entry a layer", show(value))
    if len(value) != len(layers):
        return Fault("the plan", "one entry a layer", f"{len(value)} entries")
    waits: list[Wait] = []
    for at, entry in enumerate(value):
        if entry == KEEP and isinstance(entry, str):
            waits.append(None)
            continue
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            return Fault(f"layer {at}", _AN_ENTRY, show(entry))
        for other in entry:
            if other is None:
                continue
            if type(other) is not int or not 0 <= other < at:
                return Fault(f"layer {at}", _AN_ENTRY, show(entry))
            if waits[other] is None:
                return Fault(f"layer {at}", "to wait for layers that are not kept", show(entry))
        waits.append((entry[0], entry[1]))
    return waits


def _actions(layers: Sequence[Layer], waits: Sequence[Wait]) -> list[Action]:
    actions: list[Action] = []
    copied: dict[int | None, int] = {}
    computed: dict[int | None, int] = {}
    for at, ((size, read, copy, compute), wait) in enumerate(zip(layers, waits, strict=True)):
        if wait is None:
            actions.append(Action(f"F{at}", GPU, compute))
            continue
        after_copy, after_compute = wait
        host, gpu = (Buffer(pool, f"layer {at}", size) for pool in (HOST_POOL, GPU_POOL))
        index = len(actions)
        free = (copied[after_copy],) if after_copy is not None else ()
        room = (computed[after_compute],) if after_compute is not None else ()
        actions += [
            Action(f"R{at}", NVME, read, free, COPY, takes=(host,)),
            Action(f"C{at}", UP, copy, (index, *room), COPY, takes=(gpu,), releases=(host,)),
            Action(f"F{at}", GPU, compute, (index + 1,), releases=(gpu,)),
        ]
        copied[at], computed[at] = index + 1, index + 2
    return actions
