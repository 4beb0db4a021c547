"""The labs and their tasks: one id from the text to the grade."""

from dataclasses import dataclass
from typing import Final

from shardbook.errors import one_of


@dataclass(frozen=True, slots=True)
class Criterion:
    """What is graded, by name: ``points`` are given whole or not at all.

    ``asks`` says what is wanted, ``hint`` what to look at when it was missed; neither answers.
    """

    name: str
    points: float
    asks: str
    hint: str


@dataclass(frozen=True, slots=True)
class Task:
    """One task: the student writes ``function``."""

    id: str
    title: str
    function: str
    minutes: int
    criteria: tuple[Criterion, ...]

    @property
    def points(self) -> float:
        """The points of all criteria."""
        return sum(criterion.points for criterion in self.criteria)

    @property
    def grade_id(self) -> str:
        """The id of the check's cell: nbgrader allows letters, digits, ``-`` and ``_`` only."""
        return self.id.replace(".", "-")

    @property
    def answer_id(self) -> str:
        """The id of the cell that holds the answer."""
        return f"{self.grade_id}-solution"

    def __str__(self) -> str:
        head = f"{self.id}  {self.title}: {self.points:g} points, about {self.minutes} minutes"
        rows = [f"  {c.points:4g}  {c.name}: {c.asks}" for c in self.criteria]
        return "\n".join([head, *rows])


@dataclass(frozen=True, slots=True)
class Lab:
    """One lab: ``labs/<stem>.md`` holds its text."""

    id: str
    title: str
    stem: str
    tasks: tuple[Task, ...]

    @property
    def minutes(self) -> int:
        """The minutes of all tasks."""
        return sum(task.minutes for task in self.tasks)

    @property
    def points(self) -> float:
        """The points of all tasks."""
        return sum(task.points for task in self.tasks)

    @property
    def notebook(self) -> str:
        """The name of the notebook a student works in."""
        return f"{self.stem}.ipynb"

    def __str__(self) -> str:
        head = f"Lab {self.id}, {self.title}: {self.points:g} points, about {self.minutes} minutes"
        rows = [f"  {t.id}  {t.title}: {t.points:g} points, {t.minutes} min" for t in self.tasks]
        return "\n".join([head, *rows])


_N45: Final = Lab(
    "n45",
    "The ledger",
    "n45_ledger",
    (
        Task(
            "n45.1",
            "Bytes per parameter of a recipe",
            "bytes_per_parameter",
            25,
            (
                Criterion(
                    "categories",
                    1.0,
                    "each category has the bytes of the format it is kept in",
                    "Follow one line of the recipe: which entry of the result does it belong to?",
                ),
                Criterion(
                    "several copies",
                    1.0,
                    "a category that is kept twice counts twice",
                    "What happens to the first line of a category when a second one comes?",
                ),
                Criterion(
                    "not kept",
                    0.5,
                    "every category is in the result, with nothing where nothing is kept",
                    "A reader of the result looks up all five categories, whatever the recipe.",
                ),
                Criterion(
                    "formats",
                    0.5,
                    "every format of the table is known by the bytes it takes in memory",
                    "A format's name tells how it computes; the table tells what it occupies.",
                ),
                Criterion(
                    "whole bytes",
                    0.5,
                    "bytes are ints",
                    "Bytes are counted, never measured: no float, no text, no numpy scalar.",
                ),
                Criterion(
                    "input untouched",
                    0.5,
                    "the recipe is the same after the call as before",
                    "The caller still needs the list: read it, don't consume it.",
                ),
            ),
        ),
    ),
)

LABS: Final = {lab.id: lab for lab in (_N45,)}

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
