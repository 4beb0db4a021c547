"""A pipeline schedule written by the reader: its first fault, marked, or its timeline."""

from typing import Final
from xml.etree.ElementTree import Element

from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Number, Text
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.pipeline_timeline import height, timed, timeline
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_seconds
from shardbook.schedules.faults import ScheduleError
from shardbook.schedules.pipeline import (
    Order,
    PipelineRun,
    StageTimes,
    format_order,
    make_order,
    parse_order,
    run_order,
)

_MOST_RANKS, _MOST_ACTIONS = 8, 96
#: the most steps of a faulty schedule that are drawn, the fault among them
_WINDOW: Final = 9
_LEFT, _WIDTH, _CELL, _ROW = 58, 588, 64, 34
#: width of a capital letter, and of a cell's border
_LETTER, _BORDER = 8.4, 8

_DEADLOCK: Final = """\
0F0 0B0 0F1 0B1
1F1 1B1 1F0 1B0"""
_FORGOTTEN: Final = """\
0F0 0F1 0F2 0B0 0B1 0B2
1F0 1F1 1B0 1F2 1B1 1B2
2F0 2B0 2F1 2B1 2F2"""
_TWO_CHUNKS: Final = """\
0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1"""


def _draw(actions: str, forward: float, backward_input: float, backward_weight: float) -> View:
    order = _read(actions)
    try:
        done = run_order(order, StageTimes(forward, backward_input, backward_weight))
    except ScheduleError as fault:
        return View(_grid(fault), _fault_table(fault), _fault_sentence(fault))
    except InputError as error:
        raise InputError("actions", error.value, error.allowed) from None
    return View(_timeline(done), _table(done), _sentence(done))


def _read(actions: str) -> Order:
    try:
        order = parse_order(actions)
    except InputError as error:
        raise InputError("actions", error.value, error.allowed) from None
    longest = max(map(len, order))
    if len(order) > _MOST_RANKS or longest > _MOST_ACTIONS:
        allowed = f"give at most {_MOST_RANKS} lines of {_MOST_ACTIONS} actions"
        raise InputError("actions", f"{len(order)} lines, up to {longest} actions", allowed)
    return order


def _timeline(done: PipelineRun) -> str:
    root = draw.canvas(648, 28 + height(len(done.order)))
    title = f"It runs: {format_seconds(done.makespan, 4)}, {done.bubble_fraction:.1%} idle"
    draw.words(root, 0, 16, title, class_="sb-strong")
    timeline(root, timed(done), 30)
    return draw.text_of(root)


