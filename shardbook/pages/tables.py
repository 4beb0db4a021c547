"""A table beside a static figure, with the same markup as the explorers' tables."""

from dataclasses import dataclass

from shardbook.explorers.html import table_html
from shardbook.explorers.view import Table


@dataclass(frozen=True, slots=True)
class Shown:
    """A table, displayed as HTML."""

    table: Table

    def _repr_html_(self) -> str:
        return f'<div class="sb-rows">{table_html(self.table)}</div>'


def table(caption: str, header: list[str], rows: list[list[str]]) -> Shown:
    """Return a table for the page; the first column names what a row is about.

    Raises `ValueError` for a row of another length than the header.
    """
    return Shown(Table(caption, tuple(header), tuple(tuple(row) for row in rows)))
