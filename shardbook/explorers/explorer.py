"""An explorer: a named function from plain parameters to a view, with its declared controls."""

from collections.abc import Callable
from dataclasses import dataclass

from shardbook.explorers.controls import Control, parse_all
from shardbook.explorers.view import View


@dataclass(frozen=True, slots=True)
class Explorer:
    """``draw`` takes the controls' values by name and returns the view of that state."""

    id: str
    title: str
    controls: tuple[Control, ...]
    draw: Callable[..., View]

    def view(self, raw: dict[str, str]) -> View:
        """Return the view for raw control texts; raises `InputError` naming the control."""
        return self.draw(**parse_all(self.controls, raw))
