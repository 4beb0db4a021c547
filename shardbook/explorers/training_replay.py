"""Replay of a real step: what one rank holds and sends in each action, and where its peak is."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Steps, Switch
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.logs import read
from shardbook.explorers.view import Table, View

_STRATEGIES: Final = {
    "dp": "data parallel",
    "zero1-all-reduce": "ZeRO-1 as often drawn",
    "zero1": "ZeRO-1",
    "zero2": "ZeRO-2",
    "zero3": "ZeRO-3",
    "hybrid": "hybrid: two groups of two",
}
_RANKS: Final = 4
#: the last action of the longest program, hybrid sharding's
_LAST: Final = 52
#: what the ledger of states leaves out
_OUTSIDE: Final = ("activations", "targets", "receive_buffers", "temporaries")
#: category of the log → (label, the book's category whose colour it has)
_KINDS: Final = {
    "weights": ("weights", "weights"),
    "master_weights": ("master weights", "master_weights"),
    "momentum": ("momentum", "momentum"),
    "variance": ("variance", "variance"),
    "gradients": ("reduced gradients", "gradients"),
    "gathered_weights": ("gathered parameters", "gathered_parameters"),
    "local_gradients": ("gradient just computed", "gradients"),
    "update_gradient": ("FP32 gradient of the update", "gradients"),
    "activations": ("activations", "activations"),
    "targets": ("targets", "buffers"),
    "receive_buffers": ("receive buffer", "buffers"),
    "temporaries": ("temporaries", "buffers"),
}
_STATES: Final = ("weights", "master_weights", "momentum", "variance", "gradients")

_LEFT: Final = 66
_WIDTH: Final = 570
_TOP: Final = 44
_HIGH: Final = 190

Held = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class _Moment:
    """One action at its fullest: bytes by category and unit, and what is sent in it.

    ``sizes``: bytes by category, those that are there, in the order in which they are drawn.
    """

    action: str
    held: Held
    sent: tuple[tuple[int, int, int], ...]  #: target, chunk, bytes (B) in each round
    sizes: dict[str, int]

    def total(self, *, outside: bool = False) -> int:
        return sum(
            size for category, size in self.sizes.items() if outside or category not in _OUTSIDE
        )


def _moment(action: str, held: Held, sent: list[list[int]]) -> _Moment:
    sizes = dict.fromkeys(_KINDS, 0)
    for (category, _), size in held.items():
        sizes[category] += size
    rounds = tuple((target, chunk, size) for target, chunk, size in sent)
    return _Moment(action, held, rounds, {name: size for name, size in sizes.items() if size})


@lru_cache(maxsize=32)
def _moments(strategy: str, rank: int) -> tuple[_Moment, ...]:
    log = read()["strategies"][strategy]
    held: Held = {(category, unit): size for category, unit, size in log["stored"][rank]}
    moments = []
    for action, changes, sent in log["events"][rank]:
        states = []
        for category, unit, change in changes:
            name = (category, unit)
            held = held | {name: held.get(name, 0) + change}
            held = {key: size for key, size in held.items() if size}
            states.append(_moment(action, held, sent))
        now = _moment(action, held, sent)
        if all(change < 0 for *_, change in changes):
            states = [now]  # what only frees is over when it has freed
        moments.append(max(states, key=lambda m: (m.total(), m.total(outside=True))))
    return tuple(moments)


def _draw(strategy: str, step: int, rank: str, everything: bool) -> View:
    moments = _moments(strategy, int(rank))
    at = min(step, len(moments) - 1)
    return View(
        _figure(strategy, moments, at, int(rank), everything),
        _table(strategy, moments, at, int(rank)),
        _sentence(strategy, moments, at, int(rank)),
    )


def _peak(moments: tuple[_Moment, ...]) -> int:
    """The action in which the states' ledger is fullest: the first of them."""
    return max(range(len(moments)), key=lambda number: (moments[number].total(), -number))


def _spoken(action: str) -> str:
    return action.replace(" ", " of unit ")


def _stored(strategy: str, rank: int) -> int:
    return sum(size for *_, size in read()["strategies"][strategy]["stored"][rank])


def _texture(strategy: str, category: str) -> str:
    if category not in _STATES:
        return "temporary"
    return "owned" if category in read()["strategies"][strategy]["sharded"] else "replicated"


