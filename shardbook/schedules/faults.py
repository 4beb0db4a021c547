"""Wrong schedules, refused with the picture: ranks down, steps across, the first fault marked."""

from collections.abc import Mapping, Sequence

from shardbook.errors import InputError

#: steps drawn on each side of the fault
WINDOW = 6


class ScheduleError(InputError):
    """A schedule that cannot run: ``rank``, ``step``, the ``action`` and the ``picture`` of it.

    ``str(error)`` is one line with the reason, then the grid of rank × step.
    """

    def __init__(
        self, rows: Mapping[str, Sequence[str]], rank: str, step: int, reason: str
    ) -> None:
        self.rows = {name: tuple(row) for name, row in rows.items()}
        self.rank = rank
        self.step = step
        self.action = self.rows[rank][step]
        self.reason = reason
        self.picture = draw_grid(self.rows, rank, step)
        super().__init__("schedule", f"{rank}, step {step}: {self.action}", reason)

    def __str__(self) -> str:
        return f"{self.rank}, step {self.step}: {self.action}: {self.reason}\n{self.picture}"

    def __reduce__(self) -> tuple[object, ...]:
        return (ScheduleError, (self.rows, self.rank, self.step, self.reason))


def draw_grid(rows: Mapping[str, Sequence[str]], rank: str, step: int) -> str:
    """Draw the steps around (``rank``, ``step``), one line a rank; the fault is in ``>…<``."""
    first = max(0, step - WINDOW)
    last = min(max(len(row) for row in rows.values()), step + WINDOW + 1)

    def cell(name: str, at: int) -> str:
        row = rows[name]
        text = row[at] if at < len(row) else ""
        return f">{text}<" if (name, at) == (rank, step) else f" {text} "

    label = max(len("step"), *(len(name) for name in rows))
    widths = [
        max(len(str(at)) + 2, *(len(cell(name, at)) for name in rows)) for at in range(first, last)
    ]
    heads = [f" {at} " for at in range(first, last)]
    lines = ["".join([f"{'step':<{label}} ", *map(str.center, heads, widths)]).rstrip()]
    for name in rows:
        cells = [cell(name, at) for at in range(first, last)]
        lines.append("".join([f"{name:<{label}} ", *map(str.center, cells, widths)]).rstrip())
    return "\n".join(lines)
