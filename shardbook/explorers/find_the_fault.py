"""Find the fault: what dashboards show of a real run, and which check finds what went wrong."""

import math
from collections.abc import Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Steps, Switch
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.logs import read
from shardbook.explorers.view import Table, View

_RUNS: Final = {
    "healthy": "no fault",
    "missing-parameter-all-gather": "all-gather of the weights forgotten",
    "reduced-parameter": "weights reduced instead of gradients",
    "local-gradient": "one rank updates with its own gradient",
    "sum-for-mean": "sum for mean",
    "repeated-data": "one rank reads another's rows",
    "bit-flip": "a bit of a stored weight flips",
    "skipped-collective": "one rank skips a call",
    "swapped-collectives": "one rank swaps two calls",
    "mismatched-count": "one rank's count differs",
    "mismatched-dtype": "one rank's dtype differs",
    "case-1": "hidden, case A",
    "case-2": "hidden, case B",
    "case-3": "hidden, case C",
    "case-4": "hidden, case D",
    "case-5": "hidden, case E",
}
#: check → what it compares
_CHECKS: Final = {
    "distinct-data": "checksum of the rows each rank reads",
    "same-weights": "checksum of the weights over ranks",
    "state-at-rest": "checksum of stored states, a step's end and the next start",
    "joint-gradient": "reduced gradient and that of the joint batch on one device",
    "call-matching": "the calls of the ranks, one by one",
}
_LAST: Final = 39

_LEFT: Final = 118
_WIDTH: Final = 500
_RISE: Final = 96
_LOSS: Final = 42
_NORM: Final = 196
_SUMS: Final = 350
_ROW: Final = 24


def _draw(run: str, checks: bool, step: int) -> View:
    log = read()["faults"][run]
    # a run that stops has no dashboard of the step it stops in
    at = min(step, len(log["faulty"]) - 1)
    return View(_figure(log, at, checks), _table(run, log, at, checks), _sentence(log, at, checks))


def _figure(log: dict[str, Any], at: int, checks: bool) -> str:
    root = draw.canvas(_LEFT + _WIDTH + 24, _SUMS + 5 * _ROW + 64)
    faulty, healthy = log["faulty"], log["healthy"]
    _key(root)
    _curve(root, "loss", [s[0] for s in healthy], [s[0] for s in faulty], _LOSS)
    _curve(root, "gradient norm", [s[1] for s in healthy], [s[1] for s in faulty], _NORM)
    _checksums(root, [s[2] for s in faulty])
    bottom = _SUMS + 4 * _ROW + 16
    for top, foot in ((_LOSS - 6, _NORM + _RISE), (_SUMS, bottom)):
        draw.line(root, _x(at), top, _x(at), foot).set("stroke-width", "2")
    draw.words(root, _x(at), bottom + 16, f"step {at}", anchor="middle", class_="sb-strong")
    if checks and log["found"]:
        _found(root, log, bottom + 44)
    elif log["stopped"]:
        draw.words(
            root, 0, bottom + 44, f"The run stops in step {len(faulty)}.", class_="sb-strong"
        )
    return draw.text_of(root)


def _x(step: float) -> float:
    return _LEFT + (step + 0.5) * _WIDTH / (_LAST + 1)


def _key(root: Element) -> None:
    draw.line(root, _LEFT, 14, _LEFT + 34, 14).set("stroke-width", "3")
    draw.words(root, _LEFT + 42, 18, "this run", class_="sb-small")
    draw.line(root, _LEFT + 130, 14, _LEFT + 164, 14, "sb-limit")
    draw.words(root, _LEFT + 172, 18, "the same run without a fault", class_="sb-small")


def _curve(
    root: Element, name: str, healthy: Sequence[float], faulty: Sequence[float], top: float
) -> None:
    most = max(*healthy, *(value for value in faulty if math.isfinite(value)))
    foot = top + _RISE
    draw.words(root, 0, top + 54, name, class_="sb-small sb-strong")
    draw.words(root, _LEFT - 8, top + 8, f"{most:.2g}", anchor="end", class_="sb-small")
    draw.words(root, _LEFT - 8, foot + 4, "0", anchor="end", class_="sb-small")
    draw.line(root, _LEFT, foot, _LEFT + _WIDTH, foot)
    for values, dashed in ((healthy, True), (faulty, False)):
        points = " ".join(
            f"{draw.number(_x(step))},{draw.number(foot - value / most * _RISE)}"
            for step, value in enumerate(values)
            if math.isfinite(value)
        )
        line = draw.add(root, "polyline", points=points, fill="none", stroke="currentColor")
        line.set("stroke-width", "2" if dashed else "3")
        if dashed:
            line.set("stroke-dasharray", "6 4")
    for step in range(0, _LAST + 1, 10):
        draw.words(root, _x(step), foot + 16, str(step), anchor="middle", class_="sb-small")


