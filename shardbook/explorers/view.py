"""What an explorer returns: a figure, the same content as a table, and the finding as a sentence."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """The content of the figure in rows; the first column names what a row is about."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"row {row} has {len(row)} cells under {len(self.header)} headings"
                )


@dataclass(frozen=True, slots=True)
class View:
    """One state of an explorer: ``figure`` is SVG text, ``sentence`` its alt text and finding."""

    figure: str
    table: Table
    sentence: str
