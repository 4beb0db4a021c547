"""Pipeline parallelism: action lists, the orders that systems use, and their execution."""

from shardbook.schedules.pipeline.actions import (
    Order,
    PipelineAction,
    format_order,
    overlapped,
    parse_action,
    parse_order,
)
from shardbook.schedules.pipeline.orders import SCHEDULES, make_order
from shardbook.schedules.pipeline.pipedream import PipeDream, pipedream
from shardbook.schedules.pipeline.run import PipelineRun, StageTimes, rerun, run_order

__all__ = [
    "SCHEDULES",
    "Order",
    "PipeDream",
    "PipelineAction",
    "PipelineRun",
    "StageTimes",
    "format_order",
    "make_order",
    "overlapped",
    "parse_action",
    "parse_order",
    "pipedream",
    "rerun",
    "run_order",
]
