"""All simulations of the course in one run: a table each. (S76)"""

from typing import Any

from shardbook.pages.simulations import simulations

Tables = dict[str, list[dict[str, Any]]]


def run_demos(config: dict[str, dict[str, str]], seed: int) -> Tables:
    """Return the list of simulations with the engine functions that make each, and their tables."""
    found = simulations(config)
    index = [
        {"simulation": each.id, "shows": each.caption, "engine": " ".join(each.functions)}
        for each in found
    ]
    return {"simulations": index, **{each.id: each.rows() for each in found}}


def draw_demos(config: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the figures of the simulations that have one, as SVG by name."""
    return {each.id: each.draw() for each in simulations(config) if each.draw}