def _checksums(root: Element, sums: Sequence[Sequence[int]]) -> None:
    """A dot where a rank's weights are rank 0's, a filled square where they are not."""
    draw.words(
        root,
        0,
        _SUMS - 14,
        "weights after the step: □ as rank 0's  ■ not",
        class_="sb-small sb-strong",
    )
    wide = _WIDTH / (_LAST + 1)
    for rank in range(len(sums[0])):
        y = _SUMS + rank * _ROW
        draw.words(root, 0, y + 14, f"checksum, rank {rank}", class_="sb-small")
        for step, ranks in enumerate(sums):
            differs = ranks[rank] != ranks[0]
            texture = "owned" if differs else "temporary"
            category = "gradients" if differs else "buffers"
            side = 9.0
            x = _x(step) - side / 2
            box = draw.block(root, EXPLORER.id, category, x, y + 5, side, side, texture=texture)
            if not differs:
                box.set("stroke-width", "1")
    draw.line(
        root, _LEFT, _SUMS + 4 * _ROW, _LEFT + wide * (_LAST + 1), _SUMS + 4 * _ROW, "sb-faint"
    )


def _found(root: Element, log: dict[str, Any], y: float) -> None:
    """The first step in which each check speaks."""
    said = [f"{check}: step {step}, rank {rank}" for check, step, rank, _ in log["found"]]
    draw.words(root, 0, y, "Found by " + "; ".join(said), class_="sb-strong")


def _table(run: str, log: dict[str, Any], at: int, checks: bool) -> Table:
    loss, norm, sums = log["faulty"][at]
    other, usual = log["healthy"][at]
    rows = [
        ("loss", f"{loss:.4f}", f"without a fault {other:.4f}"),
        ("gradient norm, rank 0", f"{norm:.4f}", f"without a fault {usual:.4f}"),
    ]
    rows += [
        (
            f"checksum of the weights, rank {rank}",
            f"0x{own:08x}",
            "as rank 0" if own == sums[0] else "not as rank 0",
        )
        for rank, own in enumerate(sums)
    ]
    if log["stopped"]:
        rows.append(("the run", f"stops in step {len(log['faulty'])}", "no error, no loss printed"))
    if checks:
        found = {
            check: f"step {step}, rank {rank}: {text}" for check, step, rank, text in log["found"]
        }
        for check, compares in _CHECKS.items():
            answer = found.get(check, "nothing")
            rows.append((f"check {check}: {compares}", "finds", answer))
    return Table(
        f"{_RUNS[run]}, {log['strategy']}, step {at}",
        ("what", "value", "beside it"),
        tuple(rows),
    )


def _sentence(log: dict[str, Any], at: int, checks: bool) -> str:
    loss, norm, sums = log["faulty"][at]
    other, usual = log["healthy"][at]
    apart = ", ".join(f"rank {rank}" for rank, own in enumerate(sums) if own != sums[0])
    replicas = f"rank 0 has other weights than {apart}" if apart else "all weights agree"
    seen = (
        f"In step {at} the loss is {loss:.3f} ({other:.3f} without a fault), the gradient's norm "
        f"{norm:.3f} ({usual:.3f}), and {replicas}"
    )
    if log["stopped"]:
        seen += f"; in step {len(log['faulty'])} the run stops"
    if not checks:
        return f"{seen}; no check has been run yet."
    if not log["found"]:
        return f"{seen}; no check finds anything."
    check, step, rank, text = log["found"][0]
    return f"{seen}; {check} finds in step {step}, at rank {rank}: {text}."


EXPLORER = Explorer(
    "find-the-fault",
    "Find the fault",
    (
        Choice("run", "Run", "missing-parameter-all-gather", tuple(_RUNS.items())),
        Switch("checks", "Run the checks", "on"),
        Steps("step", "Step", "12", _LAST),
    ),
    _draw,
)