def _figure(
    strategy: str, moments: tuple[_Moment, ...], at: int, rank: int, everything: bool
) -> str:
    root = draw.canvas(_LEFT + _WIDTH + 4, _TOP + _HIGH + 256)
    draw.hatches(root, EXPLORER.id)
    now = moments[at]
    title = f"Action {at} of {len(moments) - 1}: {_spoken(now.action)}"
    draw.words(root, 0, 16, title, class_="sb-strong")
    draw.words(
        root,
        _LEFT + _WIDTH,
        16,
        f"{now.total(outside=everything):,} B on rank {rank}",
        anchor="end",
        class_="sb-strong",
    )
    _bars(root, strategy, moments, at, everything)
    below = _TOP + _HIGH + 52
    _held(root, strategy, now, below, everything)
    _transfers(root, moments, at, rank, below)
    return draw.text_of(root)


def _bars(
    root: Element, strategy: str, moments: tuple[_Moment, ...], at: int, everything: bool
) -> None:
    """One stacked bar an action, at its fullest; those still to come are faint."""
    most = max(moment.total(outside=everything) for moment in moments)
    foot, column = _TOP + _HIGH, _WIDTH / len(moments)
    spacing = next(gap for gap in (50_000, 100_000, 200_000) if most / gap < 6)
    for mark in range(0, most, spacing):
        y = foot - mark / most * _HIGH
        draw.line(root, _LEFT, y, _LEFT + _WIDTH, y, "sb-faint" if mark else "")
        label = f"{mark // 1000} kB" if mark else "0"
        draw.words(root, _LEFT - 8, y + 4, label, anchor="end", class_="sb-small")
    peak = _peak(moments)
    boxes: dict[tuple[str, bool], list[tuple[float, float, float, float]]] = {}
    for number, moment in enumerate(moments):
        y = foot
        for category, size in moment.sizes.items():
            if category in _OUTSIDE and not everything:
                continue
            high = size / most * _HIGH
            y -= high
            box = (_LEFT + number * column + 1, y, column - 2, high)
            boxes.setdefault((category, number > at), []).append(box)
        if number == peak:
            middle = _LEFT + (number + 0.5) * column
            anchor = "end" if middle > _LEFT + _WIDTH - 70 else "middle"
            draw.words(root, middle, y - 6, "▼ peak", anchor=anchor, class_="sb-small sb-strong")
    for (category, to_come), places in boxes.items():
        colour, texture = _KINDS[category][1], _texture(strategy, category)
        drawn = draw.blocks(root, EXPLORER.id, colour, places, texture=texture)
        if to_come:
            drawn.set("opacity", "0.3")
    draw.outline(root, _LEFT + at * column - 1, _TOP - 4, column + 2, _HIGH + 8)
    _phases(root, moments, column)


def _phases(root: Element, moments: tuple[_Moment, ...], column: float) -> None:
    """Name the stretches of the step under the bars."""
    y = _TOP + _HIGH + 20
    phases = []
    phase = "forward"
    for moment in moments:
        kind = moment.action.split()[0]
        if kind == "loss":
            phase = "backward"
        elif kind == "update":
            phase = "update"
        phases.append(phase)
    start = 0
    for name, group in groupby(phases):
        count = len(list(group))
        middle = _LEFT + (start + count / 2) * column
        draw.words(root, middle, y, name, anchor="middle", class_="sb-small")
        start += count
        if start < len(phases):
            x = _LEFT + start * column
            draw.line(root, x, _TOP + _HIGH, x, y + 4, "sb-faint")


def _held(root: Element, strategy: str, now: _Moment, y: float, everything: bool) -> None:
    """What is there now, which is also the key to the colours."""
    draw.words(root, 0, y, "There now", class_="sb-strong")
    for category, (label, colour) in _KINDS.items():
        size = now.sizes.get(category, 0)
        if not size or (category in _OUTSIDE and not everything):
            continue
        y += 20
        texture = _texture(strategy, category)
        draw.block(root, EXPLORER.id, colour, 2, y - 11, 22, 13, texture=texture)
        draw.words(root, 34, y, label, class_="sb-small")
        draw.words(root, 300, y, f"{size:,} B", anchor="end", class_="sb-small")


