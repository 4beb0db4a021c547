"""Splitting the computation of a layer: tensor, expert and context parallelism on real arrays.

All ranks run in step, so the arrays of one moment are a list with one per rank.
"""
