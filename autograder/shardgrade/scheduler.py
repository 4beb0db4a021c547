"""Grade on a Dask cluster: the same task, elsewhere; the results come back to the one writer.

The workers see the course folder and this package under the same paths (a shared file system).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from shardgrade.course import GraderError
from shardgrade.grading.result import GradeRequest, SubmissionResult, grade_submission

#: how long a scheduler may take to answer (s)
_PATIENCE: Final = 10


def on_cluster(
    address: str,
    requests: Iterable[GradeRequest],
    task: Callable[..., SubmissionResult] = grade_submission,
) -> Iterator[SubmissionResult]:
    """Grade on the cluster whose scheduler listens at ``address`` (``tcp://HOST:PORT``).

    Raises:
        GraderError: Dask is not installed, the scheduler does not answer, or a worker can't grade.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise GraderError("--scheduler needs Dask: pip install 'shardgrade[dask]'") from None
    try:
        client = Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise GraderError(f"--scheduler {address}: no scheduler answers there ({error})") from None
    with client:
        # A task is repeated when its worker dies; then it may be the submission: not for ever.
        futures = client.map(_graded, list(requests), task=task, pure=False, retries=2)
        for future in as_completed(futures):
            if failure := future.exception():
                raise GraderError(f"a worker can't grade: {failure}")
            yield SubmissionResult.from_json(future.result())


def _graded(request: GradeRequest, task: Callable[..., SubmissionResult]) -> str:
    return task(request).to_json()
