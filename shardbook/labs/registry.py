"""The labs and their tasks: one id from the text to the grade."""

from typing import Final

from shardbook.errors import one_of
from shardbook.labs.lab_n44 import N44
from shardbook.labs.lab_n45 import N45
from shardbook.labs.lab_n46 import N46
from shardbook.labs.lab_n47 import N47
from shardbook.labs.lab_n48 import N48
from shardbook.labs.lab_offload import OFFLOAD
from shardbook.labs.lab_plan import PLAN
from shardbook.labs.lab_pp import PP
from shardbook.labs.lab_tp import TP
from shardbook.labs.tasks import Lab, Task

LABS: Final = {lab.id: lab for lab in (N44, N45, N46, N47, N48, PP, TP, OFFLOAD, PLAN)}

#: task id → task, over all labs
TASKS: Final = {task.id: task for lab in LABS.values() for task in lab.tasks}


def lab_named(lab: str) -> Lab:
    """Return the lab ``lab``; an unknown one raises `InputError`."""
    return LABS[one_of("lab", lab, LABS)]


def task_named(task: str) -> Task:
    """Return the task ``task``; an unknown one raises `InputError`."""
    return TASKS[one_of("task", task, TASKS)]


def lab_of(task: Task) -> Lab:
    """The lab that ``task`` belongs to."""
    return next(lab for lab in LABS.values() if task in lab.tasks)


def about(what: str) -> None:
    """Print a lab's tasks with their times (``n45``), or what a task is graded for (``n45.1``)."""
    print(LABS[what] if what in LABS else task_named(what))
