"""Training that really runs, on simulated devices that log every array and every transfer.

A strategy (`strategies`) says which states are sharded; a step is a program, a list of actions as
data (`programs`); `rank` executes one rank's actions on its `device`, `cluster` lets the ranks
meet in collectives, and `trainer` repeats that. Needs numpy.
"""