def _grid(fault: ScheduleError) -> str:
    """The steps around the fault, ranks down; the fault framed and named.

    As many as have room for their names.
    """
    steps = max(map(len, fault.rows.values()))
    near = slice(max(0, fault.step - _WINDOW), fault.step + _WINDOW)
    longest = max(len(_label(action)) for row in fault.rows.values() for action in row[near])
    longest = max(longest, len(_label(fault.action, marked=True)))
    cell = max(_CELL, _LETTER * longest + _BORDER)
    window = min(_WINDOW, int(_WIDTH // cell))
    first = max(0, min(fault.step - window // 2, steps - window))
    root = draw.canvas(648, 62 + len(fault.rows) * _ROW + 8)
    title = f"It can't run: {fault.rank}, step {fault.step}, {fault.action}"
    draw.words(root, 0, 16, title, class_="sb-strong")
    shown = range(first, min(first + window, steps))
    draw.words(root, 0, 52, "step", class_="sb-small")
    for at in shown:
        x = _LEFT + (at - first + 0.5) * cell
        draw.words(root, x, 52, str(at), anchor="middle", class_="sb-small")
    for place, (rank, row) in enumerate(fault.rows.items()):
        y = 62 + place * _ROW
        draw.words(root, 0, y + 19, rank)
        for at in shown:
            if at < len(row):
                marked = (rank, at) == (fault.rank, fault.step)
                _cell(root, row[at], _LEFT + (at - first) * cell, y, cell, marked=marked)
    return draw.text_of(root)


def _label(action: str, *, marked: bool = False) -> str:
    text = action.removesuffix("OVERLAP_F_B").strip("()")
    return f"✗ {text}" if marked else text


def _cell(root: Element, action: str, x: float, y: float, width: float, *, marked: bool) -> None:
    place = {"x": x + 2, "y": y, "width": width - 4, "height": _ROW - 6}
    grey = {"fill": "currentColor", "fill_opacity": "0.08", "stroke": "currentColor"}
    draw.add(root, "rect", **place, **grey)
    weight = "sb-small"
    if marked:
        draw.outline(root, x + 2, y, width - 4, _ROW - 6)
        draw.outline(root, x - 1, y - 3, width + 2, _ROW)
        weight = "sb-small sb-strong"
    text = _label(action, marked=marked)
    draw.words(root, x + width / 2, y + 19, text, anchor="middle", class_=weight)


def _fault_table(fault: ScheduleError) -> Table:
    steps = max(map(len, fault.rows.values()))
    rows = []
    for rank, row in fault.rows.items():
        cells = [
            f"{action} ✗" if (rank, at) == (fault.rank, fault.step) else action
            for at, action in enumerate(row)
        ]
        rows.append((rank, *cells, *[""] * (steps - len(cells))))
    return Table(
        f"The schedule as written; ✗ {fault.reason}",
        ("rank", *(f"step {at}" for at in range(steps))),
        tuple(rows),
    )


def _fault_sentence(fault: ScheduleError) -> str:
    return f"This can't run. {fault.rank.capitalize()}, step {fault.step}, {fault.action}: {fault.reason}."


def _table(done: PipelineRun) -> Table:
    rows = [
        (
            f"rank {rank}",
            " ".join(map(str, row)) or "–",
            format_seconds(done.busy[rank], 4),
            format_seconds(done.makespan - done.busy[rank], 4),
            str(done.peak_live[rank]),
        )
        for rank, row in enumerate(done.order)
    ]
    return Table(
        f"The schedule, {format_seconds(done.makespan, 4)}; live: stage and micro-batch pairs "
        "between a forward and the end of its backward",
        ("rank", "actions", "computes", "idle", "most live"),
        tuple(rows),
    )


def _sentence(done: PipelineRun) -> str:
    return (
        f"This runs, in {format_seconds(done.makespan, 4)}: {done.bubble_fraction:.1%} of the "
        f"time is idle, which is {done.bubble_over_ideal:.1%} on top of the time without a "
        f"bubble; live at most {', '.join(map(str, done.peak_live))} by rank."
    )


def _seconds(name: str, label: str) -> Number:
    stops = ("0.25", "0.5", "1", "1.5", "2", "3", "4")
    return Number(name, label, "1", stops, 0.001, 1000, integer=False, kind="seconds", unit="s")


EXPLORER = Explorer(
    "action-list",
    "Write a schedule yourself",
    (
        Text(
            "actions",
            "Actions, a line a rank",
            (
                ("GPipe, 3 ranks, 4 micro-batches", format_order(make_order("gpipe", 3, 4))),
                ("1F1B, 3 ranks, 4 micro-batches", format_order(make_order("1f1b", 3, 4))),
                ("a fault to repair", _DEADLOCK),
                ("another fault to repair", _FORGOTTEN),
                ("two chunks a rank, by hand", _TWO_CHUNKS),
                (
                    "zero bubble, 3 ranks, 4 micro-batches",
                    format_order(make_order("interleaved-zero-bubble", 3, 4, 1)),
                ),
            ),
        ),
        _seconds("forward", "Forward of a stage"),
        _seconds("backward_input", "Backward, input part"),
        _seconds("backward_weight", "Backward, weight part"),
    ),
    _draw,
)
