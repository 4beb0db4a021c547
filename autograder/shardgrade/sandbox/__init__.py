"""Run a student's code apart: forked from a warm process, isolated and limited."""
