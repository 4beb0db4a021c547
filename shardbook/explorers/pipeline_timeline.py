"""The timeline of a pipeline: a row a rank, and under it what the rank holds; for two explorers."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.numbers.units import format_seconds
from shardbook.schedules.pipeline import PipelineRun
from shardbook.schedules.pipeline.actions import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD
from shardbook.schedules.timeline import memory

#: marks what a rank computes for another than its first chunk
_LATER: Final = "later"
#: kind → (label, how dark)
KINDS: Final = {
    FORWARD: ("F forward", "0.08"),
    BACKWARD: ("B backward", "0.3"),
    BACKWARD_INPUT: ("I input part", "0.3"),
    BACKWARD_WEIGHT: ("W weight part", "0.55"),
    _LATER: ("later chunk", "0.8"),
}
_LEFT, _WIDTH, _BAR, _CURVE, _GAP = 58, 448, 24, 18, 10
_RIGHT: Final = _LEFT + _WIDTH
#: below the width of a digit, blocks go without their micro-batch
_DIGIT: Final = 7.4


@dataclass(frozen=True, slots=True)
class _Blocks:
    """All that computes, ready to draw: paths by kind, the numbers in the blocks and where."""

    paths: dict[str, list[str]]
    numbers: list[tuple[float, float, str]]


@dataclass(frozen=True, slots=True)
class Timed:
    """A run with what every drawing of it needs, read off it once.

    ``held``: by rank (time in s, stage-chunks held from then on).
    """

    done: PipelineRun
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    held: tuple[tuple[tuple[float, int], ...], ...]
    blocks: _Blocks

    def holds(self, rank: int, time: float) -> int:
        """How many stage-chunks a rank holds at ``time``, s."""
        return next((count for since, count in reversed(self.held[rank]) if since <= time), 0)


def timed(done: PipelineRun) -> Timed:
    """Read times and memory off a run, and lay out its blocks."""
    run = done.run
    ranks = [f"rank {rank}" for rank in range(len(done.order))]
    held = tuple(memory(run, rank) if rank in run.plan.pools else () for rank in ranks)
    starts, ends = run.starts, run.ends
    return Timed(done, starts, ends, held, _blocks(done, starts, ends))


def height(ranks: int) -> float:
    """The height of the timeline of so many ranks, in units of the canvas."""
    return 46 + ranks * (_BAR + _CURVE + _GAP) + 16


def picture(done: PipelineRun) -> str:
    """The timeline of ``done`` alone, as SVG text."""
    root = draw.canvas(648, height(len(done.order)))
    timeline(root, timed(done), 0)
    return draw.text_of(root)


def timeline(
    root: Element,
    shown: Timed,
    top: float,
    *,
    time: float | None = None,
    per: int = 1,
    full: int = 1,
) -> None:
    """Draw a run below ``top``; ``time``: a moment to mark, s; ``per``: chunks of a rank;
    ``full``: stage-chunks held that fill a curve, at least.

    What is many becomes few paths, so that hundreds of micro-batches redraw at once.
    """
    done = shown.done
    scale = _scale(done)
    first = top + 46
    _key(root, shown.blocks, top)
    _draw_blocks(root, shown.blocks, first)
    columns = [("most", _RIGHT + 126)]
    if time is not None:
        columns.insert(0, ("holds now", _RIGHT + 76))
    for title, x in columns:
        draw.words(root, x, first - 6, title, anchor="end", class_="sb-small")
    times = {time for held in shown.held for time, _ in held}
    places = {time: draw.number(_LEFT + time * scale) for time in times}
    high = (_CURVE - 4) / max(*done.peak_live, full)
    for rank in range(len(done.order)):
        y = first + rank * (_BAR + _CURVE + _GAP)
        draw.words(root, 0, y + 17, f"rank {rank}")
        _curve(root, shown.held[rank], places, y + _BAR + _CURVE, high, done.makespan * scale)
        counts = [done.peak_live[rank]]
        if time is not None:
            counts.insert(0, shown.holds(rank, time))
        for count, (_, x) in zip(counts, columns, strict=True):
            draw.words(root, x, y + 17, spoken(count, per), anchor="end", class_="sb-strong")
    if time is not None:
        foot = first + len(done.order) * (_BAR + _CURVE + _GAP)
        at = _LEFT + time * scale
        draw.line(root, at, first - 4, at, foot - 4, "sb-limit")
        draw.words(root, at, foot + 10, moment(time), anchor="middle", class_="sb-small")


def spoken(count: int, per: int) -> str:
    """Say stage-chunks as micro-batches of a whole rank: 11 of 2 chunks are ``5½``."""
    value = Fraction(count, per)
    rest = {Fraction(1, 2): "½", Fraction(1, 4): "¼", Fraction(3, 4): "¾"}.get(value % 1)
    if rest:
        return f"{int(value) or ''}{rest}"
    return str(value) if value.denominator == 1 else f"{float(value):.3g}"


def moment(time: float) -> str:
    """Say a time of a run, in s."""
    return format_seconds(time, 4)


def _scale(done: PipelineRun) -> float:
    return _WIDTH / (done.makespan or 1)


def _blocks(done: PipelineRun, starts: tuple[float, ...], ends: tuple[float, ...]) -> _Blocks:
    scale = _scale(done)
    made, ranks = done.program.made, done.program.ranks
    rank_of = {stage: ranks[next(iter(like.values()))] for (stage, _), like in made.items()}
    first_of = {rank: stage for stage, rank in sorted(rank_of.items(), reverse=True)}
    # Much starts at once: each place is written once.
    places = {begin: f"M{_LEFT + begin * scale:.1f} " for begin in set(starts)}
    paths: dict[str, list[str]] = {}
    numbers: list[tuple[float, float, str]] = []
    later: list[str] = []
    narrow = False
    for (stage, kind), like in made.items():
        begins = [starts[at] for at in like.values()]
        length = ends[next(iter(like.values()))] - begins[0]
        if length <= 0 or kind not in KINDS:
            continue
        wide, rank = f"{length * scale:.1f}", rank_of[stage]
        y = rank * (_BAR + _CURVE + _GAP)
        moves = [places[begin] for begin in begins]
        whole = f"{y}h{wide}v{_BAR}h-{wide}z"
        paths.setdefault(kind, []).append(whole.join(moves) + whole)
        if stage != first_of[rank]:
            low = f"{y + _BAR - 4}h{wide}v4h-{wide}z"
            later.append(low.join(moves) + low)
        narrow = narrow or length * scale < _DIGIT * max(map(len, map(str, like))) + 2
        if not narrow:
            numbers += [
                (_LEFT + (begin + length / 2) * scale, y + 15, str(micro_batch))
                for begin, micro_batch in zip(begins, like, strict=True)
            ]
    if later:
        paths[_LATER] = later
    return _Blocks(paths, [] if narrow else numbers)


def _draw_blocks(root: Element, blocks: _Blocks, first: float) -> None:
    group = draw.add(root, "g", transform=f"translate(0 {draw.number(first)})")
    for kind, path in blocks.paths.items():
        style = _filled(KINDS[kind][1])
        if not blocks.numbers:
            style["stroke_width"] = 0.4
        draw.add(group, "path", d="".join(path), **style)
    for x, y, text in blocks.numbers:
        draw.words(group, x, y, text, anchor="middle", class_="sb-small")


def _filled(dark: str) -> dict[str, float | str]:
    return {"fill": "currentColor", "fill_opacity": dark, "stroke": "currentColor"}


def _key(root: Element, blocks: _Blocks, top: float) -> None:
    x: float = 0
    for kind, (label, dark) in KINDS.items():
        if kind in blocks.paths:
            thin = {"y": top + 5, "height": 4} if kind == _LATER else {"y": top, "height": 14}
            draw.add(root, "rect", x=x, width=16, **thin, **_filled(dark))
            draw.words(root, x + 22, top + 12, label, class_="sb-small")
            x += 36 + 6.2 * len(label)
    draw.block(root, "", "activations", x, top, 16, 14, texture="temporary")
    draw.words(root, x + 22, top + 12, "what it holds", class_="sb-small")


def _curve(
    root: Element,
    held: tuple[tuple[float, int], ...],
    places: dict[float, str],
    foot: float,
    high: float,
    long: float,
) -> None:
    """What a rank holds, ``high`` a stage-chunk, as an area on a line ``long`` at ``foot``."""
    heights = {count: draw.number(foot - count * high) for count in {count for _, count in held}}
    steps = [f"H{places[time]}V{heights[count]}" for time, count in held]
    start, end = draw.number(_LEFT), draw.number(_LEFT + long)
    path = f"M{start} {draw.number(foot)}{''.join(steps)}H{end}"
    fill = draw.CATEGORIES["activations"][1]
    style = {"fill": fill, "fill_opacity": "0.25", "stroke": fill}
    draw.add(root, "path", d=path, class_="sb-activations", **style)
