"""Graded labs, the student's side: what the tasks are, a check that explains, start and pack.

Nothing here imports nbgrader, and nothing here knows an answer that the engine does not compute.
"""

from shardbook.labs.checking import check
from shardbook.labs.registry import about

__all__ = ["about", "check"]
