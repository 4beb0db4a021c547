"""The planner: the best layouts, why others fail, and one of them with its ledger and timeline."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.layout_drawing import ledger, legend, timeline
from shardbook.explorers.planner_controls import between, card_choice, model_choice
from shardbook.explorers.view import Table, View
from shardbook.ledger.activations import RECOMPUTE
from shardbook.numbers.units import GB, format_bytes, format_seconds
from shardbook.planner.blocks import blocks_of
from shardbook.planner.layouts import OFFLOAD, Layout, Limits
from shardbook.planner.memory import Peak, peak_memory
from shardbook.planner.plan import Answer, Candidate, plan
from shardbook.planner.presets import MODELS, Cluster, cluster_named

#: B of NVMe a node where states may go there: a DGX-2's, ZeRO-Infinity, SC 2021, as reported
NVME: Final = 28_000 * GB
_SIMULATED: Final = 20
#: rows of the ranking and reasons that are drawn; the table has all
_ROWS, _REASONS = 5, 6
_LEFT, _WIDTH, _ROW, _LINE = 34, 604, 54, 19


@dataclass(frozen=True, slots=True)
class _Shown:
    """An answer, and a layout: a row's, or the nearest that fails, and the reason why."""

    answer: Answer
    limits: Limits
    row: int
    layout: Layout
    reason: str
    peak: Peak

    @property
    def chosen(self) -> Candidate | None:
        """The row's candidate; None if nothing fits."""
        return self.answer.ranked[self.row] if self.answer.ranked else None

    @property
    def room(self) -> float:
        """B of a card that may be filled."""
        return self.answer.cluster.card.memory * self.limits.usable


def _draw(
    model: str,
    card: str,
    nodes: int,
    cards: str,
    between: float,
    recompute: str,
    offload: str,
    host: int,
    row: int,
) -> View:
    cluster = replace(
        cluster_named(card), nodes=nodes, cards=int(cards), between=between, host_memory=host,
        nvme_memory=NVME,
    )  # fmt: skip
    limits = Limits(
        recompute=RECOMPUTE if recompute == "any" else (recompute,),
        offload=OFFLOAD[: OFFLOAD.index(offload) + 1],
    )
    answer = _plan(model, cluster, limits)
    at = min(row, max(1, len(answer.ranked))) - 1
    layout, reason = _layout(answer, at)
    view = _Shown(answer, limits, at, layout, reason, peak_memory(answer.model, layout))
    return View(_figure(view), _table(view), _sentence(view))


@lru_cache(maxsize=8)
def _plan(model: str, cluster: Cluster, limits: Limits) -> Answer:
    """The search, kept while a reader looks at one row after the other."""
    return plan(MODELS[model], cluster, limits, best=_SIMULATED)


def _layout(answer: Answer, row: int) -> tuple[Layout, str]:
    if answer.ranked:
        return answer.ranked[row].layout, ""
    misses = [each for each in answer.rejected if each.nearest_bytes] or answer.rejected
    nearest = min(misses, key=lambda each: each.nearest_bytes)
    return nearest.nearest, nearest.reason


