"""Bring submissions into the course: who handed in what, and where it goes."""
