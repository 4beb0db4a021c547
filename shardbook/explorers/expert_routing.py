"""Expert routing: what each rank's experts have to do, what is dropped, and who keeps all waiting."""

from typing import Final

from shardbook.collectives.experts import (
    ExpertLoad,
    capacity,
    expert_flops,
    expert_load,
    skewed_loads,
)
from shardbook.collectives.plan import even_sizes
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, doublings
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_seconds

_LEFT: Final = 70
_BAR: Final = 440
_TOP: Final = 62
_ROW: Final = 32
#: an expert of Mixtral 8x7B (width, hidden), arXiv 2401.04088, and FLOP/s that a card reaches
_WIDTH: Final = 4096
_HIDDEN: Final = 14_336
_FLOPS: Final = 500e12


def _draw(skew: str, k: int, experts: int, ranks: str, tokens: int, factor: str) -> View:
    chosen = min(k, experts)
    wanted = skewed_loads(tokens, experts, chosen, float(skew))
    most = None if factor == "none" else capacity(tokens, experts, chosen, float(factor))
    load = expert_load(wanted, int(ranks), most)
    return View(_figure(load), _table(load), _sentence(load))


def _by_rank(load: ExpertLoad) -> list[tuple[int, int]]:
    """First expert and number of experts of each rank."""
    sizes = even_sizes(len(load.wanted), len(load.ranks))
    return [(sum(sizes[:rank]), size) for rank, size in enumerate(sizes)]


def _dropped(load: ExpertLoad) -> list[int]:
    return [
        sum(load.wanted[first : first + size]) - kept
        for (first, size), kept in zip(_by_rank(load), load.ranks, strict=True)
    ]


def _figure(load: ExpertLoad) -> str:
    dropped = _dropped(load)
    bottom = _TOP + _ROW * len(load.ranks)
    root = draw.canvas(640, bottom + 30)
    draw.words(root, _LEFT, 20, "Rows that a rank's experts compute", class_="sb-strong")
    draw.block(root, EXPLORER.id, "activations", _LEFT, 32, 12, 12)
    draw.words(root, _LEFT + 18, 43, "computed, a block an expert", class_="sb-small")
    draw.block(root, EXPLORER.id, "activations", _LEFT + 220, 32, 12, 12, texture="temporary")
    draw.words(root, _LEFT + 238, 43, "dropped", class_="sb-small")
    most = max(kept + lost for kept, lost in zip(load.ranks, dropped, strict=True))
    scale = _BAR / most
    for rank, (first, size) in enumerate(_by_rank(load)):
        y = _TOP + _ROW * rank
        draw.words(root, _LEFT - 8, y + 17, f"rank {rank}", anchor="end")
        x: float = _LEFT
        for kept in load.kept[first : first + size]:
            draw.block(root, EXPLORER.id, "activations", x, y, max(kept * scale - 1, 0), 24)
            x += kept * scale
        lost = dropped[rank] * scale
        if lost:
            draw.block(root, EXPLORER.id, "activations", x, y, lost, 24, texture="temporary")
        weight = "sb-strong" if load.ranks[rank] == max(load.ranks) else ""
        draw.words(root, 632, y + 17, f"{load.ranks[rank]:,}", anchor="end", class_=weight)
    mean = _LEFT + sum(load.ranks) / len(load.ranks) * scale
    draw.limit(root, mean, _TOP - 6, bottom, "mean")
    return draw.text_of(root)


def _seconds(tokens: float) -> float:
    return tokens * expert_flops(1, _WIDTH, _HIDDEN) / _FLOPS


def _table(load: ExpertLoad) -> Table:
    return Table(
        f"{_choices(sum(load.wanted))}; time at {_FLOPS / 1e12:g} TFLOP/s,"
        f" forward and backward, experts {_WIDTH:,} × {_HIDDEN:,}",
        ("rank", "experts", "computes", "dropped", "time"),
        tuple(
            (
                f"rank {rank}",
                f"{first}" if size == 1 else f"{first} to {first + size - 1}",
                f"{load.ranks[rank]:,}",
                f"{lost:,}",
                format_seconds(_seconds(load.ranks[rank]), 3),
            )
            for rank, ((first, size), lost) in enumerate(
                zip(_by_rank(load), _dropped(load), strict=True)
            )
        ),
    )


def _choices(count: int) -> str:
    return f"{count:,} choice{'s' * (count != 1)}"


def _sentence(load: ExpertLoad) -> str:
    total = sum(load.wanted)
    verb = "is" if load.dropped == 1 else "are"
    lost = f"{load.dropped:,} of {_choices(total)} ({load.dropped / total:.1%}) {verb} dropped"
    if not load.dropped:
        lost = "nothing is dropped"
    slowest = format_seconds(_seconds(max(load.ranks)), 3)
    if load.imbalance == 1:
        return f"All ranks have the same load and take {slowest}; {lost}."
    mean = format_seconds(_seconds(sum(load.ranks) / len(load.ranks)), 3)
    return (
        f"The fullest rank has {float(load.imbalance):.3g} times the mean load, and all wait for it:"
        f" {slowest} instead of {mean}; {lost}."
    )


EXPLORER = Explorer(
    "expert-routing",
    "Expert routing: the hot expert",
    (
        Choice(
            "skew", "Skew s: the e-th expert is liked as 1/e to the s", "0.7",
            (("0", "0, all alike"), *((x, x) for x in ("0.1", "0.2", "0.5", "0.7", "1", "1.5", "2", "3"))),
        ),
        Number("k", "Experts a token chooses, k", "2", ("1", "2", "4", "8"), 1, 64),
        Number("experts", "Experts", "16", ("16", "32", "64", "128", "256"), 16, 256),
        Choice("ranks", "Ranks", "8", tuple((n, n) for n in doublings(4))),
        Number("tokens", "Tokens of all ranks", "32768", doublings(20)[8:], 1, 1 << 30),
        Choice(
            "factor", "Capacity factor", "none",
            (("none", "no limit"), *((x, x) for x in ("0.5", "0.75", "1", "1.25", "1.5", "2", "3", "4"))),
        ),
    ),
    _draw,
)  # fmt: skip
