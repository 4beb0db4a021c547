"""Writes an experiment's tables as JSON and CSV, and its picture: the same bytes on each run."""

import csv
import json
from pathlib import Path
from typing import Any

from shardbook.errors import InputError

Tables = dict[str, list[dict[str, Any]]]


def write_tables(folder: Path, head: dict[str, Any], tables: Tables) -> list[Path]:
    """Write ``results.json`` and one CSV a table; return the paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / "results.json"]
        text = json.dumps({**head, **tables}, indent=1, allow_nan=False, ensure_ascii=False)
        paths[0].write_text(text + "\n", encoding="utf-8")
        for name, rows in tables.items():
            paths.append(folder / f"{name}.csv")
            columns = list(dict.fromkeys(key for row in rows for key in row))
            with paths[-1].open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    except OSError as error:
        raise InputError("--out", str(folder), f"can't be written: {error.strerror}") from None
    return paths


def draw_systems(path: Path, tables: Tables) -> None:
    """Draw tokens a second against $ a million tokens for the configurations that fit."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    settings = {"svg.hashsalt": "shardbook", "svg.fonttype": "none"}
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
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
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
