"""The largest model: how many parameters each stage can hold, beside ZeRO's Table 2."""

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.ledger_controls import card_memory, recipe_choice, stage_choice
from shardbook.explorers.view import Table, View
from shardbook.ledger.cards import MODELS
from shardbook.ledger.fits import largest_model
from shardbook.ledger.published import rounded_first, table_2_row
from shardbook.ledger.recipes import RECIPES
from shardbook.numbers.units import format_bytes, format_count

_LEFT, _WIDTH, _ROW, _BAR = 4, 632, 62, 26


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest model of one stage in parameters, and what Table 2 prints, if it has the case."""

    stage: int
    parameters: int
    rounded: int
    printed: str

    @property
    def holds(self) -> str:
        """The largest of the published models that is no larger, or a dash."""
        smaller = [model.name for model in MODELS if model.parameters <= self.parameters]
        return smaller[-1] if smaller else "–"


def _draw(card: int, recipe: str, ranks: int, stage: str, parallel: int) -> View:
    printed = table_2_row(card, ranks, parallel, recipe) or ("",) * 4
    found = []
    for each in range(4):
        one = largest_model(card, ranks, each, recipe)
        found.append(Largest(each, parallel * one, rounded_first(one, parallel), printed[each]))
    where = (
        f"{format_bytes(card)} cards, {ranks:,} data-parallel × {parallel:,} model-parallel"
        f" = {ranks * parallel:,} {'card' if ranks * parallel == 1 else 'cards'}"
    )
    chosen = int(stage)
    return View(
        _figure(found, chosen),
        _table(found, f"Largest model by its states, {where}, {RECIPES[recipe].title}"),
        _sentence(found, chosen, card, ranks, parallel),
    )


def _figure(found: list[Largest], chosen: int) -> str:
    root = draw.canvas(_LEFT + _WIDTH + 4, 4 * _ROW)
    scale = _WIDTH / max(1, max(row.parameters for row in found))
    for row in found:
        _bar(root, row, scale, strong=row.stage == chosen)
    return draw.text_of(root)


def _bar(root: Element, row: Largest, scale: float, *, strong: bool) -> None:
    """Draw a bar below its text, so that a narrow screen shows the text of the longest too."""
    y = row.stage * _ROW
    printed = f" (Table 2: {row.printed})" if row.printed else ""
    text = f"stage {row.stage}: {format_count(row.parameters)}{printed}, {_models(row)}"
    draw.words(root, _LEFT, y + 18, text, class_="sb-strong" if strong else "")
    draw.add(
        root,
        "rect",
        x=_LEFT,
        y=y + 26,
        width=row.parameters * scale,
        height=_BAR,
        fill="currentColor",
        fill_opacity="0.85" if strong else "0.45",
    )


def _models(row: Largest) -> str:
    return "less than BERT-large" if row.holds == "–" else f"holds {row.holds}"


def _table(found: list[Largest], caption: str) -> Table:
    header = ("stage", "exactly", "rounded first", "ZeRO, Table 2", "times stage 0", "holds")
    rows = tuple(
        (
            f"stage {row.stage}",
            f"{row.parameters:,}",
            format_count(row.rounded),
            row.printed or "not in it",
            f"{row.parameters / found[0].parameters:.4g}" if found[0].parameters else "–",
            row.holds,
        )
        for row in found
    )
    return Table(caption, header, rows)


def _sentence(found: list[Largest], chosen: int, card: int, ranks: int, parallel: int) -> str:
    row, plain = found[chosen], found[0]
    start = (
        f"On {format_bytes(card)} cards, {ranks * parallel:,} in all, the states of up to"
        f" {format_count(row.parameters)} parameters fit at stage {chosen}"
    )
    if chosen == 0 and ranks > 1:
        return f"{start}, and on {parallel:,} just as many: the others are replicas."
    if chosen == 0 or not plain.parameters:
        return f"{start}."
    return f"{start}, {row.parameters / plain.parameters:.4g} times what stage 0 holds."


EXPLORER = Explorer(
    "largest-model",
    "The largest model these cards can hold",
    (
        card_memory("32GB"),
        recipe_choice(),
        Number("ranks", "Data-parallel ranks", "64", doublings(12), 1, 4096),
        stage_choice("3"),
        Number("parallel", "Model-parallel parts", "1", doublings(6), 1, 64),
    ),
    _draw,
)
