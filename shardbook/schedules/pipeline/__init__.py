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
from shardbook.schedules.pipeline.program import Program, StageTimes, program_of
from shardbook.schedules.pipeline.run import PipelineRun, run_order, run_program

__all__ = [
    "SCHEDULES",
    "Order",
    "PipeDream",
    "PipelineAction",
    "PipelineRun",
    "Program",
    "StageTimes",
    "format_order",
    "make_order",
    "overlapped",
    "parse_action",
    "parse_order",
    "pipedream",
    "program_of",
    "run_order",
    "run_program",
]
