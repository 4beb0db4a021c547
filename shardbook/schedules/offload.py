"""Timelines with the optimizer or the parameters outside of the GPU.

Sources: Ren et al., "ZeRO-Offload", USENIX ATC 2021, sections 4.1 (schedule) and 5.2 (one-step
delayed parameter update); Rajbhandari et al., "ZeRO-Infinity", SC 2021, section 6.2
(overlap-centric prefetching from NVMe).
"""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import real, whole
from shardbook.schedules.compiling import compile_plan
from shardbook.schedules.core import COMMUNICATION, COPY, Action, Buffer, Plan, Run, simulate

GPU: Final = "gpu"
CPU: Final = "cpu"
DOWN: Final = "gpu → cpu"
UP: Final = "cpu → gpu"
NVME: Final = "nvme → cpu"
NETWORK: Final = "all-gather"
#: the pools of a prefetch timeline: layers in host memory and on the GPU
HOST_POOL: Final = "host memory"
GPU_POOL: Final = "gpu memory"

_LONGEST: Final = 1e12


@dataclass(frozen=True, slots=True)
class OffloadStep:
    """One step of ZeRO-Offload; whole-model times in s, divided evenly over layers and chunks.

    ``download``: gradients to host memory, layer by layer under the backward. ``update``: the
    optimizer on the CPU, once all gradients are there. ``upload``: parameters to the GPU, a
    chunk of ``chunks`` as soon as it is updated (``pipelined``), or after the whole update.
    """

    forward: float
    backward: float
    download: float
    update: float
    upload: float
    layers: int = 32
    chunks: int = 32
    pipelined: bool = True

    def __post_init__(self) -> None:
        for name in ("forward", "backward", "download", "update", "upload"):
            real(name, getattr(self, name), 0, _LONGEST, "s")
        whole("layers", self.layers, 1, 10_000)
        whole("chunks", self.chunks, 1, 10_000)


def offload_plan(step: OffloadStep, steps: int = 1, *, delayed_from: int | None = None) -> Plan:
    """Compile ``steps`` steps of ZeRO-Offload (S45).

    ``delayed_from``: from this step on (0-based) a forward waits for the update before the last
    one only, so that each update runs beside the next step (DPU); the weights are then one
    update behind. None: never.
    """
    whole("steps", steps, 1, 1000)
    if delayed_from is not None:
        whole("delayed_from", delayed_from, 0, steps)
    actions: list[Action] = []
    updated: list[tuple[int, ...]] = []

    def add(name: str, stream: str, seconds: float, needs: tuple[int, ...] = ()) -> int:
        kind = "compute" if stream in (GPU, CPU) else COPY
        actions.append(Action(name, stream, seconds, needs, kind))
        return len(actions) - 1

    layers, chunks = step.layers, step.chunks
    for at in range(steps):
        delayed = delayed_from is not None and at >= delayed_from
        source = at - 2 if delayed else at - 1
        fresh = updated[source] if source >= 0 else ()
        for layer in range(layers):
            add(f"s{at}:F{layer}", GPU, step.forward / layers, () if layer else fresh)
        down = []
        for layer in reversed(range(layers)):
            done = add(f"s{at}:B{layer}", GPU, step.backward / layers)
            down.append(add(f"s{at}:D{layer}", DOWN, step.download / layers, (done,)))
        cpu = [
            add(f"s{at}:Adam{chunk}", CPU, step.update / chunks, (down[-1],))
            for chunk in range(chunks)
        ]
        updated.append(
            tuple(
                add(f"s{at}:U{chunk}", UP, step.upload / chunks, (done,))
                for chunk, done in enumerate(cpu if step.pipelined else [cpu[-1]] * chunks)
            )
        )
    return compile_plan(actions)


def offload_run(step: OffloadStep, steps: int = 1, *, delayed_from: int | None = None) -> Run:
    """Simulate `offload_plan`; the makespan ends with the last upload."""
    return simulate(offload_plan(step, steps, delayed_from=delayed_from))


def step_seconds(step: OffloadStep, *, delayed: bool = False) -> float:
    """The time from one step's first forward to the next one's, in the steady state, s (S47)."""
    steps = 6
    run = offload_run(step, steps, delayed_from=0 if delayed else None)
    begins = [
        start
        for action, start in zip(run.plan.actions, run.starts, strict=True)
        if action.name.endswith(":F0")
    ]
    return begins[-1] - begins[-2]


@dataclass(frozen=True, slots=True)
class PrefetchLayer:
    """A layer's way to its compute, times in s: NVMe → host → GPU, all-gather, compute."""

    nvme: float
    copy: float
    all_gather: float
    compute: float
    size: int = 1

    def __post_init__(self) -> None:
        for name in ("nvme", "copy", "all_gather", "compute"):
            real(name, getattr(self, name), 0, _LONGEST, "s")
        whole("size", self.size, 0, 2**63)


def prefetch_plan(layers: tuple[PrefetchLayer, ...], depth: int) -> Plan:
    """Compile a pass over ``layers``, of which up to ``depth`` are fetched ahead of the compute.

    Depth 0 reads a layer when the one before it is done: the three stages and the compute run
    one after the other. A layer takes its host buffer when its read starts and its GPU buffer
    when its copy starts.

    (S50)
    """
    whole("depth", depth, 0, 10_000)
    actions: list[Action] = []
    computed: list[int] = []
    for at, layer in enumerate(layers):
        host = (Buffer(HOST_POOL, f"layer {at}", layer.size),)
        gpu = (Buffer(GPU_POOL, f"layer {at}", layer.size),)
        free = (computed[at - depth - 1],) if at > depth else ()
        index = len(actions)
        actions += [
            Action(f"N{at}", NVME, layer.nvme, free, COPY, takes=host),
            Action(f"C{at}", UP, layer.copy, (index,), COPY, takes=gpu, releases=host),
            Action(f"AG{at}", NETWORK, layer.all_gather, (index + 1,), COMMUNICATION),
            Action(f"F{at}", GPU, layer.compute, (index + 2,), releases=gpu),
        ]
        computed.append(index + 3)
    return compile_plan(actions)
