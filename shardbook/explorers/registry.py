"""Which explorers exist, and where: a module is imported when its explorer is first asked for."""

import importlib
from typing import Final

from shardbook.errors import one_of
from shardbook.explorers.explorer import Explorer

#: explorer id → module in this package; each module defines `EXPLORER`
MODULES: Final = {
    "training-replay": "training_replay",
    "find-the-fault": "find_the_fault",
    "hybrid-sharding": "hybrid_sharding",
    "unequal-tokens": "unequal_tokens",
    "ring": "ring",
    "collective-cost": "collective_cost",
    "update-step-by-step": "update_step_by_step",
    "number-format": "number_format",
    "ledger-of-one-rank": "ledger_of_one_rank",
    "memory-against-ranks": "memory_against_ranks",
    "largest-model": "largest_model",
    "activations-and-checkpointing": "activations_and_checkpointing",
    "fragmentation": "fragmentation",
    "bucket-size": "bucket_size",
    "pipeline": "pipeline",
    "action-list": "action_list",
    "tensor-parallel": "tensor_parallel",
    "expert-routing": "expert_routing",
    "process-groups": "process_groups",
    "which-limit": "choosing",
    "planner": "planner",
    "training-cost": "training_cost",
    "sharded-step": "sharded_step",
    "unit-size": "unit_size",
    "fsdp-timeline": "fsdp_timeline",
    "offload-placements": "offload_placements",
    "offload-bandwidth": "offload_bandwidth",
    "offload-timeline": "offload_timeline",
    "offload-prefetch": "offload_prefetch",
}


def get(explorer: str) -> Explorer:
    """Return the explorer of that id; raises `InputError` for an unknown one."""
    module = MODULES[one_of("explorer", explorer, MODULES)]
    found: Explorer = importlib.import_module(f"shardbook.explorers.{module}").EXPLORER
    return found
