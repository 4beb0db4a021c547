"""nbgrader's settings for a course: load this from the course's own nbgrader_config.py."""

import sys

c = get_config()  # noqa: F821 - defined by the loader of such files

# Whoever only looks for the course's folders has not imported nbgrader, which takes two seconds.
if "nbgrader" in sys.modules:
    from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import ClearSolutions, GetGrades

    from shardgrade.preprocessors import (
        INCLUDED,
        TEMPLATES,
        FeedbackPage,
        HideChecks,
        NameTasks,
        WriteStubs,
    )

    c.GenerateAssignment.preprocessors = [
        WriteStubs if step is ClearSolutions else step
        for step in GenerateAssignment.preprocessors.default_args[0]
    ]
    c.GenerateFeedback.preprocessors = [
        GetGrades,
        HideChecks,
        NameTasks,
        CSSHTMLHeaderPreprocessor,
    ]
    c.GenerateFeedback.exporter_class = FeedbackPage
    c.FeedbackPage.template_name = "titled"
    c.FeedbackPage.extra_template_basedirs = TEMPLATES
    c.FeedbackPage.extra_template_paths = INCLUDED

# A deleted test cell is put back, so that it counts as what it tests and not as missing.
c.OverwriteCells.add_missing_cells = True

# A verdict never comes on stderr, but a student's logging may, and would cost all points.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = "."

c.Execute.timeout = 30

# Each kernel would warn on the terminal that its local ports are not encrypted.
c.Execute.extra_arguments = ["--log-level=ERROR"]
