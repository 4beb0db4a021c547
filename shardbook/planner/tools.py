"""Which tool does what: DDP, FSDP2, DeepSpeed, Megatron-LM, Accelerate, and NCCL below them.

A tool answers a feature by itself, with another part (named), or not at all. Tools lie in layers:
a lower one is no substitute for a higher one. They move fast: this is what their documentation
said in 2025 and 2026, source by source. (S74)
"""

from dataclasses import dataclass
from typing import Final

from shardbook.planner.layouts import Layout

ITSELF: Final = "itself"
NO: Final = "no"

#: feature → what it is, in a reader's words
FEATURES: Final = {
    "replicas": "data parallelism, stage 0",
    "stage 1": "optimizer states cut (stage 1)",
    "stage 2": "gradients cut too (stage 2)",
    "stage 3": "weights cut too (stage 3)",
    "hybrid": "cut inside a node, replicas between nodes",
    "tensor": "tensor parallelism",
    "pipeline": "pipeline parallelism",
    "context": "context parallelism",
    "expert": "expert parallelism",
    "recompute": "activations computed again",
    "host": "optimizer states on the host",
    "nvme": "states on NVMe",
}


@dataclass(frozen=True, slots=True)
class Tool:
    """``does``: feature → `ITSELF`, `NO`, or the part that it needs. ``layer``: its place."""

    name: str
    layer: str
    does: dict[str, str]
    source: str

    def answer(self, feature: str) -> str:
        """`ITSELF`, `NO`, or with which part; a feature not listed is a no."""
        return self.does.get(feature, NO)


_CHECKPOINT: Final = "torch.utils.checkpoint"
_STAGES: Final = ("stage 1", "stage 2", "stage 3")

TOOLS: Final = (
    Tool("NCCL", "moves bytes between cards", {}, "NVIDIA, NCCL User Guide, overview"),
    Tool(
        "DDP",
        "wraps a model",
        {"replicas": ITSELF, "stage 1": "ZeroRedundancyOptimizer", "recompute": _CHECKPOINT},
        "PyTorch, torch.nn.parallel and torch.distributed.optim",
    ),
    Tool(
        "FSDP2",
        "wraps a model",
        {
            "stage 2": ITSELF,
            "stage 3": ITSELF,
            "hybrid": ITSELF,
            "tensor": "parallelize_module",
            "pipeline": "torch.distributed.pipelining",
            "context": "context_parallel",
            "recompute": _CHECKPOINT,
            "host": ITSELF,
        },
        "PyTorch, torch.distributed.fsdp.fully_shard and torch.distributed.tensor.parallel",
    ),
    Tool(
        "DeepSpeed",
        "wraps a model",
        {
            "replicas": ITSELF,
            **dict.fromkeys(_STAGES, ITSELF),
            "hybrid": "MiCS",
            "tensor": "the model, or Megatron-LM",
            "pipeline": ITSELF,
            "context": "Ulysses, which moves heads",
            "expert": ITSELF,
            "recompute": ITSELF,
            "host": ITSELF,
            "nvme": ITSELF,
        },
        "DeepSpeed, training overview and configuration; its pipeline refuses stages 2 and 3",
    ),
    Tool(
        "Megatron-LM",
        "brings the model and its loop",
        {
            "replicas": ITSELF,
            "stage 1": ITSELF,
            **dict.fromkeys(("stage 2", "stage 3", "hybrid"), "Megatron-FSDP"),
            **dict.fromkeys(("tensor", "pipeline", "context", "expert", "recompute"), ITSELF),
            "host": ITSELF,
        },
        "NVIDIA, Megatron Core guide: parallelism strategies, optimizer CPU offload",
    ),
    Tool(
        "Accelerate",
        "configures the others",
        {
            "replicas": "DDP",
            "stage 1": "DeepSpeed",
            **dict.fromkeys(("stage 2", "stage 3"), "FSDP2 or DeepSpeed"),
            **dict.fromkeys(("hybrid", "tensor", "context"), "FSDP2"),
            "pipeline": "Megatron-LM",
            "recompute": "FSDP2 or DeepSpeed",
            "host": "FSDP2 or DeepSpeed",
            "nvme": "DeepSpeed",
        },
        "Hugging Face, Accelerate: ParallelismConfig, FSDP, DeepSpeed and Megatron-LM guides",
    ),
)


def features_of(layout: Layout) -> tuple[str, ...]:
    """The features that a layout needs, in the matrix's order."""
    needed = {
        "replicas": not layout.stage and layout.replicas > 1,
        f"stage {layout.stage}": layout.stage and layout.replicas > 1,
        "tensor": layout.tensor > 1,
        "pipeline": layout.pipeline > 1,
        "context": layout.context > 1,
        "expert": layout.expert > 1,
        "recompute": layout.recompute != "none",
        layout.offload: layout.offload != "none",
    }
    return tuple(name for name in FEATURES if needed.get(name))


def who_can(layout: Layout) -> dict[str, tuple[str, ...]]:
    """Tool → the parts it needs for the layout beside itself; tools that can't are left out (S74).

    Feature by feature: that two of them go together is `launch_settings`' to say.
    """
    found = {}
    for tool in TOOLS:
        answers = [tool.answer(feature) for feature in features_of(layout)]
        if NO not in answers:
            found[tool.name] = tuple(dict.fromkeys(each for each in answers if each != ITSELF))
    return found


def matrix() -> tuple[tuple[str, ...], ...]:
    """Rows of the tool matrix: a feature in words, then each tool's answer in order (S74).

    ``yes``: by itself; ``with``: with a part that `parts` names; a dash: not at all.
    """
    return tuple(
        (words, *({ITSELF: "yes", NO: "–"}.get(tool.answer(feature), "with") for tool in TOOLS))
        for feature, words in FEATURES.items()
    )


def parts() -> tuple[tuple[str, str, str], ...]:
    """Rows of (tool, part that it needs, for what), in the matrix's order."""
    needed: dict[tuple[str, str], list[str]] = {}
    for tool in TOOLS:
        for feature in FEATURES:
            part = tool.answer(feature)
            if part not in (ITSELF, NO):
                needed.setdefault((tool.name, part), []).append(feature)
    return tuple((*key, ", ".join(features)) for key, features in needed.items())
