"""The ledger of one rank: the states of every stage as stacked bars against one card."""

from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Number, decades, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.ledger_controls import card_memory, recipe_choice, stage_choice
from shardbook.explorers.view import Table, View
from shardbook.ledger.recipes import CATEGORIES
from shardbook.ledger.stages import Ledger, bytes_per_rank
from shardbook.numbers.units import format_bytes, format_count

_LEFT, _WIDTH, _ROW, _TOP = 70, 480, 46, 86


def _draw(parameters: int, recipe: str, stage: str, ranks: int, card: int) -> View:
    ledgers = [bytes_per_rank(parameters, ranks, each, recipe) for each in range(4)]
    chosen = ledgers[int(stage)]
    return View(_figure(ledgers, int(stage), card), _table(chosen), _sentence(chosen, card))


def _figure(ledgers: list[Ledger], stage: int, card: int) -> str:
    root = draw.canvas(_LEFT + _WIDTH + 90, _TOP + 4 * _ROW + 34)
    scope = EXPLORER.id
    draw.hatches(root, scope)
    present = [name for name in CATEGORIES if ledgers[0].by_category()[name]]
    draw.legend(root, scope, present, x=_LEFT, y=16)
    scale = _WIDTH / max(card, ledgers[0].fullest_rank_bytes)
    for each, ledger in enumerate(ledgers):
        _bar(root, ledger, _TOP + each * _ROW, scale, strong=each == stage)
    draw.limit(root, _LEFT + card * scale, _TOP - 8, _TOP + 4 * _ROW, f"card, {format_bytes(card)}")
    return draw.text_of(root)


def _bar(root: Element, ledger: Ledger, y: float, scale: float, *, strong: bool) -> None:
    weight = "sb-strong" if strong else ""
    draw.words(root, _LEFT - 10, y + 22, f"stage {ledger.stage}", anchor="end", class_=weight)
    x: float = _LEFT
    for line in ledger.lines_of(0):
        width = line.bytes * scale
        texture = "replicated" if line.replicated else "owned"
        draw.block(root, EXPLORER.id, line.category, x, y, width, 32, texture=texture)
        x += width
    draw.words(root, x + 8, y + 22, format_bytes(ledger.fullest_rank_bytes), class_=weight)
    if strong:
        draw.outline(root, _LEFT - 2, y - 2, x - _LEFT + 4, 36)


def _table(ledger: Ledger) -> Table:
    rows = [
        (
            f"{draw.CATEGORIES[line.category][0]}, {line.what}",
            format_bytes(line.bytes),
            "on every rank" if line.replicated else "owned by one rank",
            f"{line.bytes / ledger.parameters:.4g}",
        )
        for line in ledger.lines_of(0)
    ]
    total = ledger.fullest_rank_bytes
    rows.append(("total", format_bytes(total), "", f"{total / ledger.parameters:.4g}"))
    return Table(
        f"{_whose(ledger)} at stage {ledger.stage}, "
        f"{format_count(ledger.parameters)} parameters, {ledger.recipe.title}",
        ("category", "on this rank", "stored", "B per parameter"),
        tuple(rows),
    )


def _whose(ledger: Ledger) -> str:
    return f"The fullest of {ledger.ranks:,} ranks" if ledger.ranks > 1 else "The only rank"


def _sentence(ledger: Ledger, card: int) -> str:
    total = ledger.fullest_rank_bytes
    if total <= card:
        end = f"which leaves {format_bytes(card - total)} of {format_bytes(card)} of card memory for the rest"
    else:
        end = f"{format_bytes(total - card)} more than the {format_bytes(card)} of the card"
    return (
        f"At stage {ledger.stage} with {format_count(ledger.parameters)} parameters on "
        f"{ledger.ranks:,} {'rank' if ledger.ranks == 1 else 'ranks'}, the states fill "
        f"{format_bytes(total)} of the fullest rank, {end}."
    )


EXPLORER = Explorer(
    "ledger-of-one-rank",
    "The ledger of one rank",
    (
        Number("parameters", "Parameters", "8e9", decades(6, 13, ("1", "2", "4", "8")), 1e6, 1e13),
        recipe_choice(),
        stage_choice("0"),
        Number("ranks", "Ranks", "4", doublings(12), 1, 4096),
        card_memory("80GB"),
    ),
    _draw,
)
