"""Grade again after a changed check or lab, and show what would change before it does.

What is graded for the preview is kept beside the course, so that applying grades nothing twice, and
a preview that was interrupted goes on.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from shardgrade import run
from shardgrade.grading.result import GradeRequest, SubmissionResult, digest_of
from shardgrade.layout import Layout


def kept_at(layout: Layout, assignment: str) -> Path:
    """Where results that are not applied yet are kept, one a line."""
    return layout.state / f"regrade-{assignment}.jsonl"


def remembering(path: Path, execute: run.Execute) -> run.Execute:
    """Like ``execute``, but what stands in ``path`` under the same digest is not graded again."""

    def grade(requests: Iterable[GradeRequest]) -> Iterator[SubmissionResult]:
        known = {(one.student, one.digest): one for one in _kept(path)}
        todo = []
        for request in requests:
            if found := known.get((request.student, digest_of(request))):
                yield found
            else:
                todo.append(request)
        if not todo:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for result in execute(todo):
                # A kill can leave half a line at the end: each begins on its own.
                file.write("\n" + result.to_json())
                file.flush()
                yield result

    return grade


def _kept(path: Path) -> Iterator[SubmissionResult]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield SubmissionResult.from_json(line)
        except (json.JSONDecodeError, KeyError, TypeError):
            continue  # half a line


def preview(
    layout: Layout,
    assignment: str,
    planned: run.Plan,
    execute: run.Execute,
    report: run.Report,
) -> run.Progress:
    """Grade what ``planned`` names and record nothing; `Progress.changes` is what would change."""
    old = run.automatic_scores(layout, assignment)
    progress = run.Progress(planned.total)
    for notebook, requests in planned.stale.items():
        for result in execute(requests):
            progress.done += 1
            progress.changes += run.changes(old.get((result.student, notebook)), result)
            report(result, progress)
    return progress
