"""Write the pages that students read, by nbgrader's own feedback step."""

from pathlib import Path

from shardbook.errors import InputError
from shardgrade import course
from shardgrade.layout import Layout


def write_feedback(layout: Layout, assignment: str) -> dict[str, list[Path]]:
    """Write the feedback pages of all graded submissions; student → files.

    Raises:
        InputError: nothing was graded.
        GraderError: nbgrader can't write a page.
    """
    api = course.nbgrader(layout.root, layout.db_url)
    pages = {}
    for student in sorted(api.get_autograded_students(assignment)):
        result = api.generate_feedback(assignment, student, force=True)
        if not result["success"]:
            raise course.GraderError(f"{student}: {result.get('log', result['error'])}")
        folder = layout.folder("feedback", student, assignment)
        pages[student] = sorted(folder.glob("*.html"))
    if not pages:
        raise InputError("assignment", assignment, "nothing is graded yet")
    return pages