def _transfers(root: Element, moments: tuple[_Moment, ...], at: int, rank: int, y: float) -> None:
    """The ranks in their ring, and what this one has sent so far."""
    x, now = 340.0, moments[at]
    draw.words(root, x, y, "Sent in this action", class_="sb-strong")
    targets = sorted({target for target, *_ in now.sent})
    for number in range(_RANKS):
        left = x + number * 76
        box = draw.outline(root, left, y + 22, 52, 28)
        box.set("stroke-width", "3" if number == rank else "1")
        draw.words(root, left + 26, y + 41, f"rank {number}", anchor="middle", class_="sb-small")
    for target in targets:
        _arrow(root, x + rank * 76 + 26, x + target * 76 + 26, y + 52)
    size, rounds = sum(one[2] for one in now.sent), len(now.sent)
    said = (
        f"{size:,} B to rank {targets[0]} in {rounds} round{'s' * (rounds > 1)}"
        if targets
        else "nothing"
    )
    draw.words(root, x, y + 98, said, class_="sb-small")
    so_far = sum(size for moment in moments[: at + 1] for *_, size in moment.sent)
    of_all = sum(size for moment in moments for *_, size in moment.sent)
    draw.words(root, x, y + 126, f"So far {so_far:,} B of {of_all:,} B", class_="sb-small")
    draw.block(root, EXPLORER.id, "buffers", x, y + 134, 280 * so_far / of_all, 12)
    draw.outline(root, x, y + 134, 280, 12).set("stroke-width", "1")


def _arrow(root: Element, start: float, end: float, y: float) -> None:
    foot = y + 22
    for x1, y1, x2, y2 in ((start, y, start, foot), (start, foot, end, foot), (end, foot, end, y)):
        draw.line(root, x1, y1, x2, y2).set("stroke-width", "2")
    draw.add(
        root,
        "path",
        d=f"M{draw.number(end - 5)} {draw.number(y + 9)} L{draw.number(end)} {draw.number(y)} "
        f"L{draw.number(end + 5)} {draw.number(y + 9)} Z",
        fill="currentColor",
    )


def _table(strategy: str, moments: tuple[_Moment, ...], at: int, rank: int) -> Table:
    now = moments[at]
    how = {
        "owned": "owned by this rank",
        "replicated": "in full on every rank",
        "temporary": "temporary",
    }
    rows = []
    for category, (label, _) in _KINDS.items():
        units = sorted(unit for name, unit in now.held if name == category)
        if units:
            inside = "no" if category in _OUTSIDE else "yes"
            what = how[_texture(strategy, category)]
            several = "units " if len(units) > 1 else "unit "
            named = several + ", ".join(map(str, units))
            if category in ("receive_buffers", "targets", "temporaries"):
                named = "–"
            rows.append((label, f"{now.sizes.get(category, 0):,} B", named, what, inside))
    rows.append(("sum of what counts", f"{now.total():,} B", "", "", ""))
    for target in sorted({target for target, *_ in now.sent}):
        chunks = ", ".join(str(chunk) for _, chunk, _ in now.sent)
        size = sum(size for *_, size in now.sent)
        rows.append((f"sent to rank {target}", f"{size:,} B", f"chunks {chunks}", "", ""))
    return Table(
        f"Rank {rank} of {_RANKS}, {_STRATEGIES[strategy]}, action {at}, {_spoken(now.action)}",
        ("what", "bytes", "of", "stored", "counts as a state"),
        tuple(rows),
    )


def _sentence(strategy: str, moments: tuple[_Moment, ...], at: int, rank: int) -> str:
    peak = moments[_peak(moments)]
    now = moments[at]
    where = f"In {_spoken(now.action)}, rank {rank} holds {now.total():,} B of states and gradients"
    if at == _peak(moments):
        end = (
            f"this is the peak, {now.total() - _stored(strategy, rank):,} B more than between steps"
        )
    else:
        end = f"the peak is {peak.total():,} B, in {_spoken(peak.action)}"
    sent = sum(size for moment in moments for *_, size in moment.sent)
    return f"{where}; {end}, and the whole step sends {sent:,} B ({_STRATEGIES[strategy]})."


EXPLORER = Explorer(
    "training-replay",
    "Replay of a real run: one step of one rank",
    (
        Choice("strategy", "Strategy", "zero3", tuple(_STRATEGIES.items())),
        Steps("step", "Action", "33", _LAST),
        Choice("rank", "Rank", "0", tuple((str(rank), f"rank {rank}") for rank in range(_RANKS))),
        Switch("everything", "Activations and buffers too", "off"),
    ),
    _draw,
)
