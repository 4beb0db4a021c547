"""The course's grader: releases labs, grades submissions, writes feedback. For course staff."""

__version__ = "0.1.0"
