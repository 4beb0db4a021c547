"""What a lab, a task and a criterion are."""

from dataclasses import dataclass


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
