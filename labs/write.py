"""Writes an experiment's tables as JSON and CSV, and its pictures: the same bytes on each run."""

import csv
import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from shardbook.errors import InputError

Tables = dict[str, list[dict[str, Any]]]


def write_all(
    folder: Path, head: dict[str, Any], tables: Tables, pictures: Mapping[str, str]
) -> list[Path]:
    """Write ``results.json``, a CSV for each table, an SVG for each picture; return the paths.

    Raises:
        InputError: the folder can't be written.
    """
    text = json.dumps({**head, **tables}, indent=1, allow_nan=False, ensure_ascii=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / "results.json"]
        paths[0].write_text(text + "\n", encoding="utf-8")
        for name, rows in tables.items():
            paths.append(folder / f"{name}.csv")
            columns = list(dict.fromkeys(key for row in rows for key in row))
            with paths[-1].open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        for name, picture in pictures.items():
            paths.append(folder / f"{name}.svg")
            paths[-1].write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InputError("--out", str(folder), f"can't be written: {error.strerror}") from None
    return paths


def draw_systems(tables: Tables) -> str:
    """Draw tokens a second against $ a million tokens for the configurations that fit."""

    def draw(axes: Any) -> None:
        rows = [row for row in tables["configurations"] if row.get("fits")]
        names = list(dict.fromkeys(row["strategy"] for row in rows))
        for marker, name in zip("osD^vP*X" * (1 + len(names) // 8), names, strict=False):
            mine = [row for row in rows if row["strategy"] == name]
            axes.scatter(
                [row["tokens_per_second"] for row in mine],
                [row["dollars_per_million_tokens"] for row in mine],
                marker=marker,
                label=name,
            )
        axes.set_xscale("log")
        axes.set_xlabel("tokens a second, all cards")
        axes.set_ylabel("$ a million tokens")
        axes.set_title("Right and low is better; only what fits by the ledger")
        if names:
            axes.legend(title="strategy")

    return _svg(draw)


def draw_faults(tables: Tables) -> str:
    """Draw each metric of the first fault, healthy and faulty, as parts of the larger one."""

    def draw(axes: Any) -> None:
        fault = tables["suspicions"][0]["fault"]
        rows = [row for row in tables["metrics"] if row["fault"] == fault]
        for place, row in enumerate(rows):
            largest = max(row["healthy_high"], row["faulty"]) or 1
            for value, shift, name, hatch in (
                ("healthy_high", -0.2, "healthy, the highest run", ""),
                ("faulty", 0.2, "faulty", "///"),
            ):
                axes.barh(
                    place + shift,
                    row[value] / largest,
                    0.36,
                    color="#0072B2" if not hatch else "white",
                    edgecolor="#0072B2" if not hatch else "#D55E00",
                    hatch=hatch,
                    label=name if not place else None,
                )
        names = [f"{row['metric']}{' (shows it)' if row['shows'] else ''}" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.invert_yaxis()
        axes.set_xlabel("part of the larger of the two")
        axes.set_title(tables["suspicions"][0]["suspicion"])
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)

    return _svg(draw)


def draw_messages(tables: Tables) -> str:
    """Draw what a rank sends of each kind of message."""

    def draw(axes: Any) -> None:
        rows = tables["a_step"]
        names = [f"{row['message']}, {row['axis']}" for row in rows]
        axes.barh(names, [row["sent_counted"] for row in rows], color="#0072B2")
        axes.invert_yaxis()
        axes.set_xlabel("B that a rank sends, all units once")

    return _svg(draw)


def _svg(draw: Callable[[Any], None]) -> str:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "shardbook", "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        draw(axes)
        made = BytesIO()
        figure.savefig(made, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return made.getvalue().decode()