def _figure(view: _Shown) -> str:
    answer = view.answer
    rows = list(range(min(_ROWS, len(answer.ranked))))
    if rows and view.row not in rows:
        rows[-1] = view.row
    reasons = answer.rejected[:_REASONS]
    fails = (66 if rows else 40) + len(rows) * _ROW
    held = fails + (len(reasons) + 1) * _LINE + 26
    runs = held + 112
    made = blocks_of(answer.model, answer.cluster, view.layout) if rows else None
    lanes = min(8, len(made.lanes)) if made else 0
    root = draw.canvas(648, runs + (52 + 26 * lanes if made else 0))
    draw.words(root, 0, 18, _counts(answer), class_="sb-strong")
    if rows:
        _key(root)
    for at, row in enumerate(rows):
        _row(root, view, row, 58 + at * _ROW)
    if reasons:
        draw.words(root, 0, fails + 14, "why the others fail", class_="sb-strong")
    for at, reason in enumerate(reasons):
        y = fails + 16 + (at + 1) * _LINE
        draw.words(root, 58, y, f"{reason.count:,}", anchor="end", class_="sb-small")
        draw.words(root, 66, y, reason.reason, class_="sb-small")
    title = f"row {view.row + 1}" if rows else "the nearest"
    draw.words(root, 0, held + 14, f"{title}: {_held_text(view)}", class_="sb-strong")
    ledger(root, EXPLORER.id, view.peak, view.layout, view.room, held + 28)
    if made:
        text = f"{title}: {_shown_text(view, made.shown)}, {format_seconds(made.seconds)}"
        draw.words(root, 0, runs + 14, text, class_="sb-strong")
        legend(root, made, runs + 22)
        timeline(root, made, runs + 48)
    return draw.text_of(root)


def _shown_text(view: _Shown, shown: int) -> str:
    assert view.chosen is not None
    count = view.chosen.micro_batches
    if view.layout.pipeline == 1:
        return f"the layers in the last of {count:,} micro-batches" if count > 1 else "the layers"
    first = f"the first {shown:,} of {count:,}" if shown < count else f"all {count:,}"
    return f"{first} micro-batches in the pipeline"


def _held_text(view: _Shown) -> str:
    held = [f"a card holds {format_bytes(view.peak.bytes, 3)} of {format_bytes(view.room, 3)}"]
    for place, size in (("host", view.peak.host_bytes), ("NVMe", view.peak.nvme_bytes)):
        if size:
            held.append(f"its {place} {format_bytes(size, 3)}")
    return ", ".join(held)


def _counts(answer: Answer) -> str:
    best = f", the best {len(answer.ranked)} simulated" if len(answer.ranked) > 1 else ""
    return f"{_searched(answer)}: {_fitting(answer)}{best}"


def _fitting(answer: Answer) -> str:
    return f"{answer.fitting or 'none'} fits" if answer.fitting < 2 else f"{answer.fitting:,} fit"


def _searched(answer: Answer) -> str:
    size = answer.cluster.size
    return f"{answer.considered:,} layouts on {size:,} {'card' if size == 1 else 'cards'}"


def _key(root: Element) -> None:
    x: float = _LEFT
    for opacity, label in (("0.6", "computes"), ("0.15", "waits")):
        draw.add(root, "rect", x=x, y=32, width=16, height=14, **_shade(opacity))
        draw.words(root, x + 22, 44, label, class_="sb-small")
        x += 110
    draw.words(root, x, 44, "first: a step, and what a card holds at most", class_="sb-small")


def _row(root: Element, view: _Shown, row: int, y: float) -> None:
    ranked = view.answer.ranked
    each, strong = ranked[row], row == view.row
    scale = _WIDTH / max(candidate.seconds for candidate in ranked)
    style = "sb-strong" if strong else ""
    degrees, stage, rest = str(each.layout).partition(f"stage {each.layout.stage}")
    draw.words(root, _LEFT - 8, y + 14, str(row + 1), anchor="end", class_=style)
    cost = f"{format_seconds(each.seconds)}, {format_bytes(each.peak.bytes, 3)}"
    draw.words(root, _LEFT, y + 14, f"{cost}: {degrees}{stage}", class_=style)
    draw.words(root, _LEFT, y + 30, rest.removeprefix(", "), class_="sb-small")
    busy = min(each.time.compute, each.seconds) * scale
    draw.add(root, "rect", x=_LEFT, y=y + 36, width=busy, height=9, **_shade("0.6"))
    waits = each.seconds * scale - busy
    draw.add(root, "rect", x=_LEFT + busy, y=y + 36, width=waits, height=9, **_shade("0.15"))
    if strong:
        draw.outline(root, 1, y - 3, 646, _ROW)


def _shade(opacity: str) -> dict[str, float | str]:
    return {"fill": "currentColor", "fill_opacity": opacity, "stroke": "currentColor"}


