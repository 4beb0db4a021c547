"""A table beside a static figure, with the same markup as the explorers' tables."""

from dataclasses import dataclass
from html import escape

from shardbook.explorers.html import table_html
from shardbook.explorers.view import Table


@dataclass(frozen=True, slots=True)
class Shown:
    """A table, displayed as HTML; ``folded`` is the line behind which it is folded away, if any."""

    table: Table
    folded: str = ""

    def _repr_html_(self) -> str:
        rows = f'<div class="sb-rows">{table_html(self.table)}</div>'
        if not self.folded:
            return rows
        return f'<details class="sb-table"><summary>{escape(self.folded)}</summary>{rows}</details>'


def table(caption: str, header: list[str], rows: list[list[str]], *, folded: str = "") -> Shown:
    """Return a table for the page; the first column names what a row is about.

    With ``folded`` the reader opens it; that text says what is inside.

    Raises `ValueError` for a row of another length than the header.
    """
    return Shown(Table(caption, tuple(header), tuple(tuple(row) for row in rows)), folded)
