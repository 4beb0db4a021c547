"""A layout as settings of DDP, FSDP2, DeepSpeed and Megatron-LM, or why a tool can't run it.

Names as documented: PyTorch 2 (`DistributedDataParallel`, `fully_shard`), DeepSpeed's JSON
configuration, Megatron-LM's arguments, for stages 2 and 3 those of Megatron-FSDP. (S74)

[Note: what leaves] A tool offloads what it offloads: where a layout puts more or less beside the
card than the tool would, it is not this layout that the tool runs.
"""

import json

from shardbook.planner.layouts import Layout, layers_of, leaves_the_card, micro_batches
from shardbook.planner.presets import Cluster, Model


def launch_settings(model: Model, cluster: Cluster, layout: Layout) -> dict[str, str]:
    """Return tool → its settings, or a line that starts with ``not possible:``."""
    start = f"torchrun --nnodes {cluster.nodes} --nproc-per-node {cluster.cards}"
    count = micro_batches(model, layout)
    return {
        "DDP": _ddp(start, layout, count),
        "FSDP2": _fsdp2(start, layout, count),
        "DeepSpeed": _deepspeed(layout, count),
        "Megatron-LM": _megatron(start, model, layout),
    }


def _splits(layout: Layout) -> list[str]:
    named = {
        "tensor": layout.tensor, "context": layout.context,
        "expert": layout.expert, "pipeline": layout.pipeline,
    }  # fmt: skip
    return [name for name, size in named.items() if size > 1]


def _cannot(names: list[str]) -> str:
    return f"not possible: no {' or '.join(names)} parallelism of its own"


def _passes(layout: Layout, count: int) -> str:
    passes = "pass" if count == 1 else "passes"
    sequences = "sequence" if layout.micro_batch == 1 else "sequences"
    return f"{count} {passes} of {layout.micro_batch} {sequences}"


def _ddp(start: str, layout: Layout, count: int) -> str:
    if _splits(layout):
        return _cannot(_splits(layout))
    if layout.offload != "none" or (layout.stage > 1 and layout.replicas > 1):
        return "not possible: gradients and weights are replicated, and stay on the card"
    sharded = layout.stage and layout.replicas > 1
    optimizer = "; ZeroRedundancyOptimizer(...)" if sharded else ""
    return (
        f"{start}; DistributedDataParallel(model){optimizer}; "
        f"{_passes(layout, count)}, all but the last in model.no_sync()"
    )


def _fsdp2(start: str, layout: Layout, count: int) -> str:
    if layout.stage < 2 and layout.replicas > 1:
        return "not possible: it shards gradients and optimizer states, i.e. stage 2 or 3"
    if layout.expert > 1:
        return _cannot(["expert"])
    if layout.offload == "nvme":
        return "not possible: it offloads to the host's memory only"
    # See [Note: what leaves].
    if layout.offload == "host" and layout.stage < 3:
        return "not possible: what it offloads takes the weights along, as at stage 3"
    names = [
        f'"{name}"={size}'
        for name, size in (
            ("pp", layout.pipeline), ("dp", layout.data),
            ("cp", layout.context), ("tp", layout.tensor),
        )
        if size > 1
    ]  # fmt: skip
    policy = ", offload_policy=CPUOffloadPolicy()" if layout.offload == "host" else ""
    return (
        f"{start}; device mesh {' × '.join(names) or 'of one card'}; fully_shard(each layer, "
        f"reshard_after_forward={layout.stage == 3}{policy}); "
        f"{_passes(layout, count)}"
    )


def _deepspeed(layout: Layout, count: int) -> str:
    missing = [name for name in _splits(layout) if name == "context"]
    if missing:
        return _cannot(missing)
    if layout.pipeline > 1 and layout.stage > 1:
        return "not possible: its pipeline allows stages 0 and 1 only"
    if layout.chunks > 1 or (layout.pipeline > 1 and layout.schedule != "1f1b"):
        return "not possible: its pipeline runs 1F1B with one stage a rank"
    leaving = leaves_the_card(layout.stage, layout.offload, layout.replicas)
    # Without replicas, stage 2 is how gradients leave the card.
    stage = max(2, layout.stage) if leaving and layout.replicas == 1 else layout.stage
    zero: dict[str, object] = {"stage": stage}
    place: dict[str, object] = {"device": "cpu", "pin_memory": True}
    if layout.offload == "nvme":
        place = {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": True}
    if leaving:
        zero["offload_optimizer"] = place
    if "weights" in leaving:
        zero["offload_param"] = place
    config: dict[str, object] = {
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": count,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
    }
    if layout.recompute == "full":
        # See [Note: checkpoints] in `shardbook.planner.memory`.
        config["activation_checkpointing"] = {"cpu_checkpointing": layout.offload == "nvme"}
    around = [f"{name} {getattr(layout, name)}" for name in _splits(layout)]
    return json.dumps(config) + (f" with {', '.join(around)} in the model" if around else "")


def _megatron(start: str, model: Model, layout: Layout) -> str:
    fully = layout.stage > 1 and layout.replicas > 1
    if fully and layout.pipeline > 1:
        return "not possible: with its FSDP mode (stages 2, 3) no pipeline is documented"
    if layout.schedule == "gpipe" and layout.pipeline > 1:
        return "not possible: its pipeline runs 1F1B, plain or interleaved"
    if "gradients" in leaves_the_card(layout.stage, layout.offload, layout.replicas):
        return "not possible: only its optimizer leaves the card"
    flags = [
        f"--tensor-model-parallel-size {layout.tensor}",
        f"--pipeline-model-parallel-size {layout.pipeline}",
        f"--micro-batch-size {layout.micro_batch}",
        f"--global-batch-size {model.batch // model.sequence}",
    ]
    if layout.tensor > 1:
        flags.append("--sequence-parallel")
    if layout.context > 1:
        flags.append(f"--context-parallel-size {layout.context}")
    if layout.expert > 1:
        flags.append(f"--expert-model-parallel-size {layout.expert}")
    if layout.chunks > 1:
        each = max(layers_of(model, layout))
        flags.append(f"--num-layers-per-virtual-pipeline-stage {each}")
    if layout.stage == 1 or fully:
        flags.append("--use-distributed-optimizer")
    if fully:
        cut = "optim_grads_params" if layout.stage == 3 else "optim_grads"
        flags.append(f"--use-megatron-fsdp --data-parallel-sharding-strategy {cut}")
        flags.append("--no-gradient-accumulation-fusion")
    if layout.offload == "host":
        flags.append("--optimizer-cpu-offload --use-precision-aware-optimizer")
    if layout.recompute == "full":
        flags.append("--recompute-granularity full --recompute-method uniform")
    elif layout.recompute == "selective":
        flags.append("--recompute-granularity selective")
    return f"{start} pretrain_gpt.py {' '.join(flags)}"
