"""Grade one submission in a grading process that stays warm in this process."""

import atexit
import functools

from shardgrade.grading.pool import WorkerProcess
from shardgrade.grading.result import GradeRequest, SubmissionResult


@functools.cache
def _process() -> WorkerProcess:
    process = WorkerProcess()
    atexit.register(process.close)
    return process


def run(request: GradeRequest) -> SubmissionResult:
    """Grade a submission; once more if something ran out of time."""
    result, timed_out = _process().grade(request)
    return _process().grade(request)[0] if timed_out else result
