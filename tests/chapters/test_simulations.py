"""The list of all simulations: complete, and true about who makes them (S76)."""

import importlib

import pytest
from chapters.execute import execute

from shardbook.errors import InputError
from shardbook.explorers.registry import MODULES
from shardbook.pages import simulations as listed
from shardbook.pages.simulations import simulations, simulations_text


def test_every_explorer_is_a_simulation_and_no_name_stands_twice():
    names = [each.id for each in simulations()]
    assert names[: len(MODULES)] == list(MODULES)
    assert len(set(names)) == len(names)


def test_each_names_functions_that_the_engine_has():
    for each in simulations():
        assert each.functions and each.caption
        for name in each.functions:
            module, _, function = name.rpartition(".")
            assert callable(getattr(importlib.import_module(f"shardbook.{module}"), function))


def test_a_simulation_names_what_it_calls_and_nothing_of_its_neighbours():
    by_name = {each.id: each.functions for each in simulations()}
    assert by_name["precisions"] == ("ledger.calculators.mixed_precision_comparison",)
    assert by_name["ledger-of-one-rank"] == ("ledger.stages.bytes_per_rank",)
    assert by_name["find-the-fault"] == ("training.replay.runs",)
    assert by_name["hybrid-sum"] == (
        "collectives.hierarchical.hybrid_reduce",
        "collectives.run.run_on_vectors",
    )


def test_nothing_is_computed_before_rows_are_asked_for(monkeypatch):
    def refuse(*given):
        raise AssertionError("computed")

    monkeypatch.setattr("shardbook.pages.tables_of_runs.Trainer", refuse)
    found = {each.id: each for each in simulations()}
    with pytest.raises(AssertionError, match="computed"):
        found["five-strategies"].rows()


@pytest.mark.parametrize("controls", [{"nothing": {}}, {"ring": {"nothing": "1"}}])
def test_unknown_controls_are_refused(controls):
    with pytest.raises(InputError):
        simulations(controls)


def test_the_list_links_each_explorer_to_its_pages():
    text = simulations_text("chapters/reference")
    lines = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert set(lines) == {each.id for each in listed.simulations()}
    assert "{doc}`../n46_collectives`" in lines["ring"]
    assert all("{doc}" in lines[name] for name in MODULES)


@pytest.mark.slow
def test_the_shortest_step_is_not_the_cheapest_token_on_the_page():
    """(S67, S76)"""
    page = execute("reference/experiments.md")
    (rows,) = page.tables().values()
    ran = [row for row in rows if row[5] != "–"]
    assert len(rows) == 3 * 4 and 0 < len(ran) < len(rows)
    cheapest = min(ran, key=lambda row: float(row[5]))
    quickest = max(ran, key=lambda row: float(row[4].replace(",", "")))
    assert (page.said["cheap"], page.said["cheap_cards"]) == cheapest[:2]
    assert (page.said["fast"], page.said["fast_cards"]) == quickest[:2] != cheapest[:2]
    assert page.said["simulations"] == str(len(simulations()))