def _table(view: _Shown) -> Table:
    answer = view.answer
    rows = [
        (
            f"row {at + 1}",
            str(each.layout),
            format_bytes(each.peak.bytes, 3),
            format_seconds(each.seconds),
            f"{answer.model_flops(each) / 1e12:.0f}",
            each.time.waits_most_for,
        )
        for at, each in enumerate(answer.ranked)
    ]
    rows += [
        (
            f"{each.count:,} fail",
            f"{each.reason}; nearest: {each.nearest}",
            format_bytes(each.nearest_bytes, 3) if each.nearest_bytes else "–",
            "–", "–", "–",
        )
        for each in answer.rejected
    ]  # fmt: skip
    name = f"of row {view.row + 1}" if answer.ranked else "of the nearest"
    for piece, size in view.peak.pieces:
        if size:
            held = piece.replace("_", " ")
            rows.append((held, f"{name}, at the peak", format_bytes(size, 3), "–", "–", "–"))
    for place, size in (("host", view.peak.host_bytes), ("NVMe", view.peak.nvme_bytes)):
        if size:
            rows.append((place, f"{name}, a card", format_bytes(size, 3), "–", "–", "–"))
    return Table(
        _counts(answer),
        ("row", "layout", "peak a card", "step", "TFLOP/s a card", "waits most for"),
        tuple(rows),
    )


def _sentence(view: _Shown) -> str:
    answer, chosen = view.answer, view.chosen
    start = f"Of {_searched(answer)}"
    filled = (
        f"{format_bytes(view.peak.bytes, 3)} of the {format_bytes(view.room, 3)} of a card that may"
        " be filled"
    )
    if chosen is None:
        beside = ""
        for place, size in (("host", view.peak.host_bytes), ("NVMe", view.peak.nvme_bytes)):
            if size:
                total = format_bytes(size * answer.cluster.cards, 3)
                beside = f", and {total} on the {place} of a node"
        return (
            f"{start} none fits; the nearest, {view.layout}, takes {filled}{beside}: {view.reason}."
        )
    waits = chosen.time.waits_most_for
    waited = "waits for nothing" if waits == "nothing" else f"waits most for {_WAITS[waits]}"
    return (
        f"{start} {_fitting(answer)}; row"
        f" {view.row + 1}, {chosen.layout}, takes {format_seconds(chosen.seconds)} a step, reaches"
        f" {answer.model_flops(chosen) / 1e12:.0f} TFLOP/s a card, fills {filled}, and {waited}."
    )


_WAITS: Final = {
    "tensor": "tensor parallelism's collectives",
    "context": "context parallelism's exchange",
    "expert": "the experts' all-to-all",
    "pipeline": "the pipeline to fill and drain",
    "data": "data parallelism's collectives",
    "offload": "offloaded states",
}

EXPLORER = Explorer(
    "planner",
    "The planner",
    (
        model_choice("llama3-70b"),
        card_choice(),
        Number("nodes", "Nodes", "4", doublings(11), 1, 2048),
        Choice("cards", "Cards a node", "8", tuple((text, text) for text in ("1", "4", "8", "16"))),
        between(),
        Choice(
            "recompute", "Activations computed again", "any",
            (("any", "whatever is best"), ("none", "none"), ("selective", "attention's"),
             ("full", "all")),
        ),
        Choice(
            "offload", "States may lie", "host",
            (("none", "on the cards"), ("host", "on cards and host"),
             ("nvme", f"on cards, host and NVMe ({format_bytes(NVME)} a node)")),
        ),
        Number(
            "host", "Host memory of a node", "1TB",
            ("128GB", "256GB", "512GB", "1TB", "1.5TB", "2TB", "4TB"), 0, 1e15, kind="bytes",
        ),
        Number("row", "Row to look at", "1", tuple(str(n) for n in range(1, 21)), 1, _SIMULATED),
    ),
    _draw,
)  # fmt: skip
